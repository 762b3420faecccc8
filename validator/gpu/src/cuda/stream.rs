//! A queue of work for one GPU. Only `finish` waits, with a deadline.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::context::{Context, NOT_READY, register_stream, unregister_stream};
use super::device::Gpu;
use super::error::GpuError;
use super::event::Event;
use crate::cuda::memory::span::{Span, size};
use crate::poll::pause;
use cudarc::driver::sys;
use std::ptr;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// `CU_STREAM_NON_BLOCKING`: does not wait for the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A queue of work for one GPU.
#[derive(Debug)]
pub struct Stream {
    pub(super) handle: sys::CUstream,
    pub(super) context: Rc<Context>,
}

impl Gpu {
    /// A new stream.
    ///
    /// # Errors
    /// The driver's error.
    pub fn stream(&self) -> Result<Stream, GpuError> {
        self.context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: one handle is written.
        let code = unsafe { (self.context.api.stream)(&raw mut handle, NON_BLOCKING) };
        self.context
            .check("cuStreamCreate", code, || format!("GPU {}", self.ordinal))?;
        register_stream(&self.context, handle);
        Ok(Stream {
            handle,
            context: Rc::clone(&self.context),
        })
    }
}

impl Stream {
    /// Copies with a copy engine; both spans must have the same size.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if the sizes differ.
    pub fn copy(&self, to: Span<'_>, from: Span<'_>) -> Result<(), GpuError> {
        let bytes = same_size(to, from)?;
        self.context.bind()?;
        // SAFETY: spans borrow their buffers, which free nothing before queued work is done.
        let code = unsafe { (self.context.api.copy)(to.address, from.address, bytes, self.handle) };
        self.check_call("cuMemcpyAsync", code, || format!("copying {bytes} bytes"))
    }

    /// Copies between two GPUs as `cudaMemcpyPeerAsync` does: through host memory if peer access is off.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if the sizes differ.
    pub fn copy_peer(
        &self,
        to: Span<'_>,
        to_gpu: &Gpu,
        from: Span<'_>,
        from_gpu: &Gpu,
    ) -> Result<(), GpuError> {
        let bytes = same_size(to, from)?;
        self.context.bind()?;
        let (there, here) = (to_gpu.context.handle, from_gpu.context.handle);
        // SAFETY: as above; both contexts are retained.
        let code = unsafe {
            (self.context.api.copy_peer)(to.address, there, from.address, here, bytes, self.handle)
        };
        self.check_call("cuMemcpyPeerAsync", code, || {
            format!(
                "copying {bytes} bytes from GPU {} to GPU {}",
                from_gpu.ordinal, to_gpu.ordinal
            )
        })
    }

    /// Copies page-locked host memory to a GPU.
    ///
    /// # Errors
    /// As `copy`.
    pub fn copy_in(&self, to: Span<'_>, from_host: Span<'_>) -> Result<(), GpuError> {
        let bytes = same_size(to, from_host)?;
        self.context.bind()?;
        let from = host(from_host)?;
        // SAFETY: as above.
        let code = unsafe {
            (self.context.api.copy_in)(to.address, from.cast_const(), bytes, self.handle)
        };
        self.check_call("cuMemcpyHtoDAsync", code, || {
            format!("copying {bytes} bytes from the host")
        })
    }

    /// Copies from a GPU to page-locked host memory.
    ///
    /// # Errors
    /// As `copy`.
    pub fn copy_out(&self, to_host: Span<'_>, from: Span<'_>) -> Result<(), GpuError> {
        let bytes = same_size(to_host, from)?;
        self.context.bind()?;
        let to = host(to_host)?;
        // SAFETY: as above.
        let code = unsafe { (self.context.api.copy_out)(to, from.address, bytes, self.handle) };
        self.check_call("cuMemcpyDtoHAsync", code, || {
            format!("copying {bytes} bytes to the host")
        })
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// The driver's error.
    pub fn set_bytes(&self, to: Span<'_>, value: u8) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: as above.
        let code = unsafe {
            (self.context.api.set_bytes)(to.address, value, size(to.bytes)?, self.handle)
        };
        self.check_call("cuMemsetD8Async", code, || {
            format!("setting {} bytes", to.bytes)
        })
    }

    /// Records `event` at this point of the stream.
    ///
    /// # Errors
    /// The driver's error.
    pub fn record(&self, event: &Event) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.context.api.event_record)(event.handle, self.handle) };
        self.check_call("cuEventRecord", code, String::new)
    }

    /// Holds all later work of this stream until `event`, of any GPU, is reached.
    ///
    /// # Errors
    /// The driver's error.
    pub fn wait_event(&self, event: &Event) -> Result<(), GpuError> {
        self.context.bind()?;
        // SAFETY: both handles are alive.
        let code = unsafe { (self.context.api.stream_wait)(self.handle, event.handle, 0) };
        self.check_call("cuStreamWaitEvent", code, String::new)
    }

    /// Whether all work is done, without waiting.
    ///
    /// # Errors
    /// The error of the work.
    pub fn done(&self) -> Result<bool, GpuError> {
        self.context.bind()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.context.api.stream_query)(self.handle) };
        if code == NOT_READY {
            return Ok(false);
        }
        self.check_call("cuStreamQuery", code, String::new)
            .map(|()| true)
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// The error of the work; [`GpuError::Hang`] when it has not ended `within` that time.
    pub fn finish(&self, doing: &str, within: Duration) -> Result<(), GpuError> {
        self.context.bind()?;
        let start = Instant::now();
        loop {
            // SAFETY: the handle is alive.
            let code = unsafe { (self.context.api.stream_query)(self.handle) };
            if code != NOT_READY {
                return self
                    .context
                    .check("cuStreamQuery", code, || doing.to_owned());
            }
            let waited = start.elapsed();
            if waited > within {
                return Err(GpuError::hang(doing, waited));
            }
            pause(waited);
        }
    }

    /// For NCCL, which queues its own work here: the handle, with its GPU's context current.
    pub fn handle(&self) -> Result<sys::CUstream, GpuError> {
        self.context.bind()?;
        Ok(self.handle)
    }

    pub(super) fn check_call(
        &self,
        call: &'static str,
        code: i32,
        doing: impl FnOnce() -> String,
    ) -> Result<(), GpuError> {
        self.context.check(call, code, || {
            let (n, doing) = (self.context.ordinal, doing());
            if doing.is_empty() {
                format!("GPU {n}")
            } else {
                format!("GPU {n}: {doing}")
            }
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Otherwise work would outlive the stream, and destructors of the memory that it uses could not wait for it.
        let idle = self.context.wait_until_idle();
        unregister_stream(self.handle);
        if idle {
            // SAFETY: created once, destroyed once; all its work is done.
            unsafe { (self.context.api.stream_destroy)(self.handle) };
        }
    }
}

pub(super) fn same_size(to: Span<'_>, from: Span<'_>) -> Result<usize, GpuError> {
    if to.bytes != from.bytes {
        return Err(GpuError::Bounds {
            offset: 0,
            bytes: from.bytes,
            of: to.bytes,
        });
    }
    size(to.bytes)
}

fn host(span: Span<'_>) -> Result<*mut std::ffi::c_void, GpuError> {
    // The provenance of the allocation was exposed to the driver, which does the access.
    Ok(ptr::with_exposed_provenance_mut(size(span.address)?))
}
