//! How a GPU stands at one moment, by NVML: whether it is there at all, how it is set, who uses it and how
//! much, and what its memory has counted. Values that are compared before and after tests; what they mean is
//! left to others.

use super::Nvml;
use super::told::Process;
use crate::chain::chain;
use crate::pcie::model::Bdf;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device as wrapped;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A process's name is cut here.
const NAME: usize = 80;

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
    /// Its number among the GPUs that were asked for, in the order of their addresses, as CUDA counts them.
    pub ordinal: usize,
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
    /// Nobody.
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

/// Fields of `nvmlDeviceGetFieldValues` (`NVML_FI_DEV_REMAPPED_*` of nvml.h).
const REMAPS: [(u32, Counter); 4] = [
    (142, Counter::RemappedCorrected),
    (143, Counter::RemappedUncorrected),
    (144, Counter::RemapPending),
    (145, Counter::RemapFailed),
];

impl Counted {
    fn of(said: Result<u64, NvmlError>) -> Self {
        match said {
            Ok(count) => Self::At(count),
            // A field of which an old driver has never heard is an invalid one.
            Err(NvmlError::NotSupported | NvmlError::InvalidArg | NvmlError::FailedToLoadSymbol(_)) => {
                Self::Unsupported
            }
            Err(why) => Self::Unread(chain(&why)),
        }
    }
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

    /// A GPU of which nothing is known but that it is `presence`.
    #[must_use]
    pub const fn unknown(gpu: Bdf, ordinal: usize, presence: Presence) -> Self {
        Self {
            gpu,
            ordinal,
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

impl Nvml {
    /// How each of `gpus` stands now. `ours` tells the processes of this run.
    #[must_use]
    pub fn standing(&self, gpus: &[Bdf], ours: &dyn Fn(u32) -> bool) -> Vec<Standing> {
        gpus.iter().enumerate().map(|(ordinal, gpu)| self.one(*gpu, ordinal, ours)).collect()
    }

    fn one(&self, gpu: Bdf, ordinal: usize, ours: &dyn Fn(u32) -> bool) -> Standing {
        let device = match self.0.device_by_pci_bus_id(gpu.to_string()) {
            Ok(device) => device,
            Err(NvmlError::GpuLost) => return Standing::unknown(gpu, ordinal, Presence::Lost),
            Err(why) => return Standing::unknown(gpu, ordinal, Presence::Untold(chain(&why))),
        };
        // A handle may outlive its GPU: memory is asked of the GPU itself.
        let used_bytes = match device.memory_info() {
            Err(NvmlError::GpuLost) => return Standing::unknown(gpu, ordinal, Presence::Lost),
            told => told.ok().map(|memory| memory.used),
        };
        Standing {
            mig: device.mig_mode().is_ok_and(|mode| mode.current == 1),
            mode: device.compute_mode().map_or(ComputeMode::Untold, ComputeMode::from),
            used_bytes,
            busy_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
            users: self.users(&device, ours),
            counted: counted(&device),
            ..Standing::unknown(gpu, ordinal, Presence::Here)
        }
    }

    fn users(&self, device: &Device<'_>, ours: &dyn Fn(u32) -> bool) -> Result<Vec<Process>, String> {
        let compute = device.running_compute_processes().map_err(|e| chain(&e))?;
        // GPUs without a display engine do not answer this one.
        let graphics = device.running_graphics_processes().unwrap_or_default();
        let all = compute.into_iter().map(|p| (p, true)).chain(graphics.into_iter().map(|p| (p, false)));
        let mut all: Vec<Process> = all
            .map(|(p, compute)| Process {
                pid: p.pid,
                name: self.0.sys_process_name(p.pid, NAME).unwrap_or_default(),
                bytes: match p.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                },
                compute,
                ours: ours(p.pid),
            })
            .collect();
        // A program that does both stands in both lists.
        all.sort_by_key(|p| (p.pid, !p.compute));
        all.dedup_by_key(|p| p.pid);
        Ok(all)
    }
}

fn counted(device: &Device<'_>) -> BTreeMap<Counter, Counted> {
    let total = |kind, over| Counted::of(device.total_ecc_errors(kind, over));
    let pending = device.are_pages_pending_retired().map(u64::from);
    let mut all = BTreeMap::from([
        (Counter::VolatileCorrected, total(MemoryError::Corrected, EccCounter::Volatile)),
        (Counter::VolatileUncorrected, total(MemoryError::Uncorrected, EccCounter::Volatile)),
        (Counter::AggregateCorrected, total(MemoryError::Corrected, EccCounter::Aggregate)),
        (Counter::AggregateUncorrected, total(MemoryError::Uncorrected, EccCounter::Aggregate)),
        (Counter::RetirePending, Counted::of(pending)),
    ]);
    match device.field_values_for(&REMAPS.map(|(id, _)| FieldId(id))) {
        Ok(values) => {
            let values = values.into_iter().map(|sample| number(sample?.value?));
            all.extend(REMAPS.iter().map(|(_, counter)| *counter).zip(values.map(Counted::of)));
        }
        Err(why) => {
            let said = Counted::of(Err(why));
            all.extend(REMAPS.iter().map(|(_, counter)| (*counter, said.clone())));
        }
    }
    all
}

fn number(value: SampleValue) -> Result<u64, NvmlError> {
    match value {
        SampleValue::U32(n) => Ok(n.into()),
        SampleValue::U64(n) => Ok(n),
        SampleValue::I64(n) => u64::try_from(n).map_err(|_| NvmlError::Unknown),
        SampleValue::F64(_) => Err(NvmlError::Unknown),
    }
}

impl From<wrapped::ComputeMode> for ComputeMode {
    fn from(mode: wrapped::ComputeMode) -> Self {
        match mode {
            wrapped::ComputeMode::Default => Self::Shared,
            wrapped::ComputeMode::ExclusiveThread | wrapped::ComputeMode::ExclusiveProcess => Self::Exclusive,
            wrapped::ComputeMode::Prohibited => Self::Prohibited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_a_gpu_lacks_is_none_and_one_that_fails_is_unread() {
        assert_eq!(Counted::of(Ok(3)), Counted::At(3));
        assert_eq!(Counted::of(Err(NvmlError::NotSupported)), Counted::Unsupported);
        assert!(
            matches!(Counted::of(Err(NvmlError::GpuLost)), Counted::Unread(why) if why.contains("fell off"))
        );
    }

    #[test]
    fn a_standing_goes_through_the_pipe() {
        let gpu = Bdf { domain: 0, bus: 1, device: 0, function: 0 };
        let mut standing = Standing::unknown(gpu, 0, Presence::Here);
        standing.counted.insert(Counter::RemapFailed, Counted::At(1));
        standing.users =
            Ok(vec![Process { pid: 7, name: "x".into(), bytes: None, compute: true, ours: false }]);
        let text = serde_json::to_string(&standing).unwrap();
        assert_eq!(serde_json::from_str::<Standing>(&text).unwrap(), standing);
    }
}
