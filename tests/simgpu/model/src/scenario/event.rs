//! Something that befalls a simulated machine while it is used.

use serde::Deserialize;

/// One event. It happens once, with the so-manieth work of a kind that a process gives to its GPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// With which work.
    #[serde(default)]
    pub on: On,
    /// With the so-manieth of it.
    #[serde(default = "one")]
    pub after: u64,
    /// Which GPU it befalls.
    pub gpu: Option<usize>,
    /// The GPU is lost: NVML says so, its contexts end with 999, and no process can start CUDA any more.
    #[serde(default)]
    pub lost: bool,
    /// So many more corrected memory errors.
    #[serde(default)]
    pub corrected: u64,
    /// So many more uncorrected memory errors.
    #[serde(default)]
    pub uncorrected: u64,
    /// So many more rows that were replaced for uncorrected errors.
    #[serde(default)]
    pub remapped: u64,
    /// A row is to be replaced at the next reset.
    #[serde(default)]
    pub pending: bool,
    /// From now on the driver asks for this action to recover it, by NVML's number.
    pub recovery: Option<u64>,
    /// From now on its link has so many lanes.
    pub width: Option<u32>,
    /// From now on its clocks are held down by heat.
    #[serde(default)]
    pub hot: bool,
    /// Lines that the kernel logs.
    #[serde(default)]
    pub log: Vec<String>,
    /// So many records of the log are missing before them.
    #[serde(default)]
    pub log_lost: u64,
    /// Taint flags that the kernel sets, as their sum.
    #[serde(default)]
    pub taint: u64,
}

fn one() -> u64 {
    1
}

/// The work with which an event happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// Any.
    #[default]
    Work,
    /// Kernels that wait for each other (p2p-order).
    Pingpong,
    /// Kernels that follow a chain of addresses (p2p-latency).
    Chase,
    /// NCCL's collectives.
    Collective,
    /// Matrix products (gpu-products, gpu-power).
    Products,
}

impl Event {
    /// Refuses what cannot be meant on a machine with `gpus` GPUs.
    pub(super) fn check(&self, gpus: usize) -> Result<(), String> {
        match self.gpu {
            Some(gpu) if gpu >= gpus => Err(format!("names GPU {gpu} and there are {gpus}")),
            None if self.lost
                || self.pending
                || self.hot
                || self.width.is_some()
                || self.recovery.is_some()
                || self.corrected + self.uncorrected + self.remapped > 0 =>
            {
                Err("needs gpu".to_owned())
            }
            _ => Ok(()),
        }
    }
}
