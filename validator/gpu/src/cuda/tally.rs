//! The counters of a check on the GPU. The kernel adds to numbers in the GPU's memory; they are copied back
//! through page-locked host memory.

use super::device::Gpu;
use super::error::GpuError;
use super::memory::Buffer;
use super::stream::Stream;
use crate::cuda::memory::pinned::Pinned;
use crate::cuda::memory::span::Span;

/// The size of a check's counters, bytes.
const BYTES: u64 = 64;

/// The result of a check: `Stream::check` counts words, `Stream::check_values` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckCounts {
    /// How many words or elements were checked.
    pub looked: u64,
    /// How many are wrong.
    pub wrong: u64,
    /// Of those, how many are 0.
    pub zeros: u64,
    /// Of those, how many are all ones.
    pub ones: u64,
    /// Of those, how many still hold the sentinel; not counted for elements.
    pub sentinels: u64,
    /// The first wrong one; `None` when none is wrong.
    pub first: Option<u64>,
    /// The last wrong one.
    pub last: Option<u64>,
}

/// Memory for the counters of one check at a time, or of several that add up.
#[derive(Debug)]
pub struct Tally {
    device: Buffer,
    host: Pinned,
}

impl Tally {
    /// Counters for checks on `gpu`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        Ok(Self {
            device: gpu.alloc(BYTES)?,
            host: Pinned::alloc(gpu, 4096)?,
        })
    }

    /// The kernel's counters, preset: all zero except number 3 (`out[3]` of the kernels), which is the
    /// greatest possible, because the kernel stores a minimum there. On the stream, before the kernel.
    pub(super) fn preset(&self, stream: &Stream, minimum_at: u64) -> Result<Span<'_>, GpuError> {
        let at = self.device.whole();
        stream.set_bytes(at, 0)?;
        stream.set_bytes(at.part(minimum_at * 8, 8)?, 0xff)?;
        Ok(at)
    }

    /// Copies the counters to the host; on the stream, after the kernel.
    pub(super) fn fetch(&self, stream: &Stream) -> Result<(), GpuError> {
        stream.copy_out(self.host.span(0, BYTES)?, self.device.whole())
    }

    /// Prepares checks that add up, such as `Stream::check_values`; on their stream, before them.
    ///
    /// # Errors
    /// The driver's error.
    pub fn begin(&self, stream: &Stream) -> Result<(), GpuError> {
        self.preset(stream, 3).map(drop)
    }

    /// Copies their counters to the host; on their stream, after them.
    ///
    /// # Errors
    /// The driver's error.
    pub fn end(&self, stream: &Stream) -> Result<(), GpuError> {
        self.fetch(stream)
    }

    /// The counters in the GPU's memory.
    pub(super) const fn place(&self) -> Span<'_> {
        self.device.whole()
    }

    /// Counter `n`, after `finish`.
    pub(super) fn number(&self, n: u64) -> u64 {
        u64::from(self.host.word(n * 2)) | u64::from(self.host.word(n * 2 + 1)) << 32
    }

    /// The bits that were wrong in one of the words that `Stream::march` counted; only after `finish`.
    #[must_use]
    pub fn wrong_bits(&self) -> u32 {
        self.host.word(12)
    }

    /// The result of the last check, or of all between `begin` and `end`; only after `finish` of its stream.
    #[must_use]
    pub fn checked(&self) -> CheckCounts {
        let wrong = self.number(0);
        let some = |n| (wrong > 0).then(|| self.number(n));
        CheckCounts {
            looked: self.number(5),
            wrong,
            zeros: self.number(1),
            ones: self.number(7),
            sentinels: self.number(2),
            first: some(3),
            last: some(4),
        }
    }
}
