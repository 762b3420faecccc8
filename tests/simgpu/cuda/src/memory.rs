//! GPU memory and page-locked host memory, and copies between them.

use crate::state::Handle;
use crate::state::{call, context, current, current_alive, put, stream, wait};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use simgpu_model::content::Content;
use simgpu_model::engine::Work;
use simgpu_model::extents;
use simgpu_model::memory::{Location, Pinned};
use simgpu_model::scenario::Hca;
use simgpu_model::{Result, Simulation, Status};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::IntoRawFd;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    call(|driver| {
        let (left, all) = driver.memory(current_alive(driver)?);
        // SAFETY: the caller's pointers are valid.
        unsafe {
            put(free, usize::try_from(left).unwrap_or(usize::MAX))?;
            put(total, usize::try_from(all).unwrap_or(usize::MAX))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        let found = driver.engine.memory.alloc(gpu, bytes as u64)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(address, found) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        if address == 0 {
            return Ok(());
        }
        // The real driver waits for work that uses the memory; work that cannot end is not waited for.
        driver.engine.run();
        driver.engine.check_alive(gpu)?;
        driver.engine.memory.free_at(address).map(|_| ())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, _flags: c_uint) -> c_int {
    call(|driver| {
        current_alive(driver)?;
        if bytes == 0 || to.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        crate::host::handle_faults();
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory at an address that the kernel chooses.
        let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) };
        let memory = memory.map_err(|_| Status::OUT_OF_MEMORY)?;
        driver
            .engine
            .memory
            .pinned
            .insert(memory.addr() as u64, Pinned::new(bytes as u64));
        // SAFETY: the caller's pointer is valid.
        unsafe { put(to, memory) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(memory: *mut c_void) -> c_int {
    call(|driver| {
        current(driver)?;
        driver.engine.run();
        let pinned = &mut driver.engine.memory.pinned;
        let bytes = pinned
            .remove(&(memory.addr() as u64))
            .ok_or(Status::INVALID_VALUE)?
            .bytes;
        let bytes = usize::try_from(bytes).map_err(|_| Status::INVALID_VALUE)?;
        // SAFETY: cuMemHostAlloc mapped this memory with this size, and nothing refers to it any more.
        unsafe { munmap(memory, bytes) }.map_err(|_| Status::INVALID_VALUE)
    })
}

/// Queues a copy; as in the real driver, pageable host memory is read immediately.
fn copy(driver: &mut Simulation, dst: u64, src: u64, bytes: usize, on: Handle) -> Result<()> {
    let id = stream(driver, on)?;
    let bytes = bytes as u64;
    let gpu = driver.engine.gpu_of(id)?;
    driver.engine.check_alive(gpu)?;
    if bytes == 0 {
        return Ok(());
    }
    driver.engine.refusal(gpu, dst, src, bytes)?;
    let location_of = |address| {
        driver
            .engine
            .memory
            .locate(address, bytes)
            .map_err(|_| Status::INVALID_VALUE)
    };
    location_of(dst)?;
    let pageable_bytes = matches!(location_of(src)?, Location::Pageable)
        .then(|| driver.engine.host.read(src, bytes));
    driver.engine.push(
        id,
        Work::Copy {
            dst,
            src,
            bytes,
            pageable_bytes,
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyAsync(dst: u64, src: u64, bytes: usize, on: Handle) -> c_int {
    call(|driver| copy(driver, dst, src, bytes, on))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyPeerAsync(
    dst: u64,
    dst_context: Handle,
    src: u64,
    src_context: Handle,
    bytes: usize,
    on: Handle,
) -> c_int {
    call(|driver| {
        context(driver, dst_context)?;
        context(driver, src_context)?;
        copy(driver, dst, src, bytes, on)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(
    dst: u64,
    src: *const c_void,
    bytes: usize,
    on: Handle,
) -> c_int {
    call(|driver| copy(driver, dst, src.addr() as u64, bytes, on))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: u64, bytes: usize, on: Handle) -> c_int {
    let result = call(|driver| copy(driver, dst.addr() as u64, src, bytes, on));
    // A copy into pageable memory is complete when the call returns.
    let pageable = |driver: &mut Simulation| {
        let location = driver
            .engine
            .memory
            .locate(dst.addr() as u64, bytes as u64)?;
        let id = stream(driver, on)?;
        if matches!(location, Location::Pageable) {
            driver.engine.query(id)
        } else {
            Ok(())
        }
    };
    if result == 0 { wait(pageable) } else { result }
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(dst: u64, byte: u8, bytes: usize, on: Handle) -> c_int {
    call(|driver| {
        let id = stream(driver, on)?;
        driver.engine.push(
            id,
            Work::Set {
                dst,
                byte,
                bytes: bytes as u64,
            },
        )
    })
}

/// Creates a dma-buf of GPU memory, if the scenario's RDMA card can access it. The descriptor itself is empty: the
/// simulated libibverbs accesses the memory by its address.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetHandleForAddressRange(
    descriptor: *mut c_int,
    address: u64,
    bytes: usize,
    kind: c_uint,
    _flags: u64,
) -> c_int {
    call(|driver| {
        if kind != 1 || !matches!(driver.scenario().nccl.hca, Some(Hca::Gdr | Hca::Unused)) {
            return Err(Status::NOT_SUPPORTED);
        }
        let Location::Gpu(_) = driver.engine.memory.locate(address, bytes as u64)? else {
            return Err(Status::INVALID_VALUE);
        };
        let made = memfd_create(c"simgpu-dma-buf", MemfdFlags::CLOEXEC)
            .map_err(|_| Status::OUT_OF_MEMORY)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(descriptor, made.into_raw_fd()) }
    })
}

/// An RDMA card's access to GPU memory: writes `data` there, or reads it from there.
///
/// # Safety
/// `data` has `bytes` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn simgpu_card(address: u64, data: *mut u8, bytes: usize, write: bool) -> c_int {
    call(|driver| {
        let memory = &mut driver.engine.memory;
        let Location::Gpu(spans) = memory.locate(address, bytes as u64)? else {
            return Err(Status::INVALID_VALUE);
        };
        // SAFETY: guaranteed by the caller.
        let data = unsafe { std::slice::from_raw_parts_mut(data, bytes) };
        if write {
            let content = Content::bytes(data.to_vec());
            memory.write(&spans, &[(bytes as u64, Some(content))]);
        } else {
            let owner = spans.first().map_or(0, |span| span.owner);
            data.copy_from_slice(&extents::bytes(&memory.read(&spans, owner)));
        }
        Ok(())
    })
}
