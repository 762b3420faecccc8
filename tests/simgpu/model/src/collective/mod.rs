//! Collectives as values: what each rank contributes, what each receives, and which nccl-tests program a group of sends and
//! receives corresponds to. `time` computes durations, `encoding` the bytes that are passed between processes.

mod encoding;
mod time;

pub use time::{Path, nccl_tests_shape};

use crate::scenario::{Fault, Program};

use crate::element::{DataType, ReduceOp};
use crate::extents::{Piece, after, cut};
use crate::reduce::reduce;
use std::collections::{BTreeMap, VecDeque};

/// A collective operation with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective {
    /// Every rank receives the reduction of all.
    AllReduce(DataType, ReduceOp),
    /// Every rank receives the data of every rank.
    AllGather,
    /// Every rank receives its part of the reduction of all.
    ReduceScatter(DataType, ReduceOp),
    /// Every rank receives the root's data.
    Broadcast(usize),
    /// The root receives the reduction of all.
    Reduce(DataType, ReduceOp, usize),
    /// Sends and receives of one group.
    Exchange,
}

impl Collective {
    /// The rank that sends to all, or receives from all.
    #[must_use]
    pub const fn root(self) -> Option<usize> {
        match self {
            Self::Broadcast(root) | Self::Reduce(_, _, root) => Some(root),
            Self::AllReduce(..) | Self::AllGather | Self::ReduceScatter(..) | Self::Exchange => {
                None
            }
        }
    }
}

/// One rank's call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The communicator.
    pub comm: u64,
    /// The call's number on the communicator.
    pub number: u64,
    /// The calling rank.
    pub rank: usize,
    /// The operation.
    pub collective: Collective,
    /// Memory that is sent: target rank, address, bytes. Only an exchange has several entries, or uses the target rank.
    pub send: Vec<(usize, u64, u64)>,
    /// Memory that is received: source rank, address, bytes.
    pub receive: Vec<(usize, u64, u64)>,
    /// Whether it receives into the memory that it sends from.
    pub in_place: bool,
    /// How the communicator's ranks reach each other.
    pub path: Path,
    /// Number of channels of the communicator.
    pub channels: u32,
    /// How the call is made: the bits of all [`crate::scenario::How`] that apply.
    pub how: u32,
}

/// A rank's contribution to a collective: everything that the other ranks need to know.
#[derive(Debug, Clone)]
pub struct Contribution {
    /// The operation, which must be the same on all ranks.
    pub collective: Collective,
    /// Whether it is in place.
    pub in_place: bool,
    /// What it sends: target rank and contents.
    pub sent: Vec<(usize, Vec<Piece>)>,
    /// What it receives: source rank and bytes.
    pub wanted: Vec<(usize, u64)>,
    /// Its GPU.
    pub gpu: usize,
    /// Whether the call directly follows another one on its stream.
    pub follows: bool,
    /// Whether that one has as many bytes.
    pub alike: bool,
    /// How the call is made: the bits of all [`crate::scenario::How`] that apply.
    pub how: u32,
}

impl Contribution {
    fn first(&self) -> Vec<Piece> {
        self.sent
            .first()
            .map(|(_, pieces)| pieces.clone())
            .unwrap_or_default()
    }

    /// Bytes that it sends.
    fn sends(&self) -> u64 {
        self.sent
            .iter()
            .flat_map(|(_, pieces)| pieces)
            .map(|(n, _)| n)
            .sum()
    }

    /// Bytes that it receives.
    fn receives(&self) -> u64 {
        self.wanted.iter().map(|(_, n)| n).sum()
    }
}

impl Fault {
    /// Whether an NCCL call with these `parts` meets this fault. If `parts` has only one rank, only that rank's size is
    /// known, and the program of an exchange is unknown.
    #[must_use]
    pub fn meets_call(&self, parts: &[Contribution]) -> bool {
        let Some(first) = parts.first() else {
            return false;
        };
        let (program, bytes) = nccl_tests_shape(parts);
        let open = parts.len() == 1 && first.collective == Collective::Exchange;
        let meant = |c: Program| if open { c.is_exchange() } else { c == program };
        let element = first.collective.reduction().map_or(4, |(t, _)| t.bytes());
        let part = if first.collective == Collective::Exchange {
            first
                .sent
                .first()
                .map_or(0, |(_, pieces)| pieces.iter().map(|(n, _)| n).sum())
        } else {
            first.sends().max(first.receives()) / counts_per_buffer(first.collective, parts.len())
        };
        let is = |wanted: Option<bool>, found: bool| wanted.is_none_or(|w| w == found);
        let code = |wanted: Option<u32>, found: Option<u32>| wanted.is_none() || wanted == found;
        let calls = &self.calls;
        self.collective.is_none_or(meant)
            && bytes >= self.from_bytes
            && calls.to_bytes.is_none_or(|most| bytes <= most)
            && is(calls.in_place, parts.iter().any(|p| p.in_place))
            && is(calls.odd, part / element % 2 == 1)
            && is(calls.timed, parts.iter().all(|p| p.follows))
            && calls
                .how
                .is_none_or(|how| parts.iter().all(|p| p.how & how.bit() != 0))
            && calls
                .root
                .is_none_or(|root| first.collective.root() == Some(root))
            && code(
                calls.data,
                first.collective.reduction().map(|(t, _)| t.code()),
            )
            && code(
                calls.op,
                first.collective.reduction().map(|(_, op)| op.code()),
            )
    }
}

/// How many times the call's count the larger buffer contains.
fn counts_per_buffer(collective: Collective, ranks: usize) -> u64 {
    let is_divided = matches!(
        collective,
        Collective::AllGather | Collective::ReduceScatter(..)
    );
    if is_divided { (ranks as u64).max(1) } else { 1 }
}

impl Collective {
    /// Type and reduction, if it has any.
    #[must_use]
    pub const fn reduction(self) -> Option<(DataType, ReduceOp)> {
        match self {
            Self::AllReduce(t, op) | Self::ReduceScatter(t, op) | Self::Reduce(t, op, _) => {
                Some((t, op))
            }
            Self::AllGather | Self::Broadcast(_) | Self::Exchange => None,
        }
    }
}

/// Whether all ranks requested the same operation; otherwise none of them returns.
#[must_use]
pub fn agree(parts: &[Contribution]) -> bool {
    let Some(first) = parts.first() else {
        return false;
    };
    let alike = |p: &Contribution| {
        p.collective == first.collective
            && match p.collective {
                Collective::Exchange => true,
                Collective::Broadcast(_) => p.receives() == first.receives(),
                _ => p.sends() == first.sends(),
            }
    };
    parts.iter().all(alike) && (first.collective != Collective::Exchange || is_matched(parts))
}

/// Whether the receives of each rank match the sends of the other ranks to it, in number and size.
fn is_matched(parts: &[Contribution]) -> bool {
    let mut open: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    for (from, part) in parts.iter().enumerate() {
        for (to, pieces) in &part.sent {
            open.entry((from, *to))
                .or_default()
                .push(pieces.iter().map(|(n, _)| n).sum());
        }
    }
    let mut wanted: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (rank, part) in parts.iter().enumerate() {
        part.wanted
            .iter()
            .for_each(|(from, _)| *wanted.entry((*from, rank)).or_default() += 1);
    }
    let sent = |from: usize, rank: usize| open.get(&(from, rank));
    let all = |(rank, part): (usize, &Contribution)| {
        let one = |(from, bytes): &(usize, u64)| {
            sent(*from, rank).is_some_and(|sent| sent.contains(bytes))
        };
        part.wanted.iter().all(one)
    };
    let counts = |(way, count): (&(usize, usize), &usize)| {
        open.get(way).is_some_and(|sent| sent.len() == *count)
    };
    parts.iter().enumerate().all(all) && wanted.iter().all(counts)
}

/// What each of `ranks` receives, one entry for each of its receive buffers.
#[must_use]
pub fn results(parts: &[Contribution], ranks: &[usize]) -> Vec<Vec<Vec<Piece>>> {
    let Some(collective) = parts.first().map(|p| p.collective) else {
        return Vec::new();
    };
    let all = || parts.iter().map(Contribution::first).collect::<Vec<_>>();
    let same = |what: Vec<Piece>| ranks.iter().map(|_| vec![what.clone()]).collect();
    match collective {
        Collective::AllReduce(r#type, op) | Collective::Reduce(r#type, op, _) => {
            same(reduce(&all(), r#type, op))
        }
        Collective::AllGather => same(all().concat()),
        Collective::Broadcast(root) => {
            same(parts.get(root).map(Contribution::first).unwrap_or_default())
        }
        Collective::ReduceScatter(r#type, op) => {
            let bytes =
                parts.first().map(Contribution::sends).unwrap_or_default() / parts.len() as u64;
            let own = |rank: &usize| {
                let slice = |all: Vec<Piece>| slice_of(&all, *rank as u64 * bytes, bytes);
                vec![reduce(
                    &all().into_iter().map(slice).collect::<Vec<_>>(),
                    r#type,
                    op,
                )]
            };
            ranks.iter().map(own).collect()
        }
        Collective::Exchange => exchanged(parts, ranks),
    }
}

/// What ranks receive in an exchange: the n-th receive from a rank matches that rank's n-th send.
fn exchanged(parts: &[Contribution], ranks: &[usize]) -> Vec<Vec<Vec<Piece>>> {
    let mut open: BTreeMap<(usize, usize), VecDeque<&Vec<Piece>>> = BTreeMap::new();
    for (from, part) in parts.iter().enumerate() {
        for (to, pieces) in &part.sent {
            open.entry((from, *to)).or_default().push_back(pieces);
        }
    }
    let received = |rank: &usize| {
        let wanted = parts.get(*rank).into_iter().flat_map(|part| &part.wanted);
        let next =
            |(from, _): &(usize, u64)| open.get_mut(&(*from, *rank)).and_then(VecDeque::pop_front);
        wanted
            .map(next)
            .map(|pieces| pieces.cloned().unwrap_or_default())
            .collect()
    };
    ranks.iter().map(received).collect()
}

/// `bytes` bytes from `at` on.
fn slice_of(pieces: &[Piece], at: u64, bytes: u64) -> Vec<Piece> {
    cut(&after(pieces, at), bytes)
}

#[cfg(test)]
mod tests;
