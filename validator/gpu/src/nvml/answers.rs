//! NVML's answers, as values.

use machine::pcie::model::Bdf;
use nvml_wrapper::enum_wrappers::device::P2pStatus;
use serde::{Deserialize, Serialize};
use std::fmt;

/// NVML's answer about one kind of peer access, in the letters of `nvidia-smi topo -p2p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// It works.
    #[serde(rename = "OK")]
    Ok,
    /// Chipset not supported.
    #[serde(rename = "CNS")]
    Chipset,
    /// GPU not supported.
    #[serde(rename = "GNS")]
    Gpu,
    /// Topology not supported.
    #[serde(rename = "TNS")]
    Topology,
    /// Disabled by a registry key.
    #[serde(rename = "DR")]
    Disabled,
    /// Not supported.
    #[serde(rename = "NS")]
    NotSupported,
    /// Unknown.
    #[serde(rename = "U")]
    Unknown,
}

/// What NVML lists (`nvmlSystemGetDriverVersion`, `nvmlDeviceGetHandleByIndex_v2`, `nvmlDeviceGetUUID`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmlGpus {
    /// The driver's version.
    pub driver: String,
    /// The address and the UUID of each GPU, as `GPU-xxxxxxxx-..`.
    pub gpus: Vec<(Bdf, String)>,
}

/// The mode of confidential computing that is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confidential {
    /// Whether it is the mode for all GPUs and NVSwitches of a machine.
    pub protected_pcie: bool,
    /// Whether the GPUs were declared ready, without which CUDA does not start; `None` if NVML does not say.
    pub ready: Option<bool>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "OK",
            Self::Chipset => "CNS (chipset not supported)",
            Self::Gpu => "GNS (GPU not supported)",
            Self::Topology => "TNS (topology not supported)",
            Self::Disabled => "DR (disabled by registry key)",
            Self::NotSupported => "NS (not supported)",
            Self::Unknown => "U (unknown)",
        })
    }
}

impl From<P2pStatus> for Status {
    fn from(status: P2pStatus) -> Self {
        match status {
            P2pStatus::Ok => Self::Ok,
            P2pStatus::ChipsetNotSupported => Self::Chipset,
            P2pStatus::GpuNotSupported => Self::Gpu,
            P2pStatus::IohTopologyNotSupported => Self::Topology,
            P2pStatus::DisabledByRegkey => Self::Disabled,
            P2pStatus::NotSupported => Self::NotSupported,
            P2pStatus::Unknown => Self::Unknown,
        }
    }
}

/// NVML's answers about an ordered pair; an `Err` says why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct P2pAnswers {
    /// Reading the peer's memory.
    pub read: Result<Status, String>,
    /// Writing it.
    pub write: Result<Status, String>,
    /// Atomics on it.
    pub atomics: Result<Status, String>,
    /// The vendor's own properties.
    pub prop: Result<Status, String>,
}

/// A GPU's present PCIe link; it is slower while the GPU idles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The present generation.
    pub generation: u32,
    /// The present number of lanes.
    pub width: u32,
    /// The highest generation that GPU and slot support.
    pub max_generation: u32,
    /// The most lanes.
    pub max_width: u32,
}

/// BAR1 of a GPU and the memory behind it, bytes (`nvmlDeviceGetBAR1MemoryInfo`, `nvmlDeviceGetMemoryInfo_v2`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar1Memory {
    /// The size of BAR1.
    pub bar1: u64,
    /// How much of it is mapped to memory.
    pub mapped: u64,
    /// The GPU's memory.
    pub memory: u64,
    /// The memory that the driver does not keep for itself.
    pub usable: u64,
}

/// A process that uses a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id, in NVML's namespace.
    pub pid: u32,
    /// Its name; empty when unknown.
    pub name: String,
    /// GPU memory that it holds, bytes; `None` when unknown.
    pub bytes: Option<u64>,
    /// Whether it computes; else it only draws.
    pub compute: bool,
    /// Whether it belongs to this run.
    pub ours: bool,
}

/// A GPU's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Clock of the multiprocessors, MHz.
    pub sm_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<u32>,
    /// Temperature, degrees Celsius.
    pub celsius: Option<u32>,
    /// Power, watts.
    pub watts: Option<f64>,
    /// Why its clocks are throttled; empty when they are not.
    pub throttled: Vec<String>,
}
