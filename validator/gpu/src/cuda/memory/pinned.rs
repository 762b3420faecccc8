//! Page-locked host memory that every GPU reaches under the address that the host uses.
#![expect(
    unsafe_code,
    reason = "calls into the CUDA driver; memory that devices write"
)]

use super::span::{Span, size};
use crate::cuda::context::Context;
use crate::cuda::device::Gpu;
use crate::cuda::error::GpuError;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::slice;

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: for all contexts, and mapped.
const PORTABLE_MAPPED: u32 = 1 | 2;

/// Allocations up to this size are zeroed, because flags and counters must start at zero. Larger ones hold
/// transfers, which overwrite them, and clearing them would cost more than the transfers.
const CLEARED: u64 = 1 << 20;

/// Page-locked memory; freed when dropped.
#[derive(Debug)]
pub struct Pinned {
    at: NonNull<u8>,
    bytes: u64,
    context: Rc<Context>,
}

impl Pinned {
    /// Allocates `bytes` through `gpu`; allocations of up to 1 MiB are zeroed, larger ones uninitialised.
    ///
    /// # Errors
    /// The driver's error; 2 when the host does not have enough.
    pub fn alloc(gpu: &Gpu, bytes: u64) -> Result<Self, GpuError> {
        let context = &gpu.context;
        context.bind()?;
        let mut at = ptr::null_mut();
        // SAFETY: one pointer is written.
        let code = unsafe { (context.api.host_alloc)(&raw mut at, size(bytes)?, PORTABLE_MAPPED) };
        context.check("cuMemHostAlloc", code, || {
            format!("{bytes} bytes of page-locked host memory")
        })?;
        let at = NonNull::new(at.cast::<u8>())
            .ok_or_else(|| GpuError::Nonsense("cuMemHostAlloc gave no address".to_owned()))?;
        if bytes <= CLEARED {
            // SAFETY: `bytes` bytes were allocated there, and nothing else uses them yet.
            unsafe { ptr::write_bytes(at.as_ptr(), 0, size(bytes)?) };
        }
        Ok(Self {
            at,
            bytes,
            context: Rc::clone(context),
        })
    }

    /// All of it, as GPUs address it.
    #[must_use]
    pub fn whole(&self) -> Span<'_> {
        // The provenance is exposed, because the driver and the GPUs use the address as a number.
        Span::of(
            self,
            self.at.as_ptr().expose_provenance() as u64,
            self.bytes,
        )
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`GpuError::Bounds`]
    pub fn span(&self, offset: u64, bytes: u64) -> Result<Span<'_>, GpuError> {
        self.whole().part(offset, bytes)
    }

    /// The first `count` words from word `first` on; fewer at the end. Only between `finish` and the next
    /// call that writes there, otherwise the words may be partly old.
    #[must_use]
    pub fn words(&self, first: u64, count: u64) -> Vec<u32> {
        let last = first.saturating_add(count).min(self.bytes / 4);
        let (Some(at), Ok(count)) = (
            self.place(first),
            usize::try_from(last.saturating_sub(first)),
        ) else {
            return Vec::new();
        };
        // SAFETY: inside the allocation and aligned; no device writes there now.
        unsafe { slice::from_raw_parts(at, count) }.to_vec()
    }

    /// Writes `bytes` at the start, as many as there is room for. Only while no device uses that memory.
    pub fn write(&mut self, bytes: &[u8]) {
        let count = bytes
            .len()
            .min(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        // SAFETY: inside the allocation.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.as_ptr(), count) };
    }

    /// Reads `count` bytes from the start, fewer if there are fewer, under the same condition as `words`.
    #[must_use]
    pub fn read(&self, count: usize) -> Vec<u8> {
        let count = count.min(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        // SAFETY: as in `words`.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), count) }.to_vec()
    }

    /// Word `n`; 0 beyond the end.
    #[must_use]
    pub fn word(&self, n: u64) -> u32 {
        let Some(at) = self.place(n) else { return 0 };
        // SAFETY: inside the allocation and aligned; volatile, because a device may write it.
        unsafe { ptr::read_volatile(at) }
    }

    /// Sets word `n`; no effect beyond the end.
    pub fn set_word(&self, n: u64, value: u32) {
        if let Some(at) = self.place(n) {
            // SAFETY: as above.
            unsafe { ptr::write_volatile(at, value) };
        }
    }

    fn place(&self, n: u64) -> Option<*mut u32> {
        let offset = usize::try_from(n).ok()?.checked_mul(4)?;
        let inside = (offset as u64).checked_add(4)? <= self.bytes;
        // SAFETY: `inside`; the driver aligns to pages.
        inside.then(|| unsafe { self.at.as_ptr().add(offset) }.cast())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // As for a buffer: freed only when no queued work can reach it any more, otherwise leaked. A GPU that
        // writes here after the memory is freed would overwrite whatever the process uses it for next.
        if self.context.wait_until_idle() {
            // SAFETY: allocated by cuMemHostAlloc, freed once; spans borrow it, so none is left.
            unsafe { (self.context.api.host_free)(self.at.as_ptr().cast()) };
        }
    }
}

/// A flag that holds GPUs back until the host opens it, so that all work is queued before any starts.
#[derive(Debug)]
pub struct Latch(Pinned);

impl Latch {
    /// A closed latch.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        Pinned::alloc(gpu, 4096).map(Self)
    }

    /// Closes the latch again.
    pub fn close(&self) {
        self.0.set_word(0, 0);
    }

    /// Releases all streams that wait at it.
    pub fn open(&self) {
        self.0.set_word(0, 1);
    }

    pub(in crate::cuda) fn address(&self) -> u64 {
        self.0.whole().address
    }
}
