//! cuInit, which reads the scenario next to this library and creates the driver from it, and queries about devices.

use crate::host::ProcessHost;
use crate::state::{call, code, driver, put, put_text};
use simgpu_model::library_folder::scenario;
use simgpu_model::scenario::Machine;
use simgpu_model::{Result, Scenario, Simulation, Status};
use std::ffi::{c_char, c_int, c_uint};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    call(|driver| {
        let n = c_int::try_from(driver.count()).map_err(|_| Status::UNKNOWN)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(count, n) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    call(|driver| {
        driver.gpu(ordinal)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> c_int {
    call(|driver| {
        driver.gpu(device)?;
        let full = driver.scenario().machine.full_name();
        // SAFETY: the caller's buffer of `length` bytes.
        unsafe { put_text(name.cast(), length, &full) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> c_int {
    call(|driver| {
        let gpu = driver.gpu(device)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(uuid, Machine::uuid(gpu)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int) -> c_int {
    call(|driver| {
        let gpu = driver.gpu(device)?;
        let bdf = driver
            .scenario()
            .machine
            .bdf
            .get(gpu)
            .cloned()
            .unwrap_or_default();
        // SAFETY: the caller's buffer of `length` bytes.
        unsafe { put_text(text.cast(), length, &bdf.to_uppercase()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> c_int {
    call(|driver| {
        let found = driver.attribute(driver.gpu(device)?, attribute)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_int {
    call(|driver| {
        let (_, total) = driver.memory(driver.gpu(device)?);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(bytes, usize::try_from(total).unwrap_or(usize::MAX)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> c_int {
    call(|driver| {
        let (from, to) = (driver.gpu(device)?, driver.gpu(peer)?);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(can, c_int::from(driver.scenario().can_access(from, to))) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetP2PAttribute(
    value: *mut c_int,
    attribute: c_int,
    from: c_int,
    to: c_int,
) -> c_int {
    call(|driver| {
        let found = driver.p2p_attribute(attribute, driver.gpu(from)?, driver.gpu(to)?)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(value, found) }
    })
}

#[expect(
    clippy::print_stderr,
    reason = "there is no other way to say what is wrong with a scenario"
)]
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
    let simulation = Simulation::new(scenario, Box::new(ProcessHost::new()));
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
    // It may be called before cuInit.
    let known = driver().as_ref().map(|d| d.scenario().machine.cuda);
    let version_of = |s: Scenario| s.machine.cuda;
    let cuda = known.map_or_else(
        || {
            scenario()
                .map(version_of)
                .map_err(|_| Status::INVALID_VALUE)
        },
        Ok,
    );
    // SAFETY: the caller's pointer is valid.
    code(cuda.and_then(|cuda| unsafe { put(version, cuda) }))
}
