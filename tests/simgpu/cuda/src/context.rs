//! Contexts: which process may create one on a GPU; reference counts, current contexts, synchronisation, and peer access.

use crate::state::{Handle, HandleKind, wrap};
use crate::state::{
    call, context, current, current_alive, put, replace_current, set_current, wait,
};
use simgpu_model::scenario::ComputeMode;
use simgpu_model::{Result, Scenario, Status, library_folder};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The context that was current before each pushed one.
    static PREVIOUS_CONTEXTS: RefCell<Vec<Option<usize>>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(handle: *mut Handle, device: c_int) -> c_int {
    call(|driver| {
        let gpu = driver.gpu(device)?;
        check_compute_mode(driver.scenario(), gpu)?;
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, wrap(HandleKind::Context, gpu as u64)) }?;
        driver.retain(gpu);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    call(|driver| driver.release(driver.gpu(device)?))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(handle: Handle) -> c_int {
    call(|driver| {
        let gpu = if handle == 0 {
            None
        } else {
            Some(context(driver, handle)?)
        };
        set_current(gpu);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> c_int {
    call(|driver| {
        let gpu = context(driver, handle)?;
        PREVIOUS_CONTEXTS.with_borrow_mut(|previous| previous.push(replace_current(Some(gpu))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(handle: *mut Handle) -> c_int {
    call(|driver| {
        let gpu = current(driver)?;
        let before = PREVIOUS_CONTEXTS
            .with_borrow_mut(Vec::pop)
            .ok_or(Status::INVALID_CONTEXT)?;
        set_current(before);
        // SAFETY: the caller's pointer is valid.
        unsafe { put(handle, wrap(HandleKind::Context, gpu as u64)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> c_int {
    wait(|driver| {
        let gpu = current(driver)?;
        driver.engine.query_gpu(gpu)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        driver.enable_peer(gpu, context(driver, peer)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDisablePeerAccess(peer: Handle) -> c_int {
    call(|driver| {
        let gpu = current_alive(driver)?;
        driver.disable_peer(gpu, context(driver, peer)?)
    })
}

/// The locks that this process holds, by GPU. Processes exclude each other by locking a file next to this library; the
/// kernel releases a lock when its process ends.
static EXCLUSIVE_LOCKS: Mutex<BTreeMap<usize, File>> = Mutex::new(BTreeMap::new());

/// Checks whether this process may create a context on a GPU.
pub(crate) fn check_compute_mode(scenario: &Scenario, gpu: usize) -> Result<()> {
    match scenario.machine.compute_mode {
        ComputeMode::Default => Ok(()),
        ComputeMode::Prohibited => Err(Status::DEVICE_UNAVAILABLE),
        ComputeMode::ExclusiveProcess
            if scenario
                .machine
                .in_use
                .iter()
                .any(|u| u.gpu == gpu && !u.draws) =>
        {
            Err(Status::DEVICE_UNAVAILABLE)
        }
        ComputeMode::ExclusiveProcess => lock_exclusively(gpu).ok_or(Status::DEVICE_UNAVAILABLE),
    }
}

fn lock_exclusively(gpu: usize) -> Option<()> {
    let mut locks = EXCLUSIVE_LOCKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if locks.contains_key(&gpu) {
        return Some(());
    }
    let path = library_folder::folder()?.join(format!("exclusive.{gpu}"));
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .ok()?;
    file.try_lock().ok()?;
    locks.insert(gpu, file);
    Some(())
}
