//! Confidential computing: the mode that is on, and whether the GPUs were declared ready.

use crate::state::{Code, call, put};
use std::ffi::{c_int, c_uint};

/// `nvmlSystemConfComputeSettings_v1_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Settings {
    version: c_uint,
    environment: c_uint,
    feature: c_uint,
    dev_tools: c_uint,
    multi_gpu: c_uint,
}

/// `NVML_CC_SYSTEM_ENVIRONMENT_PROD`.
const PRODUCTION: c_uint = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetConfComputeSettings(to: *mut Settings) -> c_int {
    call(|scenario| {
        let mode = scenario.machine.confidential;
        let version = c_uint::try_from(size_of::<Settings>()).map_err(|_| Code::UNKNOWN)? | 1 << 24;
        let environment = if mode.is_some() { PRODUCTION } else { 0 };
        // With protected PCIe the feature is off: nvidia-smi shows "CC State: OFF" and the mode of several GPUs.
        let protected = mode.is_some_and(|mode| mode.protected_pcie);
        let (feature, multi_gpu) = ((mode.is_some() && !protected).into(), protected.into());
        // SAFETY: the caller's pointer is valid.
        unsafe {
            put(
                to,
                Settings {
                    version,
                    environment,
                    feature,
                    dev_tools: 0,
                    multi_gpu,
                },
            )
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetConfComputeGpusReadyState(to: *mut c_uint) -> c_int {
    call(|scenario| {
        let mode = scenario.machine.confidential.ok_or(Code::NOT_SUPPORTED)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, mode.ready.into()) }
    })
}
