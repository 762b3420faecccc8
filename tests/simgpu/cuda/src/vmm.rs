//! Virtual memory management: physical allocations, reserved addresses and mappings.

use crate::state::{call, get, put};
use simgpu_model::memory::GRANULARITY;
use simgpu_model::{Result, Simulation, Status};
use std::ffi::{c_int, c_uint, c_void};

/// A memory location: `kind` 1 is a GPU.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Location {
    kind: c_uint,
    id: c_int,
}

/// Properties of an allocation.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Properties {
    kind: c_uint,
    handle_types: c_uint,
    location: Location,
    windows: *mut c_void,
    compression: u8,
    rdma: u8,
    usage: u16,
    reserved: [u8; 4],
}

/// Which location may access memory, and how: 0 not, 1 read, 3 read and write.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Access {
    location: Location,
    flags: c_uint,
}

/// The GPU of a location.
fn gpu(driver: &Simulation, location: Location) -> Result<usize> {
    if !driver.scenario().machine.vmm {
        return Err(Status::NOT_SUPPORTED);
    }
    if location.kind != 1 {
        Err(Status::INVALID_VALUE)
    } else {
        driver.gpu(location.id)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAllocationGranularity(
    bytes: *mut usize,
    of: *const Properties,
    _option: c_int,
) -> c_int {
    call(|driver| {
        // SAFETY: the caller's pointer is valid.
        gpu(driver, unsafe { get(of) }?.location)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(bytes, usize::try_from(GRANULARITY).unwrap_or_default()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemCreate(
    handle: *mut u64,
    bytes: usize,
    of: *const Properties,
    flags: u64,
) -> c_int {
    call(|driver| {
        // SAFETY: the caller's pointer is valid.
        let properties = unsafe { get(of) }?;
        let gpu = gpu(driver, properties.location)?;
        driver.engine.check_alive(gpu)?;
        if properties.kind != 1 || flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let found = driver.engine.memory.create(gpu, bytes as u64)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, found) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRelease(handle: u64) -> c_int {
    call(|driver| driver.engine.memory.release(handle))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAddressReserve(
    to: *mut u64,
    bytes: usize,
    align: usize,
    _at: u64,
    flags: u64,
) -> c_int {
    call(|driver| {
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let found = driver.engine.memory.reserve(bytes as u64, align as u64)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, found) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressFree(address: u64, bytes: usize) -> c_int {
    call(|driver| driver.engine.memory.unreserve(address, bytes as u64))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemMap(
    address: u64,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> c_int {
    call(|driver| {
        if flags != 0 || offset != 0 {
            return Err(Status::INVALID_VALUE);
        }
        driver.engine.memory.map(address, bytes as u64, 0, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemUnmap(address: u64, bytes: usize) -> c_int {
    call(|driver| {
        driver.engine.run();
        driver.engine.memory.unmap(address, bytes as u64)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemSetAccess(
    address: u64,
    bytes: usize,
    accesses: *const Access,
    count: usize,
) -> c_int {
    call(|driver| {
        for n in 0..count {
            // SAFETY: the caller's `count` descriptions.
            let access = unsafe { get(accesses.wrapping_add(n)) }?;
            let gpu = gpu(driver, access.location)?;
            if ![0, 1, 3].contains(&access.flags) {
                return Err(Status::INVALID_VALUE);
            }
            driver.set_access(address, bytes as u64, gpu, access.flags != 0)?;
        }
        Ok(())
    })
}
