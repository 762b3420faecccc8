//! A GPU's primary context, which NCCL and every framework use too, and the record of the current one.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::api::{Api, api};
use super::error::{GpuError, is_cuda_lost};
use super::kernels::Kernels;
use crate::poll::pause;
use cudarc::driver::sys;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::time::{Duration, Instant};

/// `CUDA_ERROR_NOT_READY`
pub(super) const NOT_READY: i32 = 600;
/// How long dropping memory waits for queued work. Tests wait for their own work; some is left over only if a
/// test ends early, and no single piece of it takes this long.
const DRAIN_LIMIT: Duration = Duration::from_secs(4);

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
    /// All streams of this thread. Contexts, and with them memory and spans, do not leave their thread, so no
    /// other stream of this process can use the memory.
    static STREAMS: RefCell<Vec<StreamEntry>> = const { RefCell::new(Vec::new()) };
}

/// A stream and its context, which the stream keeps alive.
#[derive(Clone, Copy)]
struct StreamEntry {
    stream: sys::CUstream,
    context: sys::CUcontext,
    ordinal: usize,
}

/// Adds a new stream to the list of this thread; `unregister_stream` removes it.
pub(super) fn register_stream(context: &Context, stream: sys::CUstream) {
    let entry = StreamEntry {
        stream,
        context: context.handle,
        ordinal: context.ordinal,
    };
    STREAMS.with_borrow_mut(|all| all.push(entry));
}

/// Removes a stream that is about to be destroyed, or that can no longer be used.
pub(super) fn unregister_stream(stream: sys::CUstream) {
    STREAMS.with_borrow_mut(|all| all.retain(|entry| entry.stream != stream));
}

/// Makes a context the current one. Cheap if it is already.
pub(super) fn make_current(
    api: &Api,
    handle: sys::CUcontext,
    ordinal: usize,
) -> Result<(), GpuError> {
    if CURRENT.get() != handle {
        // SAFETY: the handle comes from cuDevicePrimaryCtxRetain and is still retained.
        let code = unsafe { (api.set_current)(handle) };
        api.check("cuCtxSetCurrent", code, || format!("GPU {ordinal}"))?;
        CURRENT.set(handle);
    }
    Ok(())
}

/// Forgets which context is current: for calls into libraries that change it.
pub(crate) fn forget_current() {
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
        api.check("cuDevicePrimaryCtxRetain", code, || {
            format!("GPU {ordinal}: making a context")
        })?;
        let kernels =
            make_current(api, handle, ordinal).and_then(|()| Kernels::load(api, image, ordinal));
        match kernels {
            Ok(kernels) => Ok(Self {
                api,
                handle,
                device,
                ordinal,
                sms,
                kernels,
            }),
            Err(error) => {
                CURRENT.set(ptr::null_mut());
                // SAFETY: retained above, and nothing in it is in use.
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
        !is_cuda_lost() && self.bind().is_ok()
    }

    /// For destructors of resources that queued work uses: waits until all work of this thread is done, and
    /// returns whether the driver may be called to free them. They stay allocated if work hangs or fails.
    pub(super) fn wait_until_idle(&self) -> bool {
        if is_cuda_lost() {
            return false;
        }
        let all = STREAMS.with_borrow(Clone::clone);
        let start = Instant::now();
        match all
            .iter()
            .try_for_each(|entry| self.wait_for(*entry, start))
        {
            Ok(()) => self.bind().is_ok(),
            Err(error) => {
                log::warn!("memory is not freed, because work may still use it: {error}");
                false
            }
        }
    }

    fn wait_for(&self, entry: StreamEntry, start: Instant) -> Result<(), GpuError> {
        let StreamEntry {
            stream,
            context,
            ordinal,
        } = entry;
        loop {
            make_current(self.api, context, ordinal)?;
            // SAFETY: listed streams are alive, and each keeps its context.
            let code = unsafe { (self.api.stream_query)(stream) };
            if code != NOT_READY {
                return self.check("cuStreamQuery", code, || {
                    format!("GPU {ordinal}: work left over")
                });
            }
            let waited = start.elapsed();
            if waited > DRAIN_LIMIT {
                return Err(GpuError::hang(
                    &format!("GPU {ordinal}: work left over"),
                    waited,
                ));
            }
            pause(waited);
        }
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
