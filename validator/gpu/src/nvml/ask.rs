//! Asks NVML for the state of GPUs.

use super::Nvml;
use super::answers::Process;
use super::raw::fields;
use super::status::{ComputeMode, Counter, CounterValue, GpuStatus, Presence};
use machine::pcie::model::Bdf;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device as wrapped;
use nvml_wrapper::enum_wrappers::device::{EccCounter, MemoryError};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use outcome::text::chain;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the counters of links and clocks of all GPUs may take: they are read after each test, and must not make a run longer.
const TALLIES_LIMIT: Duration = Duration::from_millis(150);

/// The maximum length of a process's name.
const NAME: usize = 80;

/// Fields of `nvmlDeviceGetFieldValues` (`NVML_FI_DEV_REMAPPED_*` of nvml.h).
const REMAPS: [(u32, Counter); 4] = [
    (142, Counter::RemappedCorrected),
    (143, Counter::RemappedUncorrected),
    (144, Counter::RemapPending),
    (145, Counter::RemapFailed),
];

/// The field for what must be done to use a GPU again (`NVML_FI_DEV_GET_GPU_RECOVERY_ACTION` of nvml.h).
const RECOVERY: u32 = 230;

impl CounterValue {
    pub(super) fn of(answer: Result<u64, NvmlError>) -> Self {
        match answer {
            Ok(count) => Self::At(count),
            // An old driver reports an unknown field as invalid.
            Err(
                NvmlError::NotSupported | NvmlError::InvalidArg | NvmlError::FailedToLoadSymbol(_),
            ) => Self::Unsupported,
            Err(why) => Self::Unread(chain(&why)),
        }
    }
}

impl Nvml {
    /// The present state of each of `gpus`. `ours` recognizes the processes of this run.
    #[must_use]
    pub fn gpu_status(&self, gpus: &[Bdf], ours: &dyn Fn(u32) -> bool) -> Vec<GpuStatus> {
        let mut all: Vec<_> = gpus.iter().map(|gpu| self.one(*gpu, ours)).collect();
        // Last, because it may be cut short.
        let until = Instant::now() + TALLIES_LIMIT;
        for status in all
            .iter_mut()
            .filter(|status| status.presence == Presence::Here)
        {
            status.tallies = self.tallies(status.gpu, until);
        }
        // CUDA hides GPUs that NVML does not know, and shows instances instead of split GPUs.
        let shown = |status: &&mut GpuStatus| {
            !status.mig && !matches!(status.presence, Presence::Unlisted(_))
        };
        for (ordinal, status) in all.iter_mut().filter(shown).enumerate() {
            status.ordinal = Some(ordinal);
        }
        all
    }

    fn one(&self, gpu: Bdf, ours: &dyn Fn(u32) -> bool) -> GpuStatus {
        let device = match self.0.device_by_pci_bus_id(gpu.to_string()) {
            Ok(device) => device,
            Err(NvmlError::GpuLost) => return GpuStatus::unknown(gpu, Presence::Lost),
            Err(why) => return GpuStatus::unknown(gpu, Presence::Unlisted(chain(&why))),
        };
        // A handle may outlive its GPU: memory is read from the GPU itself.
        let used_bytes = match device.memory_info() {
            Err(NvmlError::GpuLost) => return GpuStatus::unknown(gpu, Presence::Lost),
            memory_info => memory_info.ok().map(|memory| memory.used),
        };
        GpuStatus {
            mig: device.mig_mode().is_ok_and(|mode| mode.current == 1),
            mode: device
                .compute_mode()
                .map_or(ComputeMode::Unknown, ComputeMode::from),
            used_bytes,
            busy_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
            users: self.users(&device, ours),
            counted: counted(&device, gpu),
            recovery: recovery(gpu),
            ..GpuStatus::unknown(gpu, Presence::Here)
        }
    }

    fn users(
        &self,
        device: &Device<'_>,
        ours: &dyn Fn(u32) -> bool,
    ) -> Result<Vec<Process>, String> {
        let compute = device.running_compute_processes().map_err(|e| chain(&e))?;
        // GPUs without a display engine do not answer this query.
        let graphics = device.running_graphics_processes().unwrap_or_default();
        let all = compute
            .into_iter()
            .map(|p| (p, true))
            .chain(graphics.into_iter().map(|p| (p, false)));
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
        // A process that both computes and draws is in both lists.
        all.sort_by_key(|p| (p.pid, !p.compute));
        all.dedup_by_key(|p| p.pid);
        Ok(all)
    }
}

fn counted(device: &Device<'_>, gpu: Bdf) -> BTreeMap<Counter, CounterValue> {
    let total = |kind, over| CounterValue::of(device.total_ecc_errors(kind, over));
    let pending = device.are_pages_pending_retired().map(u64::from);
    let mut all = BTreeMap::from([
        (
            Counter::VolatileCorrected,
            total(MemoryError::Corrected, EccCounter::Volatile),
        ),
        (
            Counter::VolatileUncorrected,
            total(MemoryError::Uncorrected, EccCounter::Volatile),
        ),
        (
            Counter::AggregateCorrected,
            total(MemoryError::Corrected, EccCounter::Aggregate),
        ),
        (
            Counter::AggregateUncorrected,
            total(MemoryError::Uncorrected, EccCounter::Aggregate),
        ),
        (Counter::RetirePending, CounterValue::of(pending)),
    ]);
    let values = fields(gpu, &REMAPS.map(|(id, _)| (id, 0)));
    all.extend(REMAPS.iter().map(|(_, counter)| *counter).zip(values));
    all
}

/// Requested separately: an old driver may refuse all fields because of one that it does not know.
fn recovery(gpu: Bdf) -> CounterValue {
    fields(gpu, &[(RECOVERY, 0)])
        .into_iter()
        .next()
        .unwrap_or(CounterValue::Unsupported)
}

impl From<wrapped::ComputeMode> for ComputeMode {
    fn from(mode: wrapped::ComputeMode) -> Self {
        match mode {
            wrapped::ComputeMode::Default => Self::Shared,
            wrapped::ComputeMode::ExclusiveThread | wrapped::ComputeMode::ExclusiveProcess => {
                Self::Exclusive
            }
            wrapped::ComputeMode::Prohibited => Self::Prohibited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_a_gpu_lacks_is_none_and_one_that_fails_is_unread() {
        assert_eq!(CounterValue::of(Ok(3)), CounterValue::At(3));
        assert_eq!(
            CounterValue::of(Err(NvmlError::NotSupported)),
            CounterValue::Unsupported
        );
        assert!(
            matches!(CounterValue::of(Err(NvmlError::GpuLost)), CounterValue::Unread(why) if why.contains("fell off"))
        );
    }
}
