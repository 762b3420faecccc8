//! How a GPU stands at one moment, by NVML: whether it is there at all, how it is set, who uses it and how
//! much, and what its memory has counted. Values that are compared before and after tests; what they mean is
//! left to others.

use super::told::Process;
use crate::machine::pcie::model::Bdf;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All GPUs at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Whether nothing of this run worked on them in the second before.
    pub quiet: bool,
    /// Each of them, or why nothing is known.
    pub gpus: Result<Vec<Standing>, String>,
}

/// One GPU at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The GPU.
    pub gpu: Bdf,
    /// Its number among those that CUDA can show, in the order of their addresses, as CUDA counts them.
    pub ordinal: Option<usize>,
    /// Whether NVML can say anything of it.
    pub presence: Presence,
    /// Whether it is split into instances (MIG).
    pub mig: bool,
    /// Who may use it.
    pub mode: ComputeMode,
    /// Bytes of memory in use, without what the driver keeps for itself.
    pub used_bytes: Option<u64>,
    /// Percent of the last second or less in which a kernel ran.
    pub busy_percent: Option<u32>,
    /// All processes on it, or why they are not known.
    pub users: Result<Vec<Process>, String>,
    /// What its memory has counted.
    pub counted: BTreeMap<Counter, Counted>,
}

/// Whether a GPU is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// NVML answers.
    Here,
    /// NVML says that it is lost (`NVML_ERROR_GPU_IS_LOST`).
    Lost,
    /// NVML does not give it, in its words.
    Untold(String),
}

/// Who may make contexts on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    /// Everybody.
    Shared,
    /// One process at a time.
    Exclusive,
    /// No process.
    Prohibited,
    /// NVML does not say.
    Untold,
}

/// What NVML counts of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Corrected errors since the driver started.
    VolatileCorrected,
    /// Uncorrected errors since the driver started.
    VolatileUncorrected,
    /// Corrected errors in the GPU's life.
    AggregateCorrected,
    /// Uncorrected errors in the GPU's life.
    AggregateUncorrected,
    /// Rows that were replaced for corrected errors.
    RemappedCorrected,
    /// Rows that were replaced for uncorrected errors.
    RemappedUncorrected,
    /// 1 when a row is to be replaced at the next reset.
    RemapPending,
    /// 1 when a row could not be replaced.
    RemapFailed,
    /// 1 when a page is to be retired at the next start of the driver.
    RetirePending,
}

/// What a counter stands at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// There.
    At(u64),
    /// This GPU has no such counter.
    Unsupported,
    /// It could not be read.
    Unread(String),
}

impl Look {
    /// The GPUs, as far as they are known.
    #[must_use]
    pub fn known(&self) -> &[Standing] {
        self.gpus.as_deref().unwrap_or_default()
    }

    /// Whether a GPU works so much that it is no accident.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.known().iter().any(Standing::is_busy)
    }
}

/// A GPU that works this many percent of the time has a load; a desktop that is looked at has less.
const LOAD_PERCENT: u32 = 20;
/// What programs that only draw hold on a GPU before they count: a desktop holds less.
const DRAWING: u64 = 1 << 30;

impl Standing {
    /// Whether it works so much that it is no accident.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy_percent.is_some_and(|percent| percent >= LOAD_PERCENT)
    }

    /// Programs of others that compute, or draw with much memory or while the GPU is busy.
    pub fn others(&self) -> impl Iterator<Item = &Process> {
        let users = self.users.as_deref().unwrap_or_default();
        let counts =
            |p: &&Process| p.compute || self.is_busy() || p.bytes.is_some_and(|bytes| bytes >= DRAWING);
        users.iter().filter(|p| !p.ours).filter(counts)
    }

    /// `GPU 1`, or its address where CUDA does not show it.
    #[must_use]
    pub fn name(&self) -> String {
        self.ordinal.map_or_else(|| self.gpu.to_string(), |n| format!("GPU {n}"))
    }

    /// A GPU of which nothing is known but that it is `presence`.
    #[must_use]
    pub const fn unknown(gpu: Bdf, presence: Presence) -> Self {
        Self {
            gpu,
            ordinal: None,
            presence,
            mig: false,
            mode: ComputeMode::Untold,
            used_bytes: None,
            busy_percent: None,
            users: Ok(Vec::new()),
            counted: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_goes_through_the_pipe() {
        let gpu = Bdf { domain: 0, bus: 1, device: 0, function: 0 };
        let mut standing = Standing::unknown(gpu, Presence::Here);
        standing.counted.insert(Counter::RemapFailed, Counted::At(1));
        standing.users =
            Ok(vec![Process { pid: 7, name: "x".into(), bytes: None, compute: true, ours: false }]);
        let text = serde_json::to_string(&standing).unwrap();
        assert_eq!(serde_json::from_str::<Standing>(&text).unwrap(), standing);
    }
}
