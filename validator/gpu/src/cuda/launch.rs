//! Launches kernels; here are those that fill, check and copy memory. Their source describes each.
#![expect(
    unsafe_code,
    reason = "calls into the CUDA driver; kernel arguments go by address"
)]

use super::context::Context;
use super::error::GpuError;
use super::kernels::Kernels;
use super::stream::Stream;
use super::tally::Tally;
use crate::cuda::memory::span::Span;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::ptr;

/// Threads of a block, for kernels that accept any number.
pub(super) const THREADS: u32 = 256;
/// Threads of a block of the bandwidth copy: nvbandwidth's number.
const COPY_THREADS: u32 = 512;
/// Blocks per multiprocessor for kernels that only access memory: enough to fill it.
const BLOCKS_PER_SM: u32 = 8;

impl Stream {
    /// Sets word `k` of `to` to `word(seed, first + k)`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn fill(&self, to: Span<'_>, seed: u64, first: u64) -> Result<(), GpuError> {
        let mut arguments = (to.address, to.words(), seed, first);
        let list = [
            at(&raw mut arguments.0),
            at(&raw mut arguments.1),
            at(&raw mut arguments.2),
            at(&raw mut arguments.3),
        ];
        self.launch(
            self.kernels().fill,
            self.grid(to.words()),
            THREADS,
            &list,
            "fl_fill",
        )
    }

    /// Counts the words of `what` that are not `word(expected, first + k)`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn check(
        &self,
        what: Span<'_>,
        first: u64,
        expected: u64,
        sentinel: u64,
        tally: &Tally,
    ) -> Result<(), GpuError> {
        tally.begin(self)?;
        self.check_more(what, first, expected, sentinel, tally)?;
        tally.end(self)
    }

    /// The same; adds its counts to those of other checks between `begin` and `end` of `tally`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn check_more(
        &self,
        what: Span<'_>,
        first: u64,
        expected: u64,
        sentinel: u64,
        tally: &Tally,
    ) -> Result<(), GpuError> {
        let mut a = (
            what.address,
            what.words(),
            first,
            expected,
            sentinel,
            tally.place().address,
        );
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
            at(&raw mut a.4),
            at(&raw mut a.5),
        ];
        self.launch(
            self.kernels().check,
            self.grid(what.words()),
            THREADS,
            &list,
            "fl_check",
        )
    }

    /// Copies with the multiprocessors: 16 bytes at a time where the size allows, else words.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if the sizes differ.
    pub fn copy_sm(&self, to: Span<'_>, from: Span<'_>) -> Result<(), GpuError> {
        if to.bytes != from.bytes {
            return Err(GpuError::Bounds {
                offset: 0,
                bytes: from.bytes,
                of: to.bytes,
            });
        }
        let wide = [to.bytes, to.address, from.address]
            .iter()
            .all(|n| n.is_multiple_of(16));
        let mut a = (
            to.address,
            from.address,
            if wide { to.bytes / 16 } else { to.words() },
        );
        let list = [at(&raw mut a.0), at(&raw mut a.1), at(&raw mut a.2)];
        if wide {
            self.launch(
                self.kernels().copy16,
                self.context.sms,
                COPY_THREADS,
                &list,
                "fl_copy16",
            )
        } else {
            self.launch(
                self.kernels().copy_words,
                self.grid(a.2),
                THREADS,
                &list,
                "fl_copy_words",
            )
        }
    }

    pub(super) fn kernels(&self) -> &Kernels {
        &self.context.kernels
    }

    /// The number of blocks for this many items, at most as many as keep the GPU busy.
    pub(super) fn grid(&self, items: u64) -> u32 {
        let wanted = u32::try_from(items.div_ceil(u64::from(THREADS))).unwrap_or(u32::MAX);
        wanted.clamp(1, self.context.sms.saturating_mul(BLOCKS_PER_SM).max(1))
    }

    pub(super) fn launch(
        &self,
        kernel: sys::CUfunction,
        blocks: u32,
        threads: u32,
        arguments: &[*mut c_void],
        name: &'static str,
    ) -> Result<(), GpuError> {
        let context: &Context = &self.context;
        context.bind()?;
        let arguments = arguments.as_ptr().cast_mut();
        let none = ptr::null_mut();
        // SAFETY: the kernel belongs to this context; the arguments match those of its source in number and type,
        // and the driver copies them before it returns.
        let code = unsafe {
            (context.api.launch)(
                kernel,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                self.handle,
                arguments,
                none,
            )
        };
        self.check_call("cuLaunchKernel", code, || name.to_owned())
    }
}

/// An argument's address in the form that the driver needs.
pub(super) const fn at<T>(argument: *mut T) -> *mut c_void {
    argument.cast()
}
