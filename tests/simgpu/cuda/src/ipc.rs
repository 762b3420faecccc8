//! Memory of other processes: by CUDA IPC, and by descriptors of memory that is mapped by hand.

use crate::shared::{adopt, share};
use crate::state::{call, current_well, put};
use rustix::fd::{BorrowedFd, IntoRawFd};
use rustix::io::fcntl_dupfd_cloexec;
use simgpu_model::{Result, Status};
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A token as it travels: how it begins, the process, its descriptor, how far behind the allocation's
/// beginning; the rest is zero.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Token {
    magic: [u8; 8],
    process: u32,
    descriptor: c_int,
    offset: u64,
    rest: [u8; 40],
}

const MAGIC: [u8; 8] = *b"simipc/1";
/// The one kind of handle: a file descriptor.
const DESCRIPTOR: c_uint = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuIpcGetMemHandle(token: *mut Token, address: u64) -> c_int {
    call(|driver| {
        current_well(driver)?;
        driver.engine.run();
        let (store, offset) = driver.engine.memory.allocation(address)?;
        let descriptor = share(driver, store)?;
        let process = std::process::id();
        // SAFETY: the caller's pointer.
        unsafe { put(token, Token { magic: MAGIC, process, descriptor, offset, rest: [0; 40] }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuIpcOpenMemHandle_v2(address: *mut u64, token: Token, flags: c_uint) -> c_int {
    call(|driver| {
        let gpu = current_well(driver)?;
        if token.magic != MAGIC || flags != 1 {
            return Err(Status::INVALID_VALUE);
        }
        // As the real driver has it: not in the process that exported it.
        if token.process == std::process::id() {
            return Err(Status::INVALID_CONTEXT);
        }
        let (store, told) = adopt(driver, &token.process.to_string(), token.descriptor)?;
        // The flag asks for peer access where it is needed.
        if told.gpu != gpu {
            if !driver.has_context(told.gpu) {
                driver.retain(told.gpu);
            }
            match driver.enable_peer(gpu, told.gpu) {
                Ok(()) => lazily().push((gpu, told.gpu)),
                Err(Status::PEER_ACCESS_ALREADY_ENABLED) => {}
                Err(status) => return Err(status),
            }
        }
        let start = driver.engine.memory.open(store)?;
        // SAFETY: the caller's pointer.
        unsafe { put(address, start + token.offset) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuIpcCloseMemHandle(address: u64) -> c_int {
    call(|driver| {
        current_well(driver)?;
        driver.engine.run();
        let (_, offset) = driver.engine.memory.allocation(address)?;
        let gpu = current_well(driver)?;
        let owner = driver.engine.memory.free_at(address - offset)?;
        // What was enabled for it ends with the last that needs it.
        let memory = &driver.engine.memory;
        let opened = |s: &simgpu_model::memory::Store| s.is_adopted() && s.gpu == owner;
        if !memory.stores.values().any(opened) {
            let mut lazily = lazily();
            if let Some(n) = lazily.iter().position(|pair| *pair == (gpu, owner)) {
                lazily.swap_remove(n);
                driver.disable_peer(gpu, owner)?;
            }
        }
        Ok(())
    })
}

/// Peer access that opening memory has enabled: from whom to whose.
fn lazily() -> MutexGuard<'static, Vec<(usize, usize)>> {
    static PAIRS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    PAIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemExportToShareableHandle(
    to: *mut c_void,
    handle: u64,
    kind: c_uint,
    flags: u64,
) -> c_int {
    call(|driver| {
        if kind != DESCRIPTOR || flags != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        driver.engine.run();
        let store = driver.engine.memory.store_of(handle)?;
        let descriptor = share(driver, store)?;
        // SAFETY: the caller's pointer to an int.
        unsafe { put(to.cast(), again(descriptor)?) }
    })
}

/// The same file once more, for the caller to keep.
fn again(descriptor: RawFd) -> Result<RawFd> {
    // SAFETY: it stays open while its store is shared.
    let own = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_dupfd_cloexec(own, 0).map(IntoRawFd::into_raw_fd).map_err(|_| Status::OUT_OF_MEMORY)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemImportFromShareableHandle(
    handle: *mut u64,
    from: *mut c_void,
    kind: c_uint,
) -> c_int {
    call(|driver| {
        if kind != DESCRIPTOR {
            return Err(Status::NOT_SUPPORTED);
        }
        // The descriptor's number itself stands where a pointer would.
        let descriptor = RawFd::try_from(from.addr()).map_err(|_| Status::INVALID_VALUE)?;
        let (store, _) = adopt(driver, "self", descriptor)?;
        let found = driver.engine.memory.handle_for(store);
        // SAFETY: the caller's pointer.
        unsafe { put(handle, found) }
    })
}

const _: () = assert!(size_of::<Token>() == 64);
