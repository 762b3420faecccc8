//! What setup has to know about a machine, as data. `read` fills it, `plan` decides by it alone.

use machine::host::iommu::IommuMode;
use outcome::platform::{Bdf, Host};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One machine.
#[derive(Debug, Clone, Serialize)]
pub struct State {
    /// `ID` of /etc/os-release; empty if unknown.
    pub distribution: String,
    /// What kind of machine it is.
    pub host: Host,
    /// What the IOMMU does.
    pub iommu: IommuMode,
    /// The GPUs that this system itself uses, on cards of their own.
    pub gpus: Vec<Gpu>,
    /// What connects the GPUs besides PCIe.
    pub switches: Switches,
    /// How many ports `fabric fix` would keep from redirecting.
    pub ports: usize,
    /// NVIDIA's driver.
    pub driver: Driver,
    /// What building modules needs.
    pub build: Build,
    /// Secure Boot.
    pub secure_boot: SecureBoot,
    /// Where kernels and their first file systems are.
    pub boot: Boot,
    /// The package's unit that corrects the fabric at boot.
    pub unit: Unit,
    /// Whether there is a journal of an earlier run.
    pub set_up: bool,
    /// The files that a plan may write, by path below the root: their text, for those that exist.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
}

/// One GPU.
#[derive(Debug, Clone, Serialize)]
pub struct Gpu {
    /// Its address.
    pub bdf: Bdf,
    /// Its PCI device id.
    pub device: u16,
    /// Its model.
    pub model: Option<String>,
    /// Whether it is a GeForce board.
    pub geforce: Option<bool>,
    /// Its memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Its BAR1 at present, bytes.
    pub bar1_bytes: Option<u64>,
    /// The largest BAR1 that it offers, bytes; `null` if it offers no other size, or if that is unknown.
    pub largest_bar1_bytes: Option<u64>,
    /// Whether the firmware's display is on it.
    pub boot_display: bool,
    /// How far its registers could be read.
    pub registers: Registers,
}

/// How far the registers of a GPU could be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Registers {
    /// As far as a plan needs.
    Read,
    /// All of them are ones: the GPU does not answer.
    Gone,
    /// Only the first ones.
    Short {
        /// How many, bytes.
        bytes: usize,
    },
    /// Its Resizable BARs are hidden by a fault of its configuration space.
    Hidden {
        /// The fault.
        fault: String,
    },
}

/// NVSwitches, and the programs that they need.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Switches {
    /// Whether there are any.
    pub there: bool,
    /// Whether they are those of NVLink 5, which need nvlsm.
    pub nvlink5: bool,
    /// Whether nvlsm runs.
    pub nvlsm: bool,
    /// Whether the fabric manager runs.
    pub fabric_manager: bool,
}

/// NVIDIA's driver.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Driver {
    /// The loaded module.
    pub loaded: Option<Loaded>,
    /// Other drivers that are loaded for these GPUs, such as nouveau.
    pub foreign: Vec<String>,
    /// The files of NVIDIA's module for the running kernel.
    pub files: Vec<String>,
    /// Versions of NVIDIA's modules in DKMS, without ours: name and version.
    pub dkms: Vec<(String, String)>,
    /// Lines of modprobe's configuration that decide about NVIDIA's module, without ours: file and line.
    pub modprobe: Vec<(String, String)>,
    /// The whole source of the loaded version, if it is here.
    pub source: Option<Source>,
    /// Folders that hold the source of the kernel's part alone.
    pub partial: Vec<String>,
    /// The driver's header with its registry keys.
    #[serde(skip)]
    pub header: Option<String>,
}

/// The loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Its version.
    pub version: String,
    /// Whether it is of the open flavour.
    pub open: bool,
    /// The level of our edits, which an edited module shows.
    pub patch: Option<String>,
    /// The registry keys in force, by GPU.
    pub keys: BTreeMap<String, String>,
}

/// The source of NVIDIA's modules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its folder, for people.
    pub shown: String,
    /// Its folder on this machine.
    #[serde(skip)]
    pub at: PathBuf,
    /// Its version.
    pub version: String,
}

/// What building modules needs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Build {
    /// Whether the running kernel's headers are here.
    pub headers: bool,
    /// The programs that are missing.
    pub missing: Vec<String>,
}

/// Secure Boot, and the key that DKMS signs modules with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SecureBoot {
    /// Whether it is on; `null` if the machine does not show it.
    pub on: Option<bool>,
    /// The certificate that DKMS has.
    pub certificate: Option<String>,
    /// Whether the firmware's list has that certificate.
    pub enrolled: bool,
}

/// Where kernels and their first file systems are.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Boot {
    /// Free space in /boot, bytes; `null` if unknown.
    pub free_bytes: Option<u64>,
    /// The largest first file system there, bytes.
    pub largest_initrd_bytes: u64,
    /// Folders that setup writes to and that are on a read-only file system.
    pub read_only: Vec<String>,
}

/// The package's units: the one that corrects the fabric at boot, and the one that checks what was set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// Whether the package's unit is installed.
    pub installed: bool,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether the package's unit that holds what runs against what was set up is installed.
    pub check_installed: bool,
    /// Whether that one is enabled.
    pub check_enabled: bool,
}
