//! A simulated `libnvidia-ml.so.1`: NVIDIA's management library for the scenario's machine. The scenario is read from
//! `simgpu.toml` next to the library's own file; what this process does on the GPUs is queried from the simulated libcuda,
//! if it is loaded. A panic here ends the process with its message.

#![expect(
    unsafe_code,
    reason = "the interface is one of C: exported names, and pointers that the caller vouches for"
)]

mod confidential;
mod device;
mod health;
mod link;
mod process;
mod state;
mod stubs;

use crate::state::{Code, Result, code};
use crate::state::{call, hang, put, put_text, start, stop};
use simgpu_model::scenario::{Kind, NvmlHangs};
use simgpu_model::{Scenario, Status, library_folder};
use std::ffi::{c_char, c_int, c_uint};

#[expect(
    clippy::print_stderr,
    reason = "there is no other way to say what is wrong with a scenario"
)]
fn read_scenario() -> Result<Scenario> {
    let scenario = library_folder::scenario().map_err(|why| {
        eprintln!("simgpu: {why}");
        Code::UNKNOWN
    })?;
    // If CUDA reports that the kernel module and the libraries do not match, NVML does too.
    let mismatch = Status::SYSTEM_DRIVER_MISMATCH.0;
    if scenario.machine.nvml_hangs == NvmlHangs::Start {
        hang();
    }
    let mismatched = scenario
        .fault
        .iter()
        .any(|f| f.kind == Kind::Init && f.code == mismatch);
    if mismatched {
        Err(Code::VERSION_MISMATCH)
    } else {
        Ok(scenario)
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_int {
    code(start(read_scenario))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_int {
    code(start(read_scenario))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> c_int {
    code(stop())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, length: c_uint) -> c_int {
    let version = |scenario: &Scenario| {
        scenario
            .machine
            .nvml_driver
            .as_ref()
            .unwrap_or(&scenario.machine.driver)
            .clone()
    };
    // SAFETY: the caller's buffer of `length` bytes.
    call(|scenario| unsafe { put_text(text, length, &version(scenario)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(text: *mut c_char, length: c_uint) -> c_int {
    call(|scenario| {
        let version = format!(
            "{}.{}",
            scenario.machine.cuda / 1000,
            scenario.machine.driver
        );
        // SAFETY: the caller's buffer of `length` bytes.
        unsafe { put_text(text, length, &version) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer is valid.
    call(|scenario| unsafe { put(version, scenario.machine.cuda) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer is valid.
    call(|scenario| unsafe { put(version, scenario.machine.cuda) })
}
