//! Contexts: held, current, in step, and allowed to reach each other.

use crate::exclusive;
use crate::handle::{Handle, Kind, wrap};
use crate::state::{call, context, current, current_well, put, replace_current, set_current, wait};
use simgpu_model::Status;
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

thread_local! {
    /// What was current before each context that was pushed.
    static BELOW: RefCell<Vec<Option<usize>>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(handle: *mut Handle, device: c_int) -> c_int {
    call(|driver| {
        let gpu = driver.gpu(device)?;
        exclusive::enter(driver.scenario(), gpu)?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, wrap(Kind::Context, gpu as u64)) }?;
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
        let gpu = if handle == 0 { None } else { Some(context(driver, handle)?) };
        set_current(gpu);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> c_int {
    call(|driver| {
        let gpu = context(driver, handle)?;
        BELOW.with_borrow_mut(|below| below.push(replace_current(Some(gpu))));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(handle: *mut Handle) -> c_int {
    call(|driver| {
        let gpu = current(driver)?;
        let before = BELOW.with_borrow_mut(Vec::pop).ok_or(Status::INVALID_CONTEXT)?;
        set_current(before);
        // SAFETY: the caller's pointer.
        unsafe { put(handle, wrap(Kind::Context, gpu as u64)) }
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
        let gpu = current_well(driver)?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        driver.enable_peer(gpu, context(driver, peer)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDisablePeerAccess(peer: Handle) -> c_int {
    call(|driver| {
        let gpu = current_well(driver)?;
        driver.disable_peer(gpu, context(driver, peer)?)
    })
}
