//! Collectives as values: what each rank contributes, what each receives, and which nccl-tests program a group of sends and
//! receives corresponds to. `time` computes durations, `code` the bytes that are passed between processes.

mod code;
mod time;

pub use time::{Path, shape};

use crate::scenario::{Fault, Program};

use crate::element::{Op, Type};
use crate::extents::{Piece, after, cut};
use crate::reduce::reduce;
use std::collections::{BTreeMap, VecDeque};

/// The requested operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Every rank receives the reduction of all.
    AllReduce(Type, Op),
    /// Every rank receives the data of every rank.
    AllGather,
    /// Every rank receives its part of the reduction of all.
    ReduceScatter(Type, Op),
    /// Every rank receives the root's data.
    Broadcast(usize),
    /// The root receives the reduction of all.
    Reduce(Type, Op, usize),
    /// Sends and receives of one group.
    Exchange,
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
    /// The requested operation.
    pub ask: Ask,
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
}

/// A rank's part in a collective: everything that the other ranks need to know.
#[derive(Debug, Clone)]
pub struct Part {
    /// The requested operation, which must be the same on all ranks.
    pub ask: Ask,
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
}

impl Part {
    fn first(&self) -> Vec<Piece> {
        self.sent.first().map(|(_, pieces)| pieces.clone()).unwrap_or_default()
    }

    /// Bytes that it sends.
    fn sends(&self) -> u64 {
        self.sent.iter().flat_map(|(_, pieces)| pieces).map(|(n, _)| n).sum()
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
    pub fn meets_call(&self, parts: &[Part]) -> bool {
        let Some(first) = parts.first() else { return false };
        let (program, bytes) = shape(parts);
        let open = parts.len() == 1 && first.ask == Ask::Exchange;
        let meant = |c: Program| if open { c.is_exchange() } else { c == program };
        let element = first.ask.reduction().map_or(4, |(t, _)| t.bytes());
        let part = if first.ask == Ask::Exchange {
            first.sent.first().map_or(0, |(_, pieces)| pieces.iter().map(|(n, _)| n).sum())
        } else {
            first.sends().max(first.receives()) / divided(first.ask, parts.len())
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
            && code(calls.data, first.ask.reduction().map(|(t, _)| t.code()))
            && code(calls.op, first.ask.reduction().map(|(_, op)| op.code()))
    }
}

/// How many times the call's count the larger buffer contains.
fn divided(ask: Ask, ranks: usize) -> u64 {
    let parted = matches!(ask, Ask::AllGather | Ask::ReduceScatter(..));
    if parted { (ranks as u64).max(1) } else { 1 }
}

impl Ask {
    /// Type and reduction, if it has any.
    #[must_use]
    pub const fn reduction(self) -> Option<(Type, Op)> {
        match self {
            Self::AllReduce(t, op) | Self::ReduceScatter(t, op) | Self::Reduce(t, op, _) => Some((t, op)),
            Self::AllGather | Self::Broadcast(_) | Self::Exchange => None,
        }
    }
}

/// Whether all ranks requested the same operation; otherwise none of them returns.
#[must_use]
pub fn agree(parts: &[Part]) -> bool {
    let Some(first) = parts.first() else { return false };
    let alike = |p: &Part| {
        p.ask == first.ask
            && match p.ask {
                Ask::Exchange => true,
                Ask::Broadcast(_) => p.receives() == first.receives(),
                _ => p.sends() == first.sends(),
            }
    };
    parts.iter().all(alike) && (first.ask != Ask::Exchange || met(parts))
}

/// Whether each rank receives from each other rank what that one sends to it, in as many buffers.
fn met(parts: &[Part]) -> bool {
    let mut open: BTreeMap<(usize, usize), Vec<u64>> = BTreeMap::new();
    for (from, part) in parts.iter().enumerate() {
        for (to, pieces) in &part.sent {
            open.entry((from, *to)).or_default().push(pieces.iter().map(|(n, _)| n).sum());
        }
    }
    let mut wanted: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (rank, part) in parts.iter().enumerate() {
        part.wanted.iter().for_each(|(from, _)| *wanted.entry((*from, rank)).or_default() += 1);
    }
    let sent = |from: usize, rank: usize| open.get(&(from, rank));
    let all = |(rank, part): (usize, &Part)| {
        let one = |(from, bytes): &(usize, u64)| sent(*from, rank).is_some_and(|sent| sent.contains(bytes));
        part.wanted.iter().all(one)
    };
    let counts =
        |(way, count): (&(usize, usize), &usize)| open.get(way).is_some_and(|sent| sent.len() == *count);
    parts.iter().enumerate().all(all) && wanted.iter().all(counts)
}

/// What each of `ranks` receives, one entry for each of its receive buffers.
#[must_use]
pub fn results(parts: &[Part], ranks: &[usize]) -> Vec<Vec<Vec<Piece>>> {
    let Some(ask) = parts.first().map(|p| p.ask) else { return Vec::new() };
    let all = || parts.iter().map(Part::first).collect::<Vec<_>>();
    let same = |what: Vec<Piece>| ranks.iter().map(|_| vec![what.clone()]).collect();
    match ask {
        Ask::AllReduce(r#type, op) | Ask::Reduce(r#type, op, _) => same(reduce(&all(), r#type, op)),
        Ask::AllGather => same(all().concat()),
        Ask::Broadcast(root) => same(parts.get(root).map(Part::first).unwrap_or_default()),
        Ask::ReduceScatter(r#type, op) => {
            let bytes = parts.first().map(Part::sends).unwrap_or_default() / parts.len() as u64;
            let own = |rank: &usize| {
                let slice = |all: Vec<Piece>| part(&all, *rank as u64 * bytes, bytes);
                vec![reduce(&all().into_iter().map(slice).collect::<Vec<_>>(), r#type, op)]
            };
            ranks.iter().map(own).collect()
        }
        Ask::Exchange => exchanged(parts, ranks),
    }
}

/// What ranks receive in an exchange: the n-th receive from a rank matches that rank's n-th send.
fn exchanged(parts: &[Part], ranks: &[usize]) -> Vec<Vec<Vec<Piece>>> {
    let mut open: BTreeMap<(usize, usize), VecDeque<&Vec<Piece>>> = BTreeMap::new();
    for (from, part) in parts.iter().enumerate() {
        for (to, pieces) in &part.sent {
            open.entry((from, *to)).or_default().push_back(pieces);
        }
    }
    let received = |rank: &usize| {
        let wanted = parts.get(*rank).into_iter().flat_map(|part| &part.wanted);
        let next = |(from, _): &(usize, u64)| open.get_mut(&(*from, *rank)).and_then(VecDeque::pop_front);
        wanted.map(next).map(|pieces| pieces.cloned().unwrap_or_default()).collect()
    };
    ranks.iter().map(received).collect()
}

/// `bytes` bytes from `at` on.
fn part(pieces: &[Piece], at: u64, bytes: u64) -> Vec<Piece> {
    cut(&after(pieces, at), bytes)
}

#[cfg(test)]
mod tests;
