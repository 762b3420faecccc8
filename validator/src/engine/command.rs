//! The command that starts a worker.

use super::worker;
use crate::config::Config;
use crate::process::lineage;
use std::process::Command;

/// This program again, with nothing of our environment except the folders of the driver's libraries. CUDA
/// then numbers GPUs by address, as NVML, `nvidia-smi` and the report do, and not the fastest first.
pub(super) fn command(config: &Config) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    lineage::beneath(command.arg(worker::COMMAND));
    command.env_clear().env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if !config.validate.library_path.is_empty() {
        command.env("LD_LIBRARY_PATH", config.validate.library_path.join(":"));
    }
    if let Some(limit) = &config.validate.limit {
        command.env(lineage::LIMIT, &limit.visible);
    }
    Ok(command)
}
