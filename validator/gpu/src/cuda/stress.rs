//! The kernels that stress a GPU: moving inversions over its memory, and matrix products with known sums.
//! `kernels/stress.cu` describes both.

use super::device::Gpu;
use super::error::GpuError;
use super::launch::{THREADS, at};
use super::memory::Buffer;
use super::stream::Stream;
use super::tally::Tally;
use crate::cuda::memory::pinned::Pinned;
use crate::cuda::memory::span::Span;

/// Threads of a block of the products: `PRODUCT_THREADS` of the kernel.
const PRODUCT_THREADS: u32 = 256;
/// Blocks of the products on each multiprocessor.
const PRODUCT_BLOCKS: u32 = 2;
/// Numbers that each block writes: its sum, and the multiprocessor that it ran on.
const NUMBERS: u64 = 2;

/// One step of moving inversions: word `k` must be `word(seed, first + k) ^ before`, and becomes `^ after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct March {
    /// The number of the memory's first word in the pattern.
    pub first: u64,
    /// The pattern's seed.
    pub seed: u64,
    /// The bits that are inverted now.
    pub before: u32,
    /// The bits that are inverted afterwards.
    pub after: u32,
}

/// The number format of the products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// 8-bit integers, summed in 32 bits.
    Int8,
    /// `bfloat16`, or half precision on GPUs without it, summed in single precision.
    Float,
}

/// Memory for the sums of one launch of products.
#[derive(Debug)]
pub struct Sums {
    device: Buffer,
    host: Pinned,
    blocks: u32,
}

impl Sums {
    /// Memory for launches on `gpu`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        let blocks = gpu.context.sms.saturating_mul(PRODUCT_BLOCKS).max(1);
        let bytes = u64::from(blocks) * NUMBERS * 8;
        Ok(Self {
            device: gpu.alloc(bytes)?,
            host: Pinned::alloc(gpu, bytes)?,
            blocks,
        })
    }

    /// How many blocks a launch has.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The sum of each block of the last launch, and the multiprocessor that it ran on; only after `finish`.
    pub fn read(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let number =
            |n: u64| u64::from(self.host.word(n * 2)) | u64::from(self.host.word(n * 2 + 1)) << 32;
        (0..u64::from(self.blocks))
            .map(move |block| (number(block * NUMBERS), number(block * NUMBERS + 1)))
    }
}

impl Stream {
    /// Checks and inverts `memory`, whose address and size are multiples of 16 bytes. Its counts are added to
    /// `tally`, between its `begin` and `end`: `sentinels` are words that were inverted already.
    ///
    /// # Errors
    /// The driver's error.
    pub fn march(&self, memory: Span<'_>, march: &March, tally: &Tally) -> Result<(), GpuError> {
        let mut a = (memory.address, memory.bytes / 16, march.first, march.seed);
        let mut b = (march.before, march.after, tally.place().address);
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
            at(&raw mut b.0),
            at(&raw mut b.1),
            at(&raw mut b.2),
        ];
        self.launch(
            self.kernels().march,
            self.grid(a.1),
            THREADS,
            &list,
            "fl_march",
        )
    }

    /// Every block calculates the same `batches` batches `times` times; its sum must be `product_sum` of the seed,
    /// multiplied by `times`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn products(
        &self,
        arithmetic: Arithmetic,
        seed: u64,
        (batches, times): (u32, u32),
        sums: &Sums,
    ) -> Result<(), GpuError> {
        let mut a = (seed, batches, times, sums.device.whole().address);
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
        ];
        let (kernel, name) = match arithmetic {
            Arithmetic::Int8 => (self.kernels().products_int8, "fl_products_int8"),
            Arithmetic::Float => (self.kernels().products_float, "fl_products_float"),
        };
        self.launch(kernel, sums.blocks, PRODUCT_THREADS, &list, name)?;
        self.copy_out(sums.host.whole(), sums.device.whole())
    }
}
