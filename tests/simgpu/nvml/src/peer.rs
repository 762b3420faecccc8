//! What NVML says about pairs of GPUs.

use crate::code::Code;
use crate::state::{Handle, ask, gpu, put};
use std::ffi::{c_int, c_uint};

/// What can be asked about a pair.
const READ: c_uint = 0;
const WRITE: c_uint = 1;
const NVLINK: c_uint = 2;
const ATOMICS: c_uint = 3;
const PCI: c_uint = 4;
/// The status of what the GPUs do not have.
const NOT_SUPPORTED: c_uint = 5;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    a: Handle,
    b: Handle,
    index: c_uint,
    status: *mut c_uint,
) -> c_int {
    ask(a, |scenario, from| {
        let to = gpu(scenario, b)?;
        if from == to {
            return Err(Code::INVALID_ARGUMENT);
        }
        let linked = scenario.machine.nvlink.is_some();
        let found = match index {
            NVLINK if !linked => NOT_SUPPORTED,
            PCI if linked => NOT_SUPPORTED,
            READ | WRITE | NVLINK | PCI => scenario.nvml_status(from, to, false),
            ATOMICS => scenario.nvml_status(from, to, true),
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's pointer.
        unsafe { put(status, found) }
    })
}

/// How near two GPUs are: 40 within one NUMA node, 50 across sockets.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(a: Handle, b: Handle, level: *mut c_uint) -> c_int {
    ask(a, |scenario, from| {
        let to = gpu(scenario, b)?;
        let numa = |gpu| scenario.machine.numa.get(gpu);
        let found = if numa(from) == numa(to) { 40 } else { 50 };
        // SAFETY: the caller's pointer.
        unsafe { put(level, found) }
    })
}
