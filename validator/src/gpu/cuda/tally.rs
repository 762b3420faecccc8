//! What a check on the GPU counted. The kernel adds to numbers in the GPU's memory; they come back
//! through page-locked host memory.

use super::device::Gpu;
use super::error::GpuError;
use super::memory::Buffer;
use super::stream::Stream;
use crate::gpu::cuda::memory::pinned::Pinned;
use crate::gpu::cuda::memory::span::Span;

/// Numbers of a check, bytes.
const BYTES: u64 = 64;

/// What a check counted: `Stream::check` words, `Stream::check_values` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    /// How many were looked at.
    pub looked: u64,
    /// How many are not what they should be.
    pub wrong: u64,
    /// Of those, how many are 0.
    pub zeros: u64,
    /// Of those, how many still hold the sentinel; of elements this is not asked.
    pub sentinels: u64,
    /// The first wrong one; `None` when none is wrong.
    pub first: Option<u64>,
    /// The last wrong one.
    pub last: Option<u64>,
}

/// A place for the numbers of one check at a time, or of several that add up.
#[derive(Debug)]
pub struct Tally {
    device: Buffer,
    host: Pinned,
}

impl Tally {
    /// For checks on `gpu`.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        Ok(Self { device: gpu.alloc(BYTES)?, host: Pinned::alloc(gpu, 4096)? })
    }

    /// Where the kernel counts, preset: all zero but number 3 (`out[3]` of the kernels), which is
    /// the greatest possible, since the kernel takes a minimum there. On the stream, before it.
    pub(super) fn preset(&self, stream: &Stream, minimum_at: u64) -> Result<Span, GpuError> {
        let at = self.device.whole();
        stream.set_bytes(at, 0)?;
        stream.set_bytes(at.part(minimum_at * 8, 8)?, 0xff)?;
        Ok(at)
    }

    /// Brings the numbers to the host; on the stream, after the kernel.
    pub(super) fn fetch(&self, stream: &Stream) -> Result<(), GpuError> {
        stream.copy_out(self.host.span(0, BYTES)?, self.device.whole())
    }

    /// Makes ready for checks that add up, as `Stream::check_values` does; on their stream, before them.
    ///
    /// # Errors
    /// The driver's.
    pub fn begin(&self, stream: &Stream) -> Result<(), GpuError> {
        self.preset(stream, 3).map(drop)
    }

    /// Brings to the host what they counted; on their stream, after them.
    ///
    /// # Errors
    /// The driver's.
    pub fn end(&self, stream: &Stream) -> Result<(), GpuError> {
        self.fetch(stream)
    }

    /// Where the kernels count.
    pub(super) const fn place(&self) -> Span {
        self.device.whole()
    }

    /// Number `n`, after `finish`.
    pub(super) fn number(&self, n: u64) -> u64 {
        u64::from(self.host.word(n * 2)) | u64::from(self.host.word(n * 2 + 1)) << 32
    }

    /// What the last check, or all between `begin` and `end`, counted; only after `finish` of its stream.
    #[must_use]
    pub fn checked(&self) -> Checked {
        let wrong = self.number(0);
        let some = |n| (wrong > 0).then(|| self.number(n));
        Checked {
            looked: self.number(5),
            wrong,
            zeros: self.number(1),
            sentinels: self.number(2),
            first: some(3),
            last: some(4),
        }
    }
}
