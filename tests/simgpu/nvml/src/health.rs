//! Clocks, temperature, power, clock throttle reasons, memory errors, and settings.

use crate::link::errors;
use crate::process::own_usage;
use crate::state::Code;
use crate::state::{Handle, put, query_device};
use simgpu_model::scenario::{ComputeMode, Event};
use simgpu_model::{Scenario, events, nvlink};
use std::ffi::{c_int, c_uint};

/// Clocks by NVML's numbers: graphics, SM, memory, video.
const MEMORY: c_uint = 2;
const VIDEO: c_uint = 3;
/// The clock of an idle GPU, in MHz.
const IDLE_MHZ: c_uint = 210;
/// The throttle reason of an idle GPU.
const IDLE: u64 = 1;
/// The throttle reason of a GPU that is too hot.
const HOT: u64 = 0x40;

fn clock(scenario: &Scenario, kind: c_uint) -> Option<c_uint> {
    match kind {
        0..MEMORY | VIDEO => Some(scenario.machine.clock_mhz),
        MEMORY => Some(scenario.machine.memory_clock_mhz),
        _ => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetClockInfo(
    handle: Handle,
    kind: c_uint,
    to: *mut c_uint,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        let full = clock(scenario, kind).ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, if own_usage(gpu).busy { full } else { IDLE_MHZ }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(
    handle: Handle,
    kind: c_uint,
    to: *mut c_uint,
) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |scenario, _| unsafe {
        put(to, clock(scenario, kind).ok_or(Code::INVALID_ARGUMENT)?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperature(
    handle: Handle,
    sensor: c_uint,
    to: *mut c_uint,
) -> c_int {
    query_device(handle, |_, gpu| {
        if sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, if own_usage(gpu).busy { 58 } else { 36 }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerUsage(handle: Handle, milliwatts: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |_, gpu| unsafe {
        put(
            milliwatts,
            if own_usage(gpu).busy { 180_000 } else { 21_000 },
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    handle: Handle,
    reasons: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |scenario, gpu| unsafe {
        let held = if events::is_hot(scenario, gpu) {
            HOT
        } else {
            0
        };
        put(reasons, if own_usage(gpu).busy { held } else { IDLE })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPerformanceState(handle: Handle, state: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer is valid.
    query_device(handle, |_, gpu| unsafe {
        put(state, if own_usage(gpu).busy { 0 } else { 8 })
    })
}

/// How long something lowered a GPU's clocks: `nvmlViolationTime_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct ViolationTime {
    reference_us: u64,
    nanoseconds: u64,
}

/// As of a healthy GPU: low utilization and the totals are not 0, and there are no policies 6 to 9.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetViolationStatus(
    handle: Handle,
    policy: c_uint,
    to: *mut ViolationTime,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        let sum = |of: fn(&Event) -> u64| events::sum(scenario, gpu, of) * 1_000_000;
        let nanoseconds = match policy {
            0 => sum(|event| event.power_ms),
            1 => sum(|event| event.thermal_ms),
            2 | 3 | 5 => 0,
            4 => 19_600_000_000,
            10 | 11 => 8_700_000_000,
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's pointer is valid.
        unsafe {
            put(
                to,
                ViolationTime {
                    reference_us: 0,
                    nanoseconds,
                },
            )
        }
    })
}

/// What the NVLinks of a GPU carried in each direction before the run: a real GPU's counters do not begin at 0.
const NVLINK_BEFORE_KIB: u64 = 5_000_000;
/// The scope that stands for all links.
const ALL_LINKS: c_uint = c_uint::MAX;

/// A field value that is queried by its id.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct FieldValue {
    id: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_int,
    result: c_int,
    value: u64,
}

/// Memory rows that were remapped because of corrected and of uncorrected errors, and whether a remapping is pending or has
/// failed (`NVML_FI_DEV_REMAPPED_*`); the action that recovers the GPU (`NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`); the number of
/// NVLinks, their data and errors, and the counters of the PCIe link, as on four H200. No other field has a value, as in a virtual machine.
fn field(scenario: &Scenario, gpu: usize, id: c_uint, scope: c_uint) -> Option<u64> {
    let machine = &scenario.machine;
    let on = || events::happened(scenario).filter(move |event| event.gpu == Some(gpu));
    let all = scope == ALL_LINKS;
    let link = scope < machine.nvlink.map_or(0, |nvlink| nvlink.links);
    let counted = machine.nvlink.filter(|_| !machine.nvlink_uncounted);
    match id {
        91 => machine.nvlink.map(|nvlink| u64::from(nvlink.links)),
        // KiB of data, and with what the links add to it, or acknowledge.
        138..=141 if all || link => {
            let (moved, links) = (nvlink::moved(gpu), u64::from(counted?.links));
            let [sent, received] =
                [moved.sent, moved.received].map(|bytes| NVLINK_BEFORE_KIB + (bytes >> 10));
            let value = match id {
                138 => sent,
                139 => received,
                140 => sent + sent * 64 / 1000 + received * 74 / 100,
                _ => received + received * 64 / 1000 + sent * 74 / 100,
            };
            Some(if all { value } else { value / links.max(1) })
        }
        // Replays, recoveries and CRC errors of data.
        161..=163 if all || link => {
            let links = if all {
                0..counted?.links
            } else {
                scope..scope + 1
            };
            let kind = [0, 1, 3].get(usize::try_from(id - 161).ok()?)?;
            Some(
                links
                    .filter_map(|link| errors(scenario, gpu, link, *kind))
                    .sum(),
            )
        }
        164 if link => machine.nvlink?.mb_s.map(u64::from),
        94 => Some(events::sum(scenario, gpu, |event| event.pcie_replays)),
        95 | 173 | 179 => Some(0),
        180 => Some(events::sum(scenario, gpu, |event| event.pcie_fatal)),
        // Not 0 on a healthy machine.
        169 => Some(752),
        175 => Some(19),
        176 => Some(23),
        177 => Some(16),
        178 => Some(1),
        183 => Some(27),
        142..=145 if !machine.ecc => None,
        142 => Some(0),
        143 => Some(on().map(|event| event.remapped).sum()),
        144 => Some(u64::from(
            machine.remap_pending.contains(&gpu) || on().any(|event| event.pending),
        )),
        145 => Some(u64::from(machine.remap_failed.contains(&gpu))),
        230 if machine.recovery_untold => None,
        230 => {
            let before = machine
                .recovery
                .iter()
                .find(|requested| requested.gpu == gpu)
                .map(|requested| requested.action);
            Some(
                on().filter_map(|event| event.recovery)
                    .last()
                    .or(before)
                    .unwrap_or_default(),
            )
        }
        _ => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    handle: Handle,
    count: c_int,
    fields: *mut FieldValue,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        let count = usize::try_from(count).map_err(|_| Code::INVALID_ARGUMENT)?;
        if fields.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        for n in 0..count {
            // SAFETY: the caller's `count` fields.
            let requested = unsafe { &mut *fields.wrapping_add(n) };
            match field(scenario, gpu, requested.id, requested.scope) {
                // 3 is the type of an unsigned 64-bit value.
                Some(value) => (requested.kind, requested.result, requested.value) = (3, 0, value),
                None => requested.result = Code::NOT_SUPPORTED.0,
            }
        }
        Ok(())
    })
}

/// Memory errors by NVML's numbers: 0 corrected, 1 uncorrected; since the driver's start or over the GPU's life.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    handle: Handle,
    kind: c_uint,
    _over: c_uint,
    to: *mut u64,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        if !scenario.machine.ecc {
            return Err(Code::NOT_SUPPORTED);
        }
        let on = events::happened(scenario).filter(|event| event.gpu == Some(gpu));
        let found = on
            .map(|event| {
                if kind == 0 {
                    event.corrected
                } else {
                    event.uncorrected
                }
            })
            .sum();
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, found) }
    })
}

/// GPUs that remap rows retire no pages.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetRetiredPagesPendingStatus(
    handle: Handle,
    _to: *mut c_uint,
) -> c_int {
    query_device(handle, |_, _| Err(Code::NOT_SUPPORTED))
}

/// Utilisation of a GPU in percent: kernels, and memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUtilizationRates(handle: Handle, to: *mut Utilization) -> c_int {
    query_device(handle, |scenario, gpu| {
        let others = scenario
            .machine
            .in_use
            .iter()
            .filter(|u| u.gpu == gpu)
            .map(|u| u.busy)
            .max();
        let busy = if own_usage(gpu).busy {
            100
        } else {
            others.unwrap_or_default()
        };
        // SAFETY: the caller's pointer is valid.
        unsafe {
            put(
                to,
                Utilization {
                    gpu: busy,
                    memory: busy / 2,
                },
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeMode(handle: Handle, to: *mut c_uint) -> c_int {
    query_device(handle, |scenario, _| {
        let mode = match scenario.machine.compute_mode {
            ComputeMode::Default => 0,
            ComputeMode::Prohibited => 2,
            ComputeMode::ExclusiveProcess => 3,
        };
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, mode) }
    })
}

/// Whether a GPU is split into instances now, and after the next reset. GPUs without ECC do not support it.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: Handle,
    now: *mut c_uint,
    next: *mut c_uint,
) -> c_int {
    query_device(handle, |scenario, gpu| {
        let split = scenario.machine.mig.contains(&gpu);
        if !split && !scenario.machine.ecc {
            return Err(Code::NOT_SUPPORTED);
        }
        // SAFETY: the caller's pointers are valid.
        unsafe {
            put(now, c_uint::from(split))?;
            put(next, c_uint::from(split))
        }
    })
}
