//! Whether a GPU may reach an address, and how.

use super::Engine;
use crate::memory::{Place, Span};
use crate::scenario::{Engine as Who, MemoryKind};
use crate::status::{Result, Status};

/// An address range as one GPU reaches it.
#[derive(Debug, Clone)]
pub(super) enum Reach {
    /// Host memory.
    Host { address: u64, pinned: bool },
    /// GPU memory: the GPU's own, or a peer's if `direct`; otherwise only the driver can reach it.
    Gpu { spans: Vec<Span>, owner: usize, direct: bool },
}

impl Reach {
    /// The memory's spans, if it is GPU memory.
    pub(super) fn spans(&self) -> &[Span] {
        if let Self::Gpu { spans, .. } = self { spans } else { &[] }
    }
}

impl Engine {
    /// How GPU `by` reaches `bytes` bytes at `address`.
    pub(super) fn reach(&self, by: usize, address: u64, bytes: u64, who: Who) -> Result<Reach> {
        if bytes == 0 {
            // Nothing is accessed, wherever the address points.
            return Ok(Reach::Gpu { spans: Vec::new(), owner: by, direct: true });
        }
        match self.memory.place(address, bytes)? {
            Place::Pinned => Ok(Reach::Host { address, pinned: true }),
            // A kernel would fault; a copy goes through a staging buffer of the driver.
            Place::Pageable if who == Who::Ce => Ok(Reach::Host { address, pinned: false }),
            Place::Pageable => Err(Status::ILLEGAL_ADDRESS),
            Place::Gpu(spans) => {
                let owner = spans.first().map(|s| s.owner).ok_or(Status::ILLEGAL_ADDRESS)?;
                let mut direct = true;
                for span in &spans {
                    direct &= self.allowed(by, span, who)?;
                }
                Ok(Reach::Gpu { spans, owner, direct })
            }
        }
    }

    /// Whether a GPU itself may access a stretch; a copy of allocated memory does not need that.
    fn allowed(&self, by: usize, span: &Span, who: Who) -> Result<bool> {
        let itself = match span.kind {
            MemoryKind::Vmm => span.access.contains(by),
            MemoryKind::Alloc => {
                by == span.owner || self.gpus.get(by).is_some_and(|g| g.peers.contains(&span.owner))
            }
        };
        let by_driver = span.kind == MemoryKind::Alloc && who == Who::Ce;
        if itself || by_driver { Ok(itself) } else { Err(Status::ILLEGAL_ADDRESS) }
    }
}
