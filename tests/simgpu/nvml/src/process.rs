//! Memory and the processes that use it: other processes from the scenario, and what this process currently does on a GPU,
//! which the simulated libcuda reports if it is loaded.

use crate::state::{Code, Result};
use crate::state::{Handle, call, put, put_text, query_device};
use libloading::os::unix::{Library, RTLD_LAZY};
use simgpu_model::{Scenario, events};
use std::ffi::{c_char, c_int, c_uint};

/// Memory sizes in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct MemoryInfo {
    total: u64,
    free: u64,
    used: u64,
}

/// The same, plus what the driver reserves for itself.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct MemoryInfoV2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// A process on a GPU.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct ProcessInfo {
    pid: c_uint,
    bytes: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// The value for "no instance".
const NONE: c_uint = c_uint::MAX;

/// Total, reserved and used bytes of a GPU.
fn memory(scenario: &Scenario, gpu: usize) -> (u64, u64, u64) {
    let machine = &scenario.machine;
    (
        machine.memory_mib << 20,
        machine.reserved_mib << 20,
        machine.taken(gpu) + own_usage(gpu).used,
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo(handle: Handle, to: *mut MemoryInfo) -> c_int {
    query_device(handle, |scenario, gpu| {
        let (total, reserved, used) = memory(scenario, gpu);
        let used = reserved + used;
        // SAFETY: the caller's pointer is valid.
        unsafe {
            put(
                to,
                MemoryInfo {
                    total,
                    free: total.saturating_sub(used),
                    used,
                },
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, to: *mut MemoryInfoV2) -> c_int {
    query_device(handle, |scenario, gpu| {
        let (total, reserved, used) = memory(scenario, gpu);
        let free = total.saturating_sub(reserved + used);
        let version =
            c_uint::try_from(size_of::<MemoryInfoV2>()).map_err(|_| Code::UNKNOWN)? | 2 << 24;
        // SAFETY: the caller's pointer is valid.
        unsafe {
            put(
                to,
                MemoryInfoV2 {
                    version,
                    total,
                    reserved,
                    free,
                    used,
                },
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetBAR1MemoryInfo(handle: Handle, to: *mut MemoryInfo) -> c_int {
    query_device(handle, |scenario, gpu| {
        let (total, used) = (
            scenario.machine.bar1_mib << 20,
            scenario.machine.bar1_used(gpu),
        );
        // SAFETY: the caller's pointer is valid. BAR1's structure also has the order total, free, used.
        unsafe {
            put(
                to,
                MemoryInfo {
                    total,
                    free: total.saturating_sub(used),
                    used,
                },
            )
        }
    })
}

/// The process of a program that starts while the GPUs are in use.
const STARTED: c_uint = 4_194_000;

fn process_info(pid: c_uint, bytes: u64) -> ProcessInfo {
    ProcessInfo {
        pid,
        bytes,
        gpu_instance: NONE,
        compute_instance: NONE,
    }
}

/// Other processes on a GPU that compute, or that use it for graphics.
fn others(scenario: &Scenario, gpu: usize, draws: bool) -> impl Iterator<Item = ProcessInfo> {
    let named = scenario
        .machine
        .in_use
        .iter()
        .filter(move |u| u.gpu == gpu && u.draws == draws && !u.unnamed);
    let started = events::sum(scenario, gpu, |event| {
        u64::from(event.program.is_some() && !draws)
    }) > 0;
    let started = started.then(|| process_info(STARTED, 512 << 20));
    named
        .map(|u| process_info(u.pid, u.mib << 20))
        .chain(started)
}

/// All processes that compute on a GPU, including this one if it has a context.
fn processes(scenario: &Scenario, gpu: usize) -> Vec<ProcessInfo> {
    let now = own_usage(gpu);
    others(scenario, gpu, false)
        .chain(
            now.context
                .then(|| process_info(std::process::id(), now.used)),
        )
        .collect()
}

/// Writes a list to `to`, which has room for `count` entries, and its length to `count`.
///
/// # Safety
/// `count` is null or readable and writable, and `to` has room for that many unless it is 0.
unsafe fn put_list(found: &[ProcessInfo], count: *mut c_uint, to: *mut ProcessInfo) -> Result<()> {
    if count.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    // SAFETY: guaranteed by the caller.
    let room = unsafe { count.read() };
    let length = c_uint::try_from(found.len()).map_err(|_| Code::UNKNOWN)?;
    // SAFETY: guaranteed by the caller.
    unsafe { put(count, length) }?;
    if length > room {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    for (n, process) in found.iter().enumerate() {
        // SAFETY: `n` is below the caller's `count`.
        unsafe { put(to.wrapping_add(n), *process) }?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: Handle,
    count: *mut c_uint,
    to: *mut ProcessInfo,
) -> c_int {
    // SAFETY: the caller's pointers are valid.
    query_device(handle, |scenario, gpu| unsafe {
        put_list(&processes(scenario, gpu), count, to)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    handle: Handle,
    count: *mut c_uint,
    to: *mut ProcessInfo,
) -> c_int {
    // SAFETY: the caller's pointers are valid.
    query_device(handle, |scenario, gpu| unsafe {
        put_list(&others(scenario, gpu, true).collect::<Vec<_>>(), count, to)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: c_uint,
    name: *mut c_char,
    length: c_uint,
) -> c_int {
    call(|scenario| {
        let other = scenario
            .machine
            .in_use
            .iter()
            .find(|u| u.pid == pid)
            .map(|u| u.process.clone());
        let started = || {
            scenario
                .event
                .iter()
                .filter(|_| pid == STARTED)
                .find_map(|event| event.program.clone())
        };
        let other = other.or_else(started);
        let own = || (pid == std::process::id()).then(|| "this process".to_owned());
        let found = other.or_else(own).ok_or(Code::NOT_FOUND)?;
        let most = usize::try_from(length)
            .unwrap_or_default()
            .saturating_sub(1);
        let cut: String = found.chars().take(most).collect();
        // SAFETY: the caller's buffer of `length` bytes.
        unsafe { put_text(name, length, &cut) }
    })
}

/// glibc's flag to open only a library that is already loaded.
const RTLD_NOLOAD: i32 = 4;

/// This process's current use of a GPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessUsage {
    /// Bytes of memory in use.
    pub(crate) used: u64,
    /// Whether it has a context.
    pub(crate) context: bool,
    /// Whether it has unfinished work.
    pub(crate) busy: bool,
}

/// This process's current use of a GPU.
pub(crate) fn own_usage(gpu: usize) -> ProcessUsage {
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | RTLD_NOLOAD) };
    let Ok(library) = library else {
        return ProcessUsage::default();
    };
    // SAFETY: the simulated libcuda's function has this type; NVIDIA's library has no function of this name.
    let usage_function =
        unsafe { library.get::<unsafe extern "C" fn(usize, *mut [u64; 3])>(b"simgpu_now\0") };
    let Ok(usage_function) = usage_function else {
        return ProcessUsage::default();
    };
    let mut found = [0; 3];
    // SAFETY: the function writes three numbers.
    unsafe { usage_function(gpu, &raw mut found) };
    let [used, context, busy] = found;
    ProcessUsage {
        used,
        context: context != 0,
        busy: busy != 0,
    }
}
