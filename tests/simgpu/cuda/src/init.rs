//! cuInit: finds the scenario beside this library and makes the driver of it.

use crate::host::Process;
use crate::state::{code, driver, put};
use simgpu_model::beside::scenario;
use simgpu_model::{Result, Scenario, Simulation, Status};
use std::ffi::{c_int, c_uint};

#[expect(clippy::print_stderr, reason = "there is no other way to say what is wrong with a scenario")]
fn init(flags: c_uint) -> Result<()> {
    if flags != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut driver = driver();
    if driver.is_some() {
        return Ok(());
    }
    let scenario = scenario().map_err(|why| {
        eprintln!("simgpu: {why}");
        Status::INVALID_VALUE
    })?;
    let simulation = Simulation::new(scenario, Box::new(Process::new()));
    simulation.init()?;
    *driver = Some(simulation);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> c_int {
    code(init(flags))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    // It may be asked before cuInit.
    let known = driver().as_ref().map(|d| d.scenario().machine.cuda);
    let version_of = |s: Scenario| s.machine.cuda;
    let cuda = known.map_or_else(|| scenario().map(version_of).map_err(|_| Status::INVALID_VALUE), Ok);
    // SAFETY: the caller's pointer.
    code(cuda.and_then(|cuda| unsafe { put(version, cuda) }))
}
