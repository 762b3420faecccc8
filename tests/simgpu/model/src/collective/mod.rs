//! Collectives as values: what each rank brings, what each gets of it, and which of nccl-tests' programs a
//! group of sends and receives amounts to. Times are `time`'s, the bytes that travel between processes
//! `code`'s.

mod code;
mod time;

pub use time::{Path, shape};

use crate::scenario::{Fault, Program};

use crate::element::{Op, Type};
use crate::extents::{Piece, after, cut};
use crate::reduce::reduce;
use std::collections::{BTreeMap, VecDeque};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Everyone gets all, reduced.
    AllReduce(Type, Op),
    /// Everyone gets everyone's.
    AllGather,
    /// Everyone gets its part of all, reduced.
    ReduceScatter(Type, Op),
    /// Everyone gets the root's.
    Broadcast(usize),
    /// The root gets all, reduced.
    Reduce(Type, Op, usize),
    /// Sends and receives of one group.
    Exchange,
}

/// One rank's call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The communicator.
    pub comm: u64,
    /// The so-manieth of it.
    pub number: u64,
    /// Who calls.
    pub rank: usize,
    /// What for.
    pub ask: Ask,
    /// Memory that is sent: to whom, address, bytes. Only an exchange has several, or asks to whom.
    pub send: Vec<(usize, u64, u64)>,
    /// Memory that is received: from whom, address, bytes.
    pub receive: Vec<(usize, u64, u64)>,
    /// Whether it is received where it is sent from.
    pub in_place: bool,
    /// How its communicator's ranks reach each other.
    pub path: Path,
    /// Channels of its communicator.
    pub channels: u32,
}

/// What a rank brings: all that other ranks must know.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it asked for; the others must ask for the same.
    pub ask: Ask,
    /// Whether it is in place.
    pub in_place: bool,
    /// To whom, and what.
    pub sent: Vec<(usize, Vec<Piece>)>,
    /// From whom, and how many bytes.
    pub wanted: Vec<(usize, u64)>,
    /// Its GPU.
    pub gpu: usize,
    /// Whether its stream came to this call right from another one.
    pub follows: bool,
}

impl Part {
    fn first(&self) -> Vec<Piece> {
        self.sent.first().map(|(_, pieces)| pieces.clone()).unwrap_or_default()
    }

    /// Bytes of what it sends.
    fn sends(&self) -> u64 {
        self.sent.iter().flat_map(|(_, pieces)| pieces).map(|(n, _)| n).sum()
    }

    /// Bytes of what it receives.
    fn receives(&self) -> u64 {
        self.wanted.iter().map(|(_, n)| n).sum()
    }
}

impl Fault {
    /// Whether it is one that calls of NCCL meet which bring `parts`. Of a rank that comes alone only its own size is
    /// known, and of an exchange not which one it is.
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

/// Into how many parts of the call's count the larger buffer is divided.
fn divided(ask: Ask, ranks: usize) -> u64 {
    let parted = matches!(ask, Ask::AllGather | Ask::ReduceScatter(..));
    if parted { (ranks as u64).max(1) } else { 1 }
}

impl Ask {
    /// Type and reduction, where it has some.
    #[must_use]
    pub const fn reduction(self) -> Option<(Type, Op)> {
        match self {
            Self::AllReduce(t, op) | Self::ReduceScatter(t, op) | Self::Reduce(t, op, _) => Some((t, op)),
            Self::AllGather | Self::Broadcast(_) | Self::Exchange => None,
        }
    }
}

/// Whether all ranks want the same: else none of them comes back.
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

/// Whether each rank wants as much of each other one, in as many parts, as that one sends to it.
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

/// What ranks get of an exchange: the so-manieth receive from a rank is that one's so-manieth send.
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
