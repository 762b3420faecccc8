//! Clocks, temperature, power, and what holds a GPU back: nothing does.

use crate::code::Code;
use crate::now::now;
use crate::state::{Handle, ask, put};
use simgpu_model::Scenario;
use std::ffi::{c_int, c_uint};

/// Clocks by NVML's numbers: graphics, SM, memory, video.
const MEMORY: c_uint = 2;
const VIDEO: c_uint = 3;
/// A clock when nothing is going on, in MHz.
const IDLE_MHZ: c_uint = 210;
/// The reason for a low clock that is none: the GPU is idle.
const IDLE: u64 = 1;

fn clock(scenario: &Scenario, kind: c_uint) -> Option<c_uint> {
    match kind {
        0..MEMORY | VIDEO => Some(scenario.machine.clock_mhz),
        MEMORY => Some(scenario.machine.memory_clock_mhz),
        _ => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetClockInfo(handle: Handle, kind: c_uint, to: *mut c_uint) -> c_int {
    ask(handle, |scenario, gpu| {
        let full = clock(scenario, kind).ok_or(Code::INVALID_ARGUMENT)?;
        // SAFETY: the caller's pointer.
        unsafe { put(to, if now(gpu).busy { full } else { IDLE_MHZ }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(handle: Handle, kind: c_uint, to: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer.
    ask(handle, |scenario, _| unsafe { put(to, clock(scenario, kind).ok_or(Code::INVALID_ARGUMENT)?) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperature(handle: Handle, sensor: c_uint, to: *mut c_uint) -> c_int {
    ask(handle, |_, gpu| {
        if sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's pointer.
        unsafe { put(to, if now(gpu).busy { 58 } else { 36 }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerUsage(handle: Handle, milliwatts: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer.
    ask(handle, |_, gpu| unsafe { put(milliwatts, if now(gpu).busy { 180_000 } else { 21_000 }) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(handle: Handle, reasons: *mut u64) -> c_int {
    // SAFETY: the caller's pointer.
    ask(handle, |_, gpu| unsafe { put(reasons, if now(gpu).busy { 0 } else { IDLE }) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPerformanceState(handle: Handle, state: *mut c_uint) -> c_int {
    // SAFETY: the caller's pointer.
    ask(handle, |_, gpu| unsafe { put(state, if now(gpu).busy { 0 } else { 8 }) })
}

/// A number that is asked for by its own number.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Field {
    id: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_int,
    result: c_int,
    value: u64,
}

/// None of them is told, as in a virtual machine.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(handle: Handle, count: c_int, fields: *mut Field) -> c_int {
    ask(handle, |_, _| {
        let count = usize::try_from(count).map_err(|_| Code::INVALID_ARGUMENT)?;
        if fields.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        for n in 0..count {
            // SAFETY: the caller's `count` fields.
            unsafe { (*fields.wrapping_add(n)).result = Code::NOT_SUPPORTED.0 };
        }
        Ok(())
    })
}
