//! A GPU's state at one moment, from NVML: whether it is present, its settings, its processes and
//! utilization, and its memory error counters. The values are compared before and after each test; other modules
//! judge them.

use super::answers::Process;
use super::tallies::Tallies;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All GPUs at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuSnapshot {
    /// Whether this run had no work on them in the second before.
    pub quiet: bool,
    /// Each GPU, or why nothing is known.
    pub gpus: Result<Vec<GpuStatus>, String>,
}

/// One GPU at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuStatus {
    /// The GPU.
    pub gpu: Bdf,
    /// Its number among those that CUDA can show, in the order of their addresses, as CUDA numbers them.
    pub ordinal: Option<usize>,
    /// Whether NVML can reach it.
    pub presence: Presence,
    /// Whether it is split into instances (MIG).
    pub mig: bool,
    /// Its compute mode.
    pub mode: ComputeMode,
    /// Bytes of memory in use, without the driver's own.
    pub used_bytes: Option<u64>,
    /// Percent of the last second or less in which a kernel ran.
    pub busy_percent: Option<u32>,
    /// All processes on it, or why they are unknown.
    pub users: Result<Vec<Process>, String>,
    /// Its memory error counters.
    pub counted: BTreeMap<Counter, CounterValue>,
    /// The number of the recovery action that the driver reports as needed; 0: none.
    pub recovery: CounterValue,
    /// What it counts of its clocks and links.
    pub tallies: Tallies,
}

/// Whether a GPU is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// NVML answers.
    Here,
    /// NVML reports it as lost (`NVML_ERROR_GPU_IS_LOST`).
    Lost,
    /// NVML does not list it; its error.
    Unlisted(String),
}

/// Who may make contexts on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComputeMode {
    /// All processes.
    Shared,
    /// One process at a time.
    Exclusive,
    /// No process.
    Prohibited,
    /// NVML does not report it.
    Unknown,
}

/// NVML's counters of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Corrected errors since the driver started.
    VolatileCorrected,
    /// Uncorrected errors since the driver started.
    VolatileUncorrected,
    /// Corrected errors in the GPU's lifetime.
    AggregateCorrected,
    /// Uncorrected errors in the GPU's lifetime.
    AggregateUncorrected,
    /// Rows that were replaced for corrected errors.
    RemappedCorrected,
    /// Rows that were replaced for uncorrected errors.
    RemappedUncorrected,
    /// 1 when a row will be replaced at the next reset.
    RemapPending,
    /// 1 when a row could not be replaced.
    RemapFailed,
    /// 1 when a page will be retired at the next start of the driver.
    RetirePending,
}

/// The value of a counter or field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterValue {
    /// The value.
    At(u64),
    /// This GPU or this driver has none.
    Unsupported,
    /// It could not be read.
    Unread(String),
}

impl CounterValue {
    /// The value, if there is one.
    #[must_use]
    pub const fn known(&self) -> Option<u64> {
        if let Self::At(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// By how much it has risen since `before`; `None` if that is unknown. A counter that fell was reset by someone.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<u64> {
        self.known()?.checked_sub(before.known()?)
    }
}

impl GpuSnapshot {
    /// The GPUs; empty if nothing is known about them.
    #[must_use]
    pub fn known(&self) -> &[GpuStatus] {
        self.gpus.as_deref().unwrap_or_default()
    }

    /// Whether any GPU is too busy for this to be chance.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.known().iter().any(GpuStatus::is_busy)
    }
}

/// From this utilization in percent on, a GPU has a load; a desktop in use causes less.
const LOAD_PERCENT: u32 = 20;
/// Graphics programs count from this much memory on, bytes: a desktop uses less.
const DRAWING: u64 = 1 << 30;

impl GpuStatus {
    /// Whether it is too busy for this to be chance.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy_percent
            .is_some_and(|percent| percent >= LOAD_PERCENT)
    }

    /// Programs of others that compute, or draw with much memory or while the GPU is busy.
    pub fn others(&self) -> impl Iterator<Item = &Process> {
        let users = self.users.as_deref().unwrap_or_default();
        let counts = |p: &&Process| {
            p.compute || self.is_busy() || p.bytes.is_some_and(|bytes| bytes >= DRAWING)
        };
        users.iter().filter(|p| !p.ours).filter(counts)
    }

    /// It as the subject of a finding: its number, or its address if it has none.
    #[must_use]
    pub fn subject(&self) -> Subject {
        self.ordinal
            .map_or_else(|| self.gpu.into(), |n| GpuId::new(n).into())
    }

    /// `GPU 1`, or its address where CUDA does not show it.
    #[must_use]
    pub fn name(&self) -> String {
        self.ordinal
            .map_or_else(|| self.gpu.to_string(), |n| format!("GPU {n}"))
    }

    /// A GPU about which only `presence` is known.
    #[must_use]
    pub fn unknown(gpu: Bdf, presence: Presence) -> Self {
        Self {
            gpu,
            ordinal: None,
            presence,
            mig: false,
            mode: ComputeMode::Unknown,
            used_bytes: None,
            busy_percent: None,
            users: Ok(Vec::new()),
            counted: BTreeMap::new(),
            recovery: CounterValue::Unsupported,
            tallies: Tallies::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_survives_serialization() {
        let gpu = Bdf {
            domain: 0,
            bus: 1,
            device: 0,
            function: 0,
        };
        let mut status = GpuStatus::unknown(gpu, Presence::Here);
        status
            .counted
            .insert(Counter::RemapFailed, CounterValue::At(1));
        status.users = Ok(vec![Process {
            pid: 7,
            name: "x".into(),
            bytes: None,
            compute: true,
            ours: false,
        }]);
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<GpuStatus>(&text).unwrap(), status);
    }
}
