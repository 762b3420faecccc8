//! A scenario: the simulated machine, its figures and its faults, as TOML. Unknown keys are errors.
//! Judging what the program under test should say of it is left to the tests.

mod event;
mod fault;
mod figures;
mod machine;
mod nccl;

pub use event::{Event, On};
pub use fault::{Calls, Engine, Fault, Kind, MemoryKind, Pair, Way};
pub use figures::{Figures, HostFigures, Local, PairFigures, Range, Staged, Uplink, Ways};
pub use machine::{ComputeMode, InUse, Machine, NvLink, NvmlHangs, Pcie, status};
pub use nccl::{Nccl, Program, Table};

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
