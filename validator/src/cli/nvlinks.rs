//! NVLinks for commands that show the fabric.

use super::CommandError;
use crate::config::Config;
use crate::engine;
use crate::machine::pcie::model::{Bdf, Fabric};
use crate::machine::pcie::topo::NvLinks;
use crate::machine::root::Root;
use crate::suite::NVML_HANGS;
use std::path::Path;

/// NVLinks of the GPUs that the driver is bound to; `None` if they are unknown. A recorded machine has no
/// driver here.
///
/// # Errors
/// NVML hangs: what it does not show must not be taken for PCIe.
pub(super) fn nvlinks(
    root: &Root,
    config: &Config,
    fabric: &Fabric,
) -> Result<Option<NvLinks>, CommandError> {
    let held =
        |bdf: &Bdf| fabric.devices.iter().any(|d| d.bdf == *bdf && d.driver.as_deref() == Some("nvidia"));
    let gpus: Vec<Bdf> = fabric.gpus.iter().copied().filter(held).collect();
    if gpus.len() < 2 || (root.path() != Path::new("/") && config.validate.library_path.is_empty()) {
        return Ok(None);
    }
    match engine::nvlinks(root, config, &gpus) {
        Ok(nvlinks) => Ok(Some(nvlinks)),
        Err(why) if why.starts_with(NVML_HANGS) => Err(CommandError::Undone(why)),
        Err(why) => {
            log::warn!("NVLinks are not shown: {why}");
            Ok(None)
        }
    }
}
