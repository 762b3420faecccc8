//! What a collective's data meets between two GPUs: the faults of transfers by kernels that write to a peer.

use super::Engine;
use super::finish::{arriving, flipped};
use crate::collective::{Ask, Call, Part, Path};
use crate::content::Content;
use crate::extents::{Piece, cut};
use crate::fault::Passage;
use crate::scenario::{Engine as Who, Fault, Kind, MemoryKind, Way};

impl Engine {
    /// What arrives at a rank of `pieces`, which it should get: in an exchange from the rank `from`, else from the
    /// one before it on the ring. `None` where the call never ends. Where it is the host's memory that carries
    /// them, all of it arrives.
    pub(super) fn carried(
        &mut self,
        parts: &[Part],
        call: &Call,
        from: usize,
        pieces: Vec<Piece>,
    ) -> Option<Vec<Piece>> {
        let before = (call.rank + parts.len().saturating_sub(1)) % parts.len().max(1);
        let from = if call.ask == Ask::Exchange { from } else { before };
        let gpu = |rank: usize| parts.get(rank).map(|part| part.gpu);
        let (Some(a), Some(b)) = (gpu(from), gpu(call.rank)) else { return Some(pieces) };
        if a == b || call.path != Path::P2p {
            return Some(pieces);
        }
        let bytes = pieces.iter().map(|(n, _)| n).sum();
        let memory = if self.scenario.machine.vmm { MemoryKind::Vmm } else { MemoryKind::Alloc };
        let (engine, way) = (Who::Sm, Way::Write);
        // Every rank of a collective sends at the same time.
        let load = parts.len().saturating_sub(1);
        let (physical, addresses, shared) = (0, [0, 0], false);
        let passage =
            Passage { by: a, from: a, to: b, engine, way, memory, physical, bytes, addresses, shared, load };
        let faults = self.faults.of(&self.scenario, &passage);
        faults.iter().try_fold(pieces, |pieces, fault| left(fault, pieces, bytes))
    }
}

/// What a fault leaves: of a ring only a part of the data crosses each way, here the second half.
fn left(fault: &Fault, pieces: Vec<Piece>, bytes: u64) -> Option<Vec<Piece>> {
    let half = bytes / 2;
    let lost = |pieces: &[Piece]| cut(pieces, half);
    Some(match fault.kind {
        Kind::Hang => return None,
        Kind::Flip => flipped(&pieces, half),
        Kind::Zeros | Kind::Ones => {
            let mut first = lost(&pieces);
            let rest = if fault.kind == Kind::Ones { Content::ONES } else { Content::ZEROS };
            first.push((bytes - half, Some(rest)));
            first
        }
        Kind::Partial => cut(&pieces, arriving(fault, bytes)),
        Kind::Stale | Kind::Mirror | Kind::Offset => lost(&pieces),
        Kind::Victim if fault.instead => lost(&pieces),
        _ => pieces,
    })
}
