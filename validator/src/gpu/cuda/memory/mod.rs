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
use span::{Span, size};
use std::rc::Rc;

/// Memory of one GPU; freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    span: Span,
    held: Held,
    context: Rc<Context>,
}

/// How the memory is held.
#[derive(Debug)]
enum Held {
    Allocated,
    Mapped(Mapping),
    /// Another process's, opened through CUDA IPC.
    Opened,
}

impl Gpu {
    /// `bytes` of memory by `cuMemAlloc`.
    ///
    /// # Errors
    /// The driver's error; 2 when there is not enough.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, GpuError> {
        let context = &self.context;
        context.bind()?;
        let mut address = 0;
        // SAFETY: one address is written.
        let code = unsafe { (context.api.alloc)(&raw mut address, size(bytes)?) };
        context.check("cuMemAlloc", code, || format!("GPU {}: {bytes} bytes", self.ordinal))?;
        Ok(Buffer { span: Span { address, bytes }, held: Held::Allocated, context: Rc::clone(context) })
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
        let devices =
            std::iter::once(self).chain(peers.iter().copied()).map(|g| g.context.device).collect::<Vec<_>>();
        mapping.allow(&self.context, &devices)?;
        Ok(Buffer { span: mapping.span(), held: Held::Mapped(mapping), context: Rc::clone(&self.context) })
    }

    /// A buffer over memory of another process.
    pub(super) fn opened(&self, span: Span) -> Buffer {
        Buffer { span, held: Held::Opened, context: Rc::clone(&self.context) }
    }
}

impl Buffer {
    /// The whole buffer.
    #[must_use]
    pub const fn whole(&self) -> Span {
        self.span
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`GpuError::Bounds`]
    pub fn span(&self, offset: u64, bytes: u64) -> Result<Span, GpuError> {
        self.span.part(offset, bytes)
    }

    /// The mapping of a mapped buffer.
    pub(super) const fn mapping(&self) -> Option<&Mapping> {
        match &self.held {
            Held::Mapped(mapping) => Some(mapping),
            Held::Allocated | Held::Opened => None,
        }
    }

    pub(super) const fn context(&self) -> &Rc<Context> {
        &self.context
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.context.may_free() {
            return;
        }
        let (api, address) = (self.context.api, self.span.address);
        match &self.held {
            // SAFETY: allocated by cuMemAlloc in this context, freed once; using a span of a dropped buffer
            // gives the driver's error, because spans are numbers and not references.
            Held::Allocated => drop(unsafe { (api.free)(address) }),
            // SAFETY: opened by cuIpcOpenMemHandle in this context, closed once.
            Held::Opened => drop(unsafe { (api.ipc_close)(address) }),
            Held::Mapped(mapping) => mapping.undo(api),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_outside_is_refused() {
        let span = Span { address: 0x1000, bytes: 100 };
        assert_eq!(span.part(60, 40), Ok(Span { address: 0x103c, bytes: 40 }));
        assert_eq!(span.part(60, 41), Err(GpuError::Bounds { offset: 60, bytes: 41, of: 100 }));
        assert!(span.part(u64::MAX, 2).is_err());
    }
}
