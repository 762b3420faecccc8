//! A GPU's primary context, which NCCL and every framework use too, and the record of the current one.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::api::{Api, api};
use super::error::{GpuError, is_spoiled};
use super::kernels::Kernels;
use cudarc::driver::sys;
use std::cell::Cell;
use std::ptr;

/// A retained context; released when dropped.
pub(super) struct Context {
    pub(super) api: &'static Api,
    pub(super) handle: sys::CUcontext,
    pub(super) device: sys::CUdevice,
    pub(super) ordinal: usize,
    pub(super) sms: u32,
    pub(super) kernels: Kernels,
}

thread_local! {
    static CURRENT: Cell<sys::CUcontext> = const { Cell::new(ptr::null_mut()) };
}

/// Makes a context the current one. Cheap if it is already.
pub(super) fn make_current(api: &Api, handle: sys::CUcontext, ordinal: usize) -> Result<(), GpuError> {
    if CURRENT.get() != handle {
        // SAFETY: the handle comes from cuDevicePrimaryCtxRetain and is still retained.
        let code = unsafe { (api.set_current)(handle) };
        api.check("cuCtxSetCurrent", code, || format!("GPU {ordinal}"))?;
        CURRENT.set(handle);
    }
    Ok(())
}

/// Forgets which context is current: for calls into libraries that change it.
pub(in crate::gpu) fn forget_current() {
    CURRENT.set(ptr::null_mut());
}

impl Context {
    /// Retains the primary context of a device and loads the kernels into it.
    pub(super) fn retain(
        device: sys::CUdevice,
        ordinal: usize,
        sms: u32,
        image: &[u8],
    ) -> Result<Self, GpuError> {
        let api = api()?;
        let mut handle = ptr::null_mut();
        // SAFETY: one handle is written; the device was counted by the driver.
        let code = unsafe { (api.retain)(&raw mut handle, device) };
        api.check("cuDevicePrimaryCtxRetain", code, || format!("GPU {ordinal}: making a context"))?;
        let kernels = make_current(api, handle, ordinal).and_then(|()| Kernels::load(api, image, ordinal));
        match kernels {
            Ok(kernels) => Ok(Self { api, handle, device, ordinal, sms, kernels }),
            Err(error) => {
                CURRENT.set(ptr::null_mut());
                // SAFETY: retained above, and nothing of it is in use.
                unsafe { (api.release)(device) };
                Err(error)
            }
        }
    }

    pub(super) fn bind(&self) -> Result<(), GpuError> {
        make_current(self.api, self.handle, self.ordinal)
    }

    pub(super) fn check(
        &self,
        call: &'static str,
        code: i32,
        doing: impl FnOnce() -> String,
    ) -> Result<(), GpuError> {
        self.api.check(call, code, doing)
    }

    /// For destructors: whether the driver may still be called, with this context current.
    pub(super) fn may_free(&self) -> bool {
        !is_spoiled() && self.bind().is_ok()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.may_free() {
            self.kernels.unload(self.api);
            CURRENT.set(ptr::null_mut());
            // SAFETY: retained once in `retain`; everything in it was dropped before, because all of it holds
            // this value.
            unsafe { (self.api.release)(self.device) };
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "context of GPU {}", self.ordinal)
    }
}
