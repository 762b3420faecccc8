//! Whether a GPU may reach an address, and how.

use super::Engine;
use crate::memory::{Location, Span};
use crate::scenario::{Engine as EngineKind, MemoryKind};
use crate::status::{Result, Status};

/// An address range as one GPU reaches it.
#[derive(Debug, Clone)]
pub(super) enum MemoryRange {
    /// Host memory.
    Host { address: u64, pinned: bool },
    /// GPU memory: the GPU's own, or a peer's if `direct`; otherwise only the driver can reach it.
    Gpu {
        spans: Vec<Span>,
        owner: usize,
        direct: bool,
    },
}

impl MemoryRange {
    /// The memory's spans, if it is GPU memory.
    pub(super) fn spans(&self) -> &[Span] {
        if let Self::Gpu { spans, .. } = self {
            spans
        } else {
            &[]
        }
    }
}

impl Engine {
    /// How GPU `by` reaches `bytes` bytes at `address`.
    pub(super) fn resolve(
        &self,
        by: usize,
        address: u64,
        bytes: u64,
        engine: EngineKind,
    ) -> Result<MemoryRange> {
        if bytes == 0 {
            // Nothing is accessed, wherever the address points.
            return Ok(MemoryRange::Gpu {
                spans: Vec::new(),
                owner: by,
                direct: true,
            });
        }
        match self.memory.locate(address, bytes)? {
            Location::Pinned => Ok(MemoryRange::Host {
                address,
                pinned: true,
            }),
            // A kernel would fault; a copy goes through a staging buffer of the driver.
            Location::Pageable if engine == EngineKind::Ce => Ok(MemoryRange::Host {
                address,
                pinned: false,
            }),
            Location::Pageable => Err(Status::ILLEGAL_ADDRESS),
            Location::Gpu(spans) => {
                let owner = spans
                    .first()
                    .map(|s| s.owner)
                    .ok_or(Status::ILLEGAL_ADDRESS)?;
                let mut direct = true;
                for span in &spans {
                    direct &= self.allowed(by, span, engine)?;
                }
                Ok(MemoryRange::Gpu {
                    spans,
                    owner,
                    direct,
                })
            }
        }
    }

    /// Whether a GPU itself may access a stretch; a copy of allocated memory does not need that.
    fn allowed(&self, by: usize, span: &Span, engine: EngineKind) -> Result<bool> {
        let itself = match span.kind {
            MemoryKind::Vmm => span.access.contains(by),
            MemoryKind::Alloc => {
                by == span.owner
                    || self
                        .gpus
                        .get(by)
                        .is_some_and(|g| g.peers.contains(&span.owner))
            }
        };
        let by_driver = span.kind == MemoryKind::Alloc && engine == EngineKind::Ce;
        if itself || by_driver {
            Ok(itself)
        } else {
            Err(Status::ILLEGAL_ADDRESS)
        }
    }
}
