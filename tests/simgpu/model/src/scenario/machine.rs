//! The machine of a scenario: how many GPUs of which kind, where they are connected, and what the driver allows.

use serde::Deserialize;

/// The machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Number of GPUs.
    pub gpus: usize,
    /// The model's name; it is reported with "Simulated " in front.
    pub name: String,
    /// The driver's version.
    pub driver: String,
    /// CUDA's version as the driver reports it: 12050 is 12.5.
    pub cuda: i32,
    /// Memory of each GPU in MiB.
    pub memory_mib: u64,
    /// How much of that the driver reserves for itself.
    #[serde(default)]
    pub reserved_mib: u64,
    /// BAR1 of each GPU in MiB.
    pub bar1_mib: u64,
    /// MiB of BAR1 that the driver has mapped, by GPU (the last entry applies to the rest), if that is not all memory that
    /// programs can allocate.
    #[serde(default)]
    pub bar1_used_mib: Vec<u64>,
    /// Calls of NVML that never return.
    #[serde(default)]
    pub nvml_hangs: NvmlHangs,
    /// Compute capability: major and minor.
    pub capability: [i32; 2],
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Maximum threads per multiprocessor.
    pub threads_per_sm: u32,
    /// The GPU's clock in MHz.
    pub clock_mhz: u32,
    /// The memory's clock in MHz.
    pub memory_clock_mhz: u32,
    /// PCI device and subsystem ids, as NVML reports them.
    pub pci_ids: [u32; 2],
    /// PCI addresses, as the kernel writes them; the first `gpus` are used. Missing ones are generated.
    #[serde(default)]
    pub bdf: Vec<String>,
    /// Sockets of the machine; the GPUs are spread over them evenly, in order.
    pub sockets: usize,
    /// The NUMA node of each GPU; by default the socket's number.
    #[serde(default)]
    pub numa: Vec<i32>,
    /// Whether the driver allows peer access.
    pub p2p: bool,
    /// Groups of GPUs between which the driver allows no peer access; empty means one group of all GPUs.
    #[serde(default)]
    pub peers: Vec<Vec<usize>>,
    /// What NVML reports about reads and writes between GPUs without peer access, e.g. `CNS`.
    pub p2p_off: String,
    /// Whether atomics work on peers.
    pub p2p_atomics: bool,
    /// How many peers a GPU may have access to at the same time.
    pub max_peers: usize,
    /// Whether virtual memory management is supported (cuMemCreate and so on).
    pub vmm: bool,
    /// The link to the host.
    pub pcie: Pcie,
    /// `NVLink`, if the machine has it.
    pub nvlink: Option<NvLink>,
    /// GPUs that other processes use.
    #[serde(default)]
    pub in_use: Vec<InUse>,
    /// Whether the GPUs' memory has ECC and counts errors.
    #[serde(default)]
    pub ecc: bool,
    /// GPUs that are split into instances (MIG): CUDA does not show them.
    #[serde(default)]
    pub mig: Vec<usize>,
    /// Which processes may use the GPUs.
    #[serde(default)]
    pub compute_mode: ComputeMode,
    /// GPUs with a memory row that will be remapped at the next reset.
    #[serde(default)]
    pub remap_pending: Vec<usize>,
    /// GPUs with a memory row that could not be remapped.
    #[serde(default)]
    pub remap_failed: Vec<usize>,
    /// GPUs for which the driver requests a recovery action.
    #[serde(default)]
    pub recovery: Vec<Asked>,
    /// The mode of confidential computing that is on.
    #[serde(default)]
    pub confidential: Option<Confidential>,
    /// GPUs that are not healthy members of the fabric of NVSwitches; the others are.
    #[serde(default)]
    pub nvlink_fabric: Vec<FabricMember>,
    /// GPUs for which NVML has another UUID than CUDA and the kernel.
    #[serde(default)]
    pub nvml_uuid_differs: Vec<usize>,
    /// The driver's version in the words of NVML, if it is not that of the kernel.
    pub nvml_driver: Option<String>,
    /// NVLinks with more CRC errors than the others.
    #[serde(default)]
    pub nvlink_crc: Vec<NvLinkCrc>,
    /// Whether NVML counts neither errors nor data of NVLinks.
    #[serde(default)]
    pub nvlink_uncounted: bool,
    /// Whether the driver is too old to report recovery actions.
    #[serde(default)]
    pub recovery_untold: bool,
}

/// An NVLink with CRC errors.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLinkCrc {
    /// Of which GPU.
    pub gpu: usize,
    /// Its number there.
    pub link: u32,
    /// How many for each GiB that the GPU sends or receives.
    pub per_gib: f64,
}

/// A recovery action that the driver requests.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// For which GPU.
    pub gpu: usize,
    /// NVML's number of the action.
    pub action: u64,
}

/// What NVML says about a GPU in the fabric of NVSwitches (`nvmlGpuFabricInfo_v3_t`).
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricMember {
    /// Which GPU.
    pub gpu: usize,
    /// How far its registration is; 3: completed.
    #[serde(default = "completed")]
    pub state: u8,
    /// The status with which it ended.
    #[serde(default)]
    pub status: i32,
    /// Each byte of the UUID of its cluster; all zero within one machine.
    #[serde(default)]
    pub cluster: u8,
    /// Its clique.
    #[serde(default)]
    pub clique: u32,
    /// Its health mask.
    #[serde(default)]
    pub mask: u32,
    /// Its health summary.
    #[serde(default)]
    pub summary: u8,
}

const fn completed() -> u8 {
    3
}

/// A mode of confidential computing.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confidential {
    /// Whether it is the mode for all GPUs and NVSwitches of a machine.
    #[serde(default)]
    pub protected_pcie: bool,
    /// Whether the GPUs were declared ready.
    pub ready: bool,
}

/// The link to the host.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Its generation under load, which is also the highest that both ends support.
    pub r#gen: u32,
    /// Its width.
    pub width: u32,
    /// Its generation when idle.
    pub idle_gen: u32,
}

/// `NVLink`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLink {
    /// Links of each GPU.
    pub links: u32,
    /// Its version as NVML reports it.
    pub version: u32,
    /// Whether the links lead to switches; otherwise they are spread over the other GPUs in order.
    pub switch: bool,
    /// The speed of each in MB/s, if NVML reports it.
    pub mb_s: Option<u32>,
}

/// Which processes may create contexts on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    /// Any process.
    #[default]
    Default,
    /// One process at a time.
    ExclusiveProcess,
    /// No process.
    Prohibited,
}

/// Calls of NVML that never return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NvmlHangs {
    /// None.
    #[default]
    Never,
    /// Initialisation.
    Start,
    /// Every call after initialisation.
    Use,
}

/// Another process's use of a GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InUse {
    /// On which GPU.
    pub gpu: usize,
    /// MiB of memory that it holds.
    pub mib: u64,
    /// Its process id.
    pub pid: u32,
    /// Its process's name.
    pub process: String,
    /// GPU utilisation in percent.
    #[serde(default)]
    pub busy: u32,
    /// Whether NVML does not list the process, as in a container.
    #[serde(default)]
    pub unnamed: bool,
    /// Whether it uses the GPU only for graphics.
    #[serde(default)]
    pub draws: bool,
}

impl Machine {
    /// Fills in derived defaults, and rejects contradictory values.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        if !(1..=64).contains(&self.gpus) {
            return Err(format!("machine.gpus = {}: must be 1 to 64", self.gpus));
        }
        if self.sockets == 0 {
            return Err("machine.sockets = 0".to_owned());
        }
        for n in self.bdf.len()..self.gpus {
            self.bdf
                .push(format!("{:04x}:{:02x}:00.0", 1 + n / 32, 1 + n % 32));
        }
        for n in self.numa.len()..self.gpus {
            self.numa.push(i32::try_from(self.socket(n)).unwrap_or(-1));
        }
        for bdf in &self.bdf {
            parts(bdf)
                .ok_or_else(|| format!("machine.bdf: {bdf} is no address like 0000:01:00.0"))?;
        }
        status(&self.p2p_off).map(|_| ())
    }

    /// The socket of a GPU.
    #[must_use]
    pub fn socket(&self, gpu: usize) -> usize {
        let each = self.gpus.div_ceil(self.sockets).max(1);
        (gpu / each).min(self.sockets - 1)
    }

    /// PCI domain, bus and device of a GPU.
    #[must_use]
    pub fn address(&self, gpu: usize) -> (u32, u32, u32) {
        self.bdf.get(gpu).and_then(|b| parts(b)).unwrap_or_default()
    }

    /// The GPU's 16-byte UUID, which contains its number, as on the modelled machines.
    #[must_use]
    pub fn uuid(gpu: usize) -> [u8; 16] {
        let digits = gpu / 10 % 10 * 16 + gpu % 10;
        (digits as u128).to_be_bytes()
    }

    /// The GPU's name.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("Simulated {}", self.name)
    }

    /// Bytes of memory that programs can allocate on each GPU, as CUDA reports it.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.memory_mib.saturating_sub(self.reserved_mib) << 20
    }

    /// Bytes of a GPU's BAR1 that the driver has mapped: all memory that programs can allocate, if BAR1 is that large.
    #[must_use]
    pub fn bar1_used(&self, gpu: usize) -> u64 {
        let own = self
            .bar1_used_mib
            .get(gpu)
            .or(self.bar1_used_mib.last())
            .map(|mib| mib << 20);
        let all = if self.bar1_mib >= self.memory_mib {
            self.usable()
        } else {
            0
        };
        own.unwrap_or(all + (1 << 20))
    }

    /// Bytes of memory that other processes hold on a GPU.
    #[must_use]
    pub fn taken(&self, gpu: usize) -> u64 {
        self.in_use
            .iter()
            .filter(|u| u.gpu == gpu)
            .map(|u| u.mib << 20)
            .sum()
    }
}

/// PCI domain, bus and device of `0000:01:00.0`.
fn parts(bdf: &str) -> Option<(u32, u32, u32)> {
    let (place, function) = bdf.split_once('.')?;
    let mut parts = place.split(':').map(|p| u32::from_str_radix(p, 16).ok());
    let parts = (parts.next()??, parts.next()??, parts.next()??);
    (function == "0").then_some(parts)
}

/// NVML's number of a peer-to-peer status, from the abbreviation that `nvidia-smi topo -p2p` prints.
///
/// # Errors
/// If the abbreviation is unknown.
pub fn status(text: &str) -> Result<u32, String> {
    let known = ["OK", "CNS", "GNS", "TNS", "DR", "NS", "U"];
    let place = known.iter().position(|k| *k == text);
    let number = place.and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| format!("{text} is no peer-to-peer status; they are {known:?}"))
}
