//! A scenario in TOML: the simulated machine, its figures, its faults and what happens to it while it is in use. Unknown
//! keys are errors. What the program under test should report is left to the tests.

mod fault;
mod figures;
mod machine;
mod nccl;
mod verbs;

pub use fault::{Beside, Calls, Engine, Fault, How, Kind, MemoryKind, Pair, Way};
pub use figures::{Figures, HostFigures, Local, PairFigures, Range, Staged, Uplink, Ways};
pub use machine::{ComputeMode, InUse, Machine, NvLink, NvLinkCrc, NvmlHangs, Pcie, status};
pub use nccl::{Hca, Nccl, Program, Small, Table};

pub use verbs::{Verbs, VerbsFault, VerbsKind};

use serde::Deserialize;

/// The complete input of the simulated libraries.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The machine.
    pub machine: Machine,
    /// The performance of its parts and links.
    pub figures: Figures,
    /// How NCCL behaves on it.
    #[serde(default)]
    pub nccl: Nccl,
    /// Its RDMA cards and their faults.
    #[serde(default)]
    pub verbs: Verbs,
    /// What is wrong with it.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// What happens to it while it is in use.
    #[serde(default)]
    pub event: Vec<Event>,
}

impl Scenario {
    /// Parses a scenario.
    ///
    /// # Errors
    /// What is wrong with the text, in one or more lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Through a JSON value, for which serde's code is compiled once: for TOML it is compiled for each of five kinds of text.
        let value: serde_json::Value = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut scenario: Self = serde_json::from_value(value).map_err(|e| e.to_string())?;
        scenario.machine.complete()?;
        for (n, fault) in scenario.fault.iter().enumerate() {
            fault
                .check(scenario.machine.gpus)
                .map_err(|e| format!("fault {n}: {e}"))?;
        }
        for (n, event) in scenario.event.iter().enumerate() {
            event
                .check(scenario.machine.gpus)
                .map_err(|e| format!("event {n}: {e}"))?;
        }
        Ok(scenario)
    }

    /// Whether a GPU moves one transfer between GPUs after the other.
    #[must_use]
    pub fn one_by_one(&self) -> bool {
        self.fault.iter().any(|fault| fault.kind == Kind::OneByOne)
    }

    /// The faults of a kind that affect data from GPU `from` to GPU `to`.
    pub fn faults(&self, kind: Kind, from: usize, to: usize) -> impl Iterator<Item = &Fault> {
        self.fault
            .iter()
            .filter(move |f| f.kind == kind && f.pair.has(from, to))
    }
}

/// One event. It happens once, when a process gives its GPUs the n-th piece of work of a kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The kind of work that triggers it.
    #[serde(default)]
    pub on: On,
    /// Which piece of that work triggers it, counted from 1.
    #[serde(default = "one")]
    pub after: u64,
    /// The affected GPU.
    pub gpu: Option<usize>,
    /// The GPU is lost: NVML reports it, its contexts fail with 999, and no process can initialise CUDA any more.
    #[serde(default)]
    pub lost: bool,
    /// From now on it is refused access to the memory of this GPU, for lack of memory.
    pub refuse: Option<usize>,
    /// How many corrected memory errors are added.
    #[serde(default)]
    pub corrected: u64,
    /// How many uncorrected memory errors are added.
    #[serde(default)]
    pub uncorrected: u64,
    /// How many rows are added that were remapped because of uncorrected errors.
    #[serde(default)]
    pub remapped: u64,
    /// A row will be remapped at the next reset.
    #[serde(default)]
    pub pending: bool,
    /// From now on the driver requests this recovery action, by NVML's number.
    pub recovery: Option<u64>,
    /// From now on its link has this many lanes.
    pub width: Option<u32>,
    /// From now on its clocks are throttled by heat.
    #[serde(default)]
    pub hot: bool,
    /// For how long its clocks were throttled by heat, ms, at no moment at which they are asked for.
    #[serde(default)]
    pub thermal_ms: u64,
    /// The same for the power limit.
    #[serde(default)]
    pub power_ms: u64,
    /// How many packets its first NVLink sent again.
    #[serde(default)]
    pub nvlink_replays: u64,
    /// How often its first NVLink was trained again.
    #[serde(default)]
    pub nvlink_recoveries: u64,
    /// How many packets its PCIe link sent again.
    #[serde(default)]
    pub pcie_replays: u64,
    /// How many fatal errors its PCIe link had.
    #[serde(default)]
    pub pcie_fatal: u64,
    /// A program of this name starts on it and stays.
    pub program: Option<String>,
    /// Lines that the kernel logs.
    #[serde(default)]
    pub log: Vec<String>,
    /// How many records of the log are missing before these lines.
    #[serde(default)]
    pub log_lost: u64,
    /// Taint flags that the kernel sets, as their sum.
    #[serde(default)]
    pub taint: u64,
}

fn one() -> u64 {
    1
}

/// The kind of work that triggers an event.
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
    /// Rejects values that make no sense on a machine with `gpus` GPUs.
    fn check(&self, gpus: usize) -> Result<(), String> {
        match self.gpu {
            Some(gpu) if gpu >= gpus => Err(format!("names GPU {gpu} and there are {gpus}")),
            _ if self.refuse.is_some_and(|peer| peer >= gpus) => Err(format!(
                "refuses a GPU that does not exist; there are {gpus}"
            )),
            None if self.lost
                || self.refuse.is_some()
                || self.pending
                || self.hot
                || self.program.is_some()
                || self.thermal_ms + self.power_ms > 0
                || self.nvlink_replays
                    + self.nvlink_recoveries
                    + self.pcie_replays
                    + self.pcie_fatal
                    > 0
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    /// A scenario's text: the machine file followed by `more`.
    pub(crate) fn machine(name: &str, more: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../machines/{name}.toml"));
        std::fs::read_to_string(path).unwrap() + more
    }

    #[test]
    fn the_machine_files_parse() {
        for (name, gpus) in [("epyc-8x4090", 8), ("h200-nvlink", 4)] {
            let scenario = Scenario::parse(&machine(name, "")).unwrap();
            assert_eq!(scenario.machine.gpus, gpus);
            assert!(scenario.machine.bdf.len() >= gpus);
        }
    }

    #[test]
    fn sockets_share_the_gpus_evenly() {
        let machine = Scenario::parse(&machine("epyc-8x4090", ""))
            .unwrap()
            .machine;
        let sockets: Vec<_> = (0..8).map(|g| machine.socket(g)).collect();
        assert_eq!(sockets, [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn unknown_keys_and_values_are_errors() {
        for (more, what) in [
            ("[[fault]]\nkind = \"zeroes\"\n", "zeroes"),
            ("[[fault]]\nkind = \"zeros\"\nparts = 1\n", "parts"),
            ("[[fault]]\nkind = \"zeros\"\npair = [0, 9]\n", "GPU 9"),
            ("[[fault]]\nkind = \"zeros\"\npair = \"all\"\n", "any"),
            ("[[fault]]\nkind = \"slow\"\n", "rate"),
            ("[[fault]]\nkind = \"capability\"\nnvml = \"NO\"\n", "NO"),
            ("[[fault]]\nkind = \"nccl-hang\"\nevery = 2\n", "every"),
            ("[faults]\n", "faults"),
        ] {
            let error = Scenario::parse(&machine("epyc-8x4090", more)).unwrap_err();
            assert!(error.contains(what), "{more}: {error}");
        }
    }
}
