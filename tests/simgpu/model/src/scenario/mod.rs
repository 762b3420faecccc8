//! A scenario: the simulated machine, its figures, its faults and what befalls it while it is used, as TOML. Unknown keys are
//! errors. Judging what the program under test should say of it is left to the tests.

mod fault;
mod figures;
mod machine;
mod nccl;
mod verbs;

pub use fault::{Calls, Engine, Fault, Kind, MemoryKind, Pair, Way};
pub use figures::{Figures, HostFigures, Local, PairFigures, Range, Staged, Uplink, Ways};
pub use machine::{ComputeMode, InUse, Machine, NvLink, NvmlHangs, Pcie, status};
pub use nccl::{Hca, Nccl, Program, Table};

pub use verbs::{Verbs, VerbsFault, VerbsKind};

use serde::Deserialize;

/// All that the simulated libraries know.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The machine.
    pub machine: Machine,
    /// What its parts and links can do.
    pub figures: Figures,
    /// What NCCL does on it.
    #[serde(default)]
    pub nccl: Nccl,
    /// What its RDMA cards do.
    #[serde(default)]
    pub verbs: Verbs,
    /// What is wrong with it.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// What befalls it.
    #[serde(default)]
    pub event: Vec<Event>,
}

impl Scenario {
    /// A scenario from its text.
    ///
    /// # Errors
    /// What is wrong with the text, in one or more lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut scenario: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        scenario.machine.complete()?;
        for (n, fault) in scenario.fault.iter().enumerate() {
            fault.check(scenario.machine.gpus).map_err(|e| format!("fault {n}: {e}"))?;
        }
        for (n, event) in scenario.event.iter().enumerate() {
            event.check(scenario.machine.gpus).map_err(|e| format!("event {n}: {e}"))?;
        }
        Ok(scenario)
    }

    /// The faults of a kind that concern data from GPU `from` to GPU `to`.
    pub fn faults(&self, kind: Kind, from: usize, to: usize) -> impl Iterator<Item = &Fault> {
        self.fault.iter().filter(move |f| f.kind == kind && f.pair.has(from, to))
    }
}

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
    fn check(&self, gpus: usize) -> Result<(), String> {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::path::Path;

    /// A scenario's text as it is laid out: the machine's, the figures', the faults'.
    pub(crate) fn machine(name: &str, more: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../machines/{name}.toml"));
        std::fs::read_to_string(path).unwrap() + more
    }

    #[test]
    fn the_machines_can_be_read() {
        for (name, gpus) in [("epyc-8x4090", 8), ("h200-nvlink", 4)] {
            let scenario = Scenario::parse(&machine(name, "")).unwrap();
            assert_eq!(scenario.machine.gpus, gpus);
            assert!(scenario.machine.bdf.len() >= gpus);
        }
    }

    #[test]
    fn sockets_share_the_gpus_evenly() {
        let machine = Scenario::parse(&machine("epyc-8x4090", "")).unwrap().machine;
        let sockets: Vec<_> = (0..8).map(|g| machine.socket(g)).collect();
        assert_eq!(sockets, [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn what_nobody_knows_is_refused() {
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
