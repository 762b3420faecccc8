//! Memory of a GPU, and parts of it. A buffer is either an ordinary allocation, which peers reach once access
//! is enabled, or mapped (see `mapped`) with a list of its peers.

#![expect(unsafe_code, reason = "calls into the CUDA driver")]

pub(super) mod mapped;
pub(super) mod pinned;
pub(super) mod span;

use super::context::Context;
use super::device::Gpu;
use super::error::GpuError;
use mapped::Mapping;
use span::{Extent, Span, size};
use std::cell::Cell;
use std::rc::Rc;

/// Memory of one GPU; freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    extent: Extent,
    backing: Backing,
    /// Whether another process may have it open through its CUDA IPC handle.
    lent: Cell<bool>,
    context: Rc<Context>,
}

/// Where the memory comes from, which decides how it is freed.
#[derive(Debug)]
enum Backing {
    Allocated,
    Mapped(Mapping),
    /// Memory of another process, opened through CUDA IPC.
    Opened,
}

impl Gpu {
    /// `bytes` of memory from `cuMemAlloc`.
    ///
    /// # Errors
    /// The driver's error; 2 when there is not enough.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, GpuError> {
        let context = &self.context;
        context.bind()?;
        let mut address = 0;
        // SAFETY: one address is written.
        let code = unsafe { (context.api.alloc)(&raw mut address, size(bytes)?) };
        context.check("cuMemAlloc", code, || {
            format!("GPU {}: {bytes} bytes", self.ordinal)
        })?;
        Ok(self.buffer(Extent { address, bytes }, Backing::Allocated))
    }

    /// `bytes` of memory from the driver's virtual memory functions, rounded up to their granularity, which
    /// this GPU and `peers` may read and write.
    ///
    /// # Errors
    /// The driver's error.
    pub fn alloc_mapped(&self, bytes: u64, peers: &[&Gpu]) -> Result<Buffer, GpuError> {
        let mapping = Mapping::make(&self.context, bytes)?;
        self.over(mapping, peers)
    }

    /// A buffer over a mapping that this GPU and `peers` may use.
    pub(super) fn over(&self, mapping: Mapping, peers: &[&Gpu]) -> Result<Buffer, GpuError> {
        let devices = std::iter::once(self)
            .chain(peers.iter().copied())
            .map(|g| g.context.device)
            .collect::<Vec<_>>();
        mapping.allow(&self.context, &devices)?;
        Ok(self.buffer(mapping.extent(), Backing::Mapped(mapping)))
    }

    /// A buffer over memory of another process.
    pub(super) fn opened(&self, extent: Extent) -> Buffer {
        self.buffer(extent, Backing::Opened)
    }

    fn buffer(&self, extent: Extent, backing: Backing) -> Buffer {
        Buffer {
            extent,
            backing,
            lent: Cell::new(false),
            context: Rc::clone(&self.context),
        }
    }
}

impl Buffer {
    /// The whole buffer.
    #[must_use]
    pub const fn whole(&self) -> Span<'_> {
        Span::of(self, self.extent.address, self.extent.bytes)
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`GpuError::Bounds`]
    pub fn span(&self, offset: u64, bytes: u64) -> Result<Span<'_>, GpuError> {
        self.whole().part(offset, bytes)
    }

    /// The mapping of a mapped buffer.
    pub(super) const fn mapping(&self) -> Option<&Mapping> {
        match &self.backing {
            Backing::Mapped(mapping) => Some(mapping),
            Backing::Allocated | Backing::Opened => None,
        }
    }

    /// Records whether another process may have it open.
    pub(super) fn lend(&self, lent: bool) {
        self.lent.set(lent);
    }

    pub(super) const fn context(&self) -> &Rc<Context> {
        &self.context
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // No span of it is left, but work that was queued with one may still run, on any GPU: the memory is
        // freed when all work of this thread is done, and leaked if that work does not end. Memory that another
        // process may have open is leaked too: CUDA forbids freeing it before that process has closed it. The
        // driver frees leaked memory when this process ends.
        if self.lent.get() || !self.context.wait_until_idle() {
            return;
        }
        let (api, address) = (self.context.api, self.extent.address);
        match &self.backing {
            // SAFETY: allocated by cuMemAlloc in this context, freed once; spans borrow the buffer, so none is
            // left, and no queued work uses it any more.
            Backing::Allocated => drop(unsafe { (api.free)(address) }),
            // SAFETY: opened by cuIpcOpenMemHandle in this context, closed once.
            Backing::Opened => drop(unsafe { (api.ipc_close)(address) }),
            Backing::Mapped(mapping) => mapping.undo(api),
        }
    }
}
