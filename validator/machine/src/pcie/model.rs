//! The fabric as data: printed by `firstlight fabric show --json` and the basis of all PCIe judgements
//! (schema `firstlight.fabric/1`). Pure: reading fills it, judging uses it.

pub use super::routing::{Routing, Undetermined};
pub use outcome::platform::{Bdf, InvalidBdf, Peers};

use crate::host::cpu::Cpus;
use crate::host::iommu::Iommu;
use outcome::finding::{Finding, FindingEntry};
use outcome::platform::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the file format.
pub const SCHEMA: &str = "firstlight.fabric/1";

/// Everything that was read about one machine's fabric; its findings are typed, or in words where it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Fabric")]
pub struct Fabric<F = Finding> {
    /// `firstlight.fabric/1`.
    pub schema: String,
    /// The root that it was read from.
    pub root: String,
    /// The combined state of the IOMMU's sources.
    pub iommu: Iommu,
    /// Processor counts.
    pub cpus: Cpus,
    /// NUMA nodes that are online, as `/sys/devices/system/node/online` lists them; `null` in a
    /// kernel without NUMA.
    pub numa_nodes: Option<String>,
    /// Every PCI function, sorted by address.
    pub devices: Vec<Device>,
    /// RDMA devices (`/sys/class/infiniband`) that belong to a PCI function, sorted by address.
    pub rdma: Vec<Rdma>,
    /// The kernel's lockdown mode: `none`, `integrity`, `confidentiality`; `null` in a kernel
    /// without lockdown.
    pub lockdown: Option<String>,
    /// NVIDIA GPUs (class 03xx, or 0302), sorted by address.
    pub gpus: Vec<Bdf>,
    /// Network and InfiniBand functions (class 02xx) but those that lead to NVSwitches, sorted by address.
    pub nics: Vec<Bdf>,
    /// Every unordered pair of GPUs, then every GPU with every NIC that can exchange data with GPUs.
    pub paths: Vec<Path>,
    /// The devices among these that are meant to exchange data directly.
    #[serde(default)]
    pub peers: Peers,
    /// Findings of the read itself: malformed configuration space, no ECAM, quirks.
    pub findings: Vec<F>,
}

impl Fabric {
    /// The fabric with its findings in words, for this kind of machine.
    #[must_use]
    pub fn shown(&self, host: &Host) -> Fabric<FindingEntry> {
        Fabric {
            schema: self.schema.clone(),
            root: self.root.clone(),
            iommu: self.iommu.clone(),
            cpus: self.cpus,
            numa_nodes: self.numa_nodes.clone(),
            devices: self.devices.clone(),
            rdma: self.rdma.clone(),
            lockdown: self.lockdown.clone(),
            gpus: self.gpus.clone(),
            nics: self.nics.clone(),
            paths: self.paths.clone(),
            peers: self.peers.clone(),
            findings: FindingEntry::all(&self.findings, host),
        }
    }
}

impl<F> Fabric<F> {
    /// The paths between devices that are meant to exchange data directly: only there do ports matter.
    pub fn peer_paths(&self) -> impl Iterator<Item = &Path> {
        self.paths
            .iter()
            .filter(|path| self.peers.are(path.a, path.b))
    }
}

/// The role of a function in the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// PCIe root port.
    RootPort,
    /// Upstream port of a switch.
    Upstream,
    /// Downstream port of a switch.
    Downstream,
    /// PCIe endpoint, legacy or root-complex integrated.
    Endpoint,
    /// Another bridge (PCI, PCIe to PCI, host).
    Bridge,
    /// Anything without a PCIe capability that is not a bridge.
    Other,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Its address.
    pub bdf: Bdf,
    /// Vendor id as in `0x10de`.
    pub vendor: String,
    /// Device id as in `0x2684`.
    pub device: String,
    /// Class code with subclass and interface as in `0x030000`.
    pub class: String,
    /// Its role in the fabric.
    pub kind: Kind,
    /// The bridge directly above; `null` on a root bus.
    pub parent: Option<Bdf>,
    /// The physical function that a virtual function (SR-IOV) belongs to; its ids and its link are
    /// that one's. `null` where it is none, and in a virtual machine that was given one.
    pub physfn: Option<Bdf>,
    /// The host bridge's root bus as sysfs names it, `pci0000:c0`; `null` when it cannot be read.
    pub root_bus: Option<String>,
    /// NUMA node; `null` when the firmware names none.
    pub numa: Option<u32>,
    /// Processors near it, as sysfs lists them (`24-31,88-95`).
    pub local_cpus: Option<String>,
    /// The bound kernel driver.
    pub driver: Option<String>,
    /// Whether that driver gives the function, or parts of it, to virtual machines although it is no `vfio` driver
    /// (NVIDIA vGPU, mediated devices).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lent: bool,
    /// Whether it leads to NVSwitches (B200, B300): it looks like an InfiniBand card and is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leads_to_nvswitches: bool,
    /// How much of its configuration space could be read, and its faults.
    pub config: ConfigState,
    /// Whether the firmware's boot display is on it.
    pub boot_vga: bool,
    /// Access Control Services, where the function has the capability.
    pub acs: Option<Acs>,
    /// Other registers that determine how peer traffic is routed here.
    #[serde(default, skip_serializing_if = "Routing::is_plain")]
    pub routing: Routing,
    /// Resizable BARs.
    pub rebar: Vec<Rebar>,
    /// Base address registers with a size, as the kernel assigned them.
    pub bars: Vec<Bar>,
    /// Link state, where the function has a link.
    pub link: Option<Link>,
    /// The number that the firmware gave to the slot below this port (PCIe Slot Capabilities); `null` if there is none.
    #[serde(default)]
    pub slot: Option<u16>,
    /// The peer-to-peer clique that a hypervisor gave to this GPU (QEMU's `x-nv-gpudirect-clique`): NVIDIA's driver
    /// gives GPUs of one clique access to each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clique: Option<u8>,
    /// The model of an NVIDIA GPU by the system's `pci.ids`; absent without that file, and for other functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A GPU whose model nothing names.
pub const UNNAMED: &str = "NVIDIA GPU";

impl Device {
    /// The model by the system's `pci.ids`.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or(UNNAMED)
    }
}

/// How far a function's configuration space could be read and is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigState {
    /// Bytes that could be read: 4096, 256 (no ECAM), 64 (not root), 0 (unreadable).
    pub bytes: usize,
    /// Every register reads as all ones: the function does not answer.
    pub gone: bool,
    /// Malformed parts, each with its offset.
    pub faults: Vec<String>,
    /// What is unknown because of that, or because registers could not be read.
    #[serde(rename = "untold", default, skip_serializing_if = "Vec::is_empty")]
    pub undetermined: Vec<Undetermined>,
}

/// One RDMA device, what `nvidia-smi topo -m` calls a NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rdma {
    /// The name in `/sys/class/infiniband`, e.g. `mlx5_0`.
    pub name: String,
    /// The PCI function that it belongs to.
    pub bdf: Bdf,
}

/// PCIe extended capability 0x000D.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acs {
    /// The offset of the capability in configuration space, bytes.
    pub offset: u16,
    /// ACS Capability register (offset + 4).
    pub cap: u16,
    /// ACS Control register (offset + 6; offset + 8 on the Intel PCH ports of `ACS-QUIRK`).
    pub ctrl: u16,
    /// True on the Intel PCH ports whose registers are 32 bits wide; they are never written.
    pub quirk: bool,
    /// Names of the control bits that are set: SV TB RR CR UF EC DT.
    pub enabled: Vec<String>,
    /// If EC is set: the port numbers whose bits are set in the Egress Control Vector; `null` if the vector
    /// cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Vec<u8>>,
}

/// One resizable BAR of PCIe extended capability 0x0015.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rebar {
    /// BAR index.
    pub bar: u8,
    /// Size in force, bytes.
    pub current_bytes: u64,
    /// Sizes that the device offers, bytes, ascending.
    pub supported_bytes: Vec<u64>,
}

/// One base address register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// BAR index.
    pub index: u8,
    /// Physical address; 0 when unassigned.
    pub start: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// The kernel's resource flags.
    pub flags: u64,
}

/// A PCIe link: its present and its best state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Transfer rate in force, GT/s per lane; 0 when the link is down.
    pub gts: f64,
    /// Lanes in use; 0 when the link is down.
    pub width: u32,
    /// The function's fastest rate, GT/s per lane.
    pub max_gts: f64,
    /// The function's widest link, lanes.
    pub max_width: u32,
}

/// The distance between two devices, in the letters of `nvidia-smi topo -m`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathKind {
    /// At most one PCIe bridge (one switch).
    Pix,
    /// Several bridges, not the host bridge.
    Pxb,
    /// Through one host bridge.
    Phb,
    /// Between host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
}

/// The path between two devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// One end, a GPU.
    pub a: Bdf,
    /// The other end, a GPU or a NIC.
    pub b: Bdf,
    /// The distance.
    pub kind: PathKind,
    /// Every bridge that the traffic crosses, from `a` up and down to `b`. Inside one switch it turns between
    /// two downstream ports, so the upstream port above both is not on the path.
    pub ports: Vec<Bdf>,
    /// What the narrowest link on the path can carry in one direction, GB/s (10^9), after encoding overhead
    /// but before packet overhead: its present lanes, at the fastest rate that both its ends support, because
    /// idle GPUs lower the rate. 0 if unknown: a link is down or an end is gone.
    pub raw_gb_s: f64,
}
