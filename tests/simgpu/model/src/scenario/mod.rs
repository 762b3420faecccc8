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
pub use nccl::{Hca, Nccl, Program, Table};

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
pub(crate) mod tests;
