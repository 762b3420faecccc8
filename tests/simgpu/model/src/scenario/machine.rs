//! The machine of a scenario: how many GPUs of which kind, where they sit, what the driver allows.

use serde::Deserialize;

/// The machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// How many GPUs.
    pub gpus: usize,
    /// The model's name; "Simulated " comes before it wherever it is told.
    pub name: String,
    /// The driver's version.
    pub driver: String,
    /// CUDA's version as the driver tells it: 12050 is 12.5.
    pub cuda: i32,
    /// Memory of each GPU in MiB.
    pub memory_mib: u64,
    /// Of that, what the driver keeps for itself.
    #[serde(default)]
    pub reserved_mib: u64,
    /// BAR1 of each GPU in MiB.
    pub bar1_mib: u64,
    /// MiB of BAR1 that the driver has mapped, where it is not all memory that programs can have: by GPU; the last
    /// one counts for the rest.
    #[serde(default)]
    pub bar1_used_mib: Vec<u64>,
    /// Calls of NVML that never return.
    #[serde(default)]
    pub nvml_hangs: NvmlHangs,
    /// Compute capability: major and minor.
    pub capability: [i32; 2],
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Threads that one of them holds.
    pub threads_per_sm: u32,
    /// The processor's clock in MHz.
    pub clock_mhz: u32,
    /// The memory's clock in MHz.
    pub memory_clock_mhz: u32,
    /// PCI device and subsystem ids, as NVML tells them.
    pub pci_ids: [u32; 2],
    /// Addresses on the bus, as the kernel writes them; the first `gpus` are used. Where there are
    /// fewer, the rest get addresses of their own.
    #[serde(default)]
    pub bdf: Vec<String>,
    /// Sockets of the machine; the GPUs are spread over them evenly, in order.
    pub sockets: usize,
    /// The NUMA node of each GPU; the socket's number where there are fewer.
    #[serde(default)]
    pub numa: Vec<i32>,
    /// Whether the driver allows peer access.
    pub p2p: bool,
    /// Groups of GPUs between which the driver allows no peer access; empty: one group of all.
    #[serde(default)]
    pub peers: Vec<Vec<usize>>,
    /// What NVML says about reads and writes between peers without peer access, e.g. `CNS`.
    pub p2p_off: String,
    /// Whether atomics work on peers.
    pub p2p_atomics: bool,
    /// How many peers a GPU may have access to at a time.
    pub max_peers: usize,
    /// Whether memory can be mapped by hand (cuMemCreate and so on).
    pub vmm: bool,
    /// The link to the host.
    pub pcie: Pcie,
    /// `NVLink`, where it has it.
    pub nvlink: Option<NvLink>,
    /// GPUs that others work on.
    #[serde(default)]
    pub in_use: Vec<InUse>,
    /// Whether the GPUs' memory corrects errors, and counts them.
    #[serde(default)]
    pub ecc: bool,
    /// GPUs that are split into instances (MIG): CUDA does not show them.
    #[serde(default)]
    pub mig: Vec<usize>,
    /// Who may use the GPUs.
    #[serde(default)]
    pub compute_mode: ComputeMode,
    /// GPUs of which a row of memory is to be replaced at the next reset.
    #[serde(default)]
    pub remap_pending: Vec<usize>,
    /// GPUs of which a row of memory could not be replaced.
    #[serde(default)]
    pub remap_failed: Vec<usize>,
    /// GPUs that the driver wants to be recovered.
    #[serde(default)]
    pub recovery: Vec<Asked>,
    /// Whether the driver is too old to say so.
    #[serde(default)]
    pub recovery_untold: bool,
}

/// An action that the driver asks for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// For which GPU.
    pub gpu: usize,
    /// NVML's number of the action.
    pub action: u64,
}

/// The link to the host.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pcie {
    /// Its generation under load, and the most that both ends can do.
    pub r#gen: u32,
    /// Its width.
    pub width: u32,
    /// Its generation when nothing is going on.
    pub idle_gen: u32,
}

/// `NVLink`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLink {
    /// Links of each GPU.
    pub links: u32,
    /// Its version as NVML tells it.
    pub version: u32,
    /// Whether they lead to switches; else the links are spread over the other GPUs in order.
    pub switch: bool,
}

/// Who may make contexts on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    /// Everybody.
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
    /// Its start.
    Start,
    /// All that is asked after its start.
    Use,
}

/// Somebody else's work.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InUse {
    /// On which GPU.
    pub gpu: usize,
    /// Memory that it holds.
    pub mib: u64,
    /// Its process.
    pub pid: u32,
    /// Its process's name.
    pub process: String,
    /// Percent of the time in which it works there.
    #[serde(default)]
    pub busy: u32,
    /// Whether NVML does not name it, as in a container.
    #[serde(default)]
    pub unnamed: bool,
    /// Whether it only draws.
    #[serde(default)]
    pub draws: bool,
}

impl Machine {
    /// Fills in what was left to rules, and refuses what does not fit together.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        if !(1..=64).contains(&self.gpus) {
            return Err(format!("machine.gpus = {}: must be 1 to 64", self.gpus));
        }
        if self.sockets == 0 {
            return Err("machine.sockets = 0".to_owned());
        }
        for n in self.bdf.len()..self.gpus {
            self.bdf.push(format!("{:04x}:{:02x}:00.0", 1 + n / 32, 1 + n % 32));
        }
        for n in self.numa.len()..self.gpus {
            self.numa.push(i32::try_from(self.socket(n)).unwrap_or(-1));
        }
        for bdf in &self.bdf {
            parts(bdf).ok_or_else(|| format!("machine.bdf: {bdf} is no address like 0000:01:00.0"))?;
        }
        status(&self.p2p_off).map(|_| ())
    }

    /// The socket of a GPU.
    #[must_use]
    pub fn socket(&self, gpu: usize) -> usize {
        let each = self.gpus.div_ceil(self.sockets).max(1);
        (gpu / each).min(self.sockets - 1)
    }

    /// Domain, bus and device of a GPU.
    #[must_use]
    pub fn address(&self, gpu: usize) -> (u32, u32, u32) {
        self.bdf.get(gpu).and_then(|b| parts(b)).unwrap_or_default()
    }

    /// The GPU's 16 bytes of identity: its number, as the modelled machines have it.
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

    /// Bytes of memory that programs can have on each GPU, as CUDA tells it.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.memory_mib.saturating_sub(self.reserved_mib) << 20
    }

    /// Bytes of a GPU's BAR1 that the driver has mapped: all memory that programs can have, where BAR1 has room for it.
    #[must_use]
    pub fn bar1_used(&self, gpu: usize) -> u64 {
        let own = self.bar1_used_mib.get(gpu).or(self.bar1_used_mib.last()).map(|mib| mib << 20);
        let all = if self.bar1_mib >= self.memory_mib { self.usable() } else { 0 };
        own.unwrap_or(all + (1 << 20))
    }

    /// Bytes of memory that others hold on a GPU.
    #[must_use]
    pub fn taken(&self, gpu: usize) -> u64 {
        self.in_use.iter().filter(|u| u.gpu == gpu).map(|u| u.mib << 20).sum()
    }
}

/// Domain, bus and device of `0000:01:00.0`.
fn parts(bdf: &str) -> Option<(u32, u32, u32)> {
    let (place, function) = bdf.split_once('.')?;
    let mut parts = place.split(':').map(|p| u32::from_str_radix(p, 16).ok());
    let parts = (parts.next()??, parts.next()??, parts.next()??);
    (function == "0").then_some(parts)
}

/// NVML's number for a peer-to-peer status, as `nvidia-smi topo -p2p` abbreviates it.
///
/// # Errors
/// When it is none.
pub fn status(text: &str) -> Result<u32, String> {
    let known = ["OK", "CNS", "GNS", "TNS", "DR", "NS", "U"];
    let place = known.iter().position(|k| *k == text);
    let number = place.and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| format!("{text} is no peer-to-peer status; they are {known:?}"))
}
