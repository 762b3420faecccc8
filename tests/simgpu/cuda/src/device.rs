//! What the driver says about its GPUs.

use crate::state::{call, put, put_text};
use simgpu_model::Status;
use simgpu_model::scenario::Machine;
use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    call(|driver| {
        let n = c_int::try_from(driver.count()).map_err(|_| Status::UNKNOWN)?;
        // SAFETY: the caller's pointer.
        unsafe { put(count, n) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    call(|driver| {
        driver.gpu(ordinal)?;
        // SAFETY: the caller's pointer.
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
        // SAFETY: the caller's pointer.
        unsafe { put(uuid, Machine::uuid(gpu)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: c_int) -> c_int {
    call(|driver| {
        let gpu = driver.gpu(device)?;
        let bdf = driver.scenario().machine.bdf.get(gpu).cloned().unwrap_or_default();
        // SAFETY: the caller's buffer of `length` bytes.
        unsafe { put_text(text.cast(), length, &bdf.to_uppercase()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> c_int {
    call(|driver| {
        let found = driver.attribute(driver.gpu(device)?, attribute)?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_int {
    call(|driver| {
        let (_, total) = driver.memory(driver.gpu(device)?);
        // SAFETY: the caller's pointer.
        unsafe { put(bytes, usize::try_from(total).unwrap_or(usize::MAX)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> c_int {
    call(|driver| {
        let (from, to) = (driver.gpu(device)?, driver.gpu(peer)?);
        // SAFETY: the caller's pointer.
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
        // SAFETY: the caller's pointer.
        unsafe { put(value, found) }
    })
}
