//! What is measured for one pair of GPUs, by level: which copies fill which cells. Pure.

use crate::config::Level;
use crate::floors::stats::{BANDWIDTH, Policy, STAGED};
use crate::machine::GpuId;
use crate::schedule::Pair;
use crate::suite::shared::speed::{Figure, Flow, How, Job, Side};

/// p2pBandwidthLatencyTest's buffer: 40,000,000 integers.
const SAMPLE_BYTES: u64 = 160_000_000;
/// The number of times it copies them.
const SAMPLE_TIMES: u32 = 5;
/// The matrices in the report's order, and the lowest level that has each.
pub(super) const MATRICES: &[(&str, Level)] = &[
    ("sample.uni.off", Level::Quick),
    ("sample.uni.on", Level::Quick),
    ("sample.bi.off", Level::Standard),
    ("sample.bi.on", Level::Standard),
    ("ce.write", Level::Quick),
    ("ce.read", Level::Standard),
    ("sm.write", Level::Standard),
    ("sm.read", Level::Standard),
    ("ce.bi.write", Level::Standard),
    ("ce.bi.read", Level::Standard),
    ("sm.bi.write", Level::Standard),
    ("sm.bi.read", Level::Standard),
];

/// How the figures of a matrix are sampled.
pub(super) fn policy(name: &str, level: Level) -> Policy {
    // Staged copies are ten times slower than others and less informative: two samples, a third where they
    // differ.
    let policy = if name.ends_with(".off") { Policy { samples: 2, repeats: 1, ..STAGED } } else { BANDWIDTH };
    if level >= Level::Full { Policy { samples: policy.samples + 2, repeats: 4, ..policy } } else { policy }
}

/// One cell, or two cells that one measurement fills, and the transfers for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) cells: Vec<Pair>,
    pub(super) job: Job,
}

/// The sizes of the copies for one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// The buffers' size.
    pub(super) bytes: u64,
    /// The same in whole rounds of the two GPUs' kernels, of `from` and `to`.
    pub(super) rounds: (u64, u64),
    /// The number of nvbandwidth's copies.
    pub(super) times: u32,
}

impl Sizes {
    fn sample(self) -> u64 {
        // Both directions within a GPU need two buffers each.
        SAMPLE_BYTES.min(self.bytes / 2) / 16 * 16
    }

    fn of(self, how: How, first: bool) -> u64 {
        match how {
            How::Sm if first => self.rounds.0,
            How::Sm => self.rounds.1,
            How::Peer | How::Ce => self.bytes,
        }
    }
}

/// Copies that are not measured: links wake up, clocks rise, and the driver maps memory.
pub(super) fn warm_up(way: Pair, how: How, sizes: Sizes, times: u32) -> Flow {
    Flow::write(way, how, if how == How::Peer { sizes.sample() } else { sizes.bytes }, times)
}

/// The sample program's cells of one GPU with itself.
pub(super) fn within(gpu: GpuId, on: bool, sizes: Sizes, level: Level) -> Vec<Cell> {
    let way = Pair::new(gpu, gpu);
    let (one, other) = (sample(way, sizes), sample(way, sizes).at(sizes.bytes / 2, sizes.bytes / 2));
    let uni = Cell {
        name: if on { "sample.uni.on" } else { "sample.uni.off" },
        cells: vec![way],
        job: Job::new(vec![one], Figure::Within),
    };
    let both = Cell {
        name: if on { "sample.bi.on" } else { "sample.bi.off" },
        cells: vec![way],
        job: Job::new(vec![one, other], Figure::TotalWithin),
    };
    of_level(vec![uni, both], level)
}

/// The sample program's cells of one pair.
pub(super) fn between(pair: Pair, on: bool, sizes: Sizes, level: Level) -> Vec<Cell> {
    let one = |way: Pair| Cell {
        name: if on { "sample.uni.on" } else { "sample.uni.off" },
        cells: vec![way],
        job: Job::new(vec![sample(way, sizes)], Figure::First),
    };
    let both = Cell {
        name: if on { "sample.bi.on" } else { "sample.bi.off" },
        cells: vec![pair, pair.back()],
        job: Job::new(vec![sample(pair, sizes), sample(pair.back(), sizes)], Figure::Total),
    };
    of_level(vec![one(pair), one(pair.back()), both], level)
}

fn sample(way: Pair, sizes: Sizes) -> Flow {
    Flow::write(way, How::Peer, sizes.sample(), SAMPLE_TIMES)
}

/// nvbandwidth's cells of one pair: a row's GPU writes to, or reads from, the column's.
pub(super) fn devices(pair: Pair, sizes: Sizes, level: Level) -> Vec<Cell> {
    let kinds = [
        ("ce.write", "ce.bi.write", How::Ce, Side::Source),
        ("ce.read", "ce.bi.read", How::Ce, Side::Target),
        ("sm.write", "sm.bi.write", How::Sm, Side::Source),
        ("sm.read", "sm.bi.read", How::Sm, Side::Target),
    ];
    let cells = kinds.into_iter().flat_map(|(uni, bi, how, side)| {
        let flow = |actor: Pair, first: bool| Flow::by(side, actor, how, sizes.of(how, first), sizes.times);
        let (there, back) = (flow(pair, true), flow(pair.back(), false));
        let one = |way, flow| Cell { name: uni, cells: vec![way], job: Job::new(vec![flow], Figure::First) };
        let both =
            Cell { name: bi, cells: vec![pair, pair.back()], job: Job::new(vec![there, back], Figure::Sum) };
        [one(pair, there), one(pair.back(), back), both]
    });
    of_level(cells.collect(), level)
}

fn of_level(mut cells: Vec<Cell>, level: Level) -> Vec<Cell> {
    cells.retain(|cell| MATRICES.iter().any(|(name, from)| *name == cell.name && *from <= level));
    cells
}
