//! Points in a stream's work, and the time between two of them.
#![expect(unsafe_code, reason = "calls into the CUDA driver")]

use super::context::Context;
use super::device::Gpu;
use super::error::GpuError;
use cudarc::driver::sys;
use std::ptr;
use std::rc::Rc;

/// `CU_EVENT_DEFAULT`: with a time.
const TIMED: u32 = 0;

/// A point in a stream's work.
#[derive(Debug)]
pub struct Event {
    pub(super) handle: sys::CUevent,
    context: Rc<Context>,
}

impl Gpu {
    /// A new event, not recorded yet.
    ///
    /// # Errors
    /// The driver's error.
    pub fn event(&self) -> Result<Event, GpuError> {
        self.context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: one handle is written.
        let code = unsafe { (self.context.api.event)(&raw mut handle, TIMED) };
        self.context
            .check("cuEventCreate", code, || format!("GPU {}", self.ordinal))?;
        Ok(Event {
            handle,
            context: Rc::clone(&self.context),
        })
    }
}

impl Event {
    /// Milliseconds from `start` to here, with a resolution of about half a microsecond. Both must have been
    /// reached.
    ///
    /// # Errors
    /// The driver's error: 600 while one is not reached.
    pub fn ms_since(&self, start: &Self) -> Result<f64, GpuError> {
        self.context.bind()?;
        let mut ms = 0.0;
        // SAFETY: one float is written; both handles are alive.
        let code =
            unsafe { (self.context.api.event_elapsed)(&raw mut ms, start.handle, self.handle) };
        self.context.check("cuEventElapsedTime", code, || {
            format!("GPU {}", self.context.ordinal)
        })?;
        Ok(f64::from(ms))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: created once, destroyed once.
            unsafe { (self.context.api.event_destroy)(self.handle) };
        }
    }
}
