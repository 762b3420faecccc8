//! What is measured for one pair of GPUs, by level: which copies fill which cells. Pure.

use crate::schedule::Pair;
use crate::suite::benchmark::{CopyMethod, Flow, Job, JobFigure, Side};
use machine::GpuId;
use outcome::metric::Metric;
use report::Level;
use report::stats::{BANDWIDTH, RepeatPolicy, STAGED};

/// p2pBandwidthLatencyTest's buffer: 40,000,000 integers.
const SAMPLE_BYTES: u64 = 160_000_000;
/// The number of times that p2pBandwidthLatencyTest copies it.
const SAMPLE_TIMES: u32 = 5;
/// The matrices in the report's order, and the lowest level that has each.
pub(super) const MATRICES: &[(Metric, Level)] = &[
    (Metric::SAMPLE_UNI_OFF, Level::Quick),
    (Metric::SAMPLE_UNI_ON, Level::Quick),
    (Metric::SAMPLE_BI_OFF, Level::Standard),
    (Metric::SAMPLE_BI_ON, Level::Standard),
    (Metric::CE_WRITE, Level::Quick),
    (Metric::CE_READ, Level::Standard),
    (Metric::SM_WRITE, Level::Standard),
    (Metric::SM_READ, Level::Standard),
    (Metric::CE_BI_WRITE, Level::Standard),
    (Metric::CE_BI_READ, Level::Standard),
    (Metric::SM_BI_WRITE, Level::Standard),
    (Metric::SM_BI_READ, Level::Standard),
];

/// How the figures of a matrix are sampled.
pub(super) fn policy(metric: Metric, level: Level) -> RepeatPolicy {
    // Staged copies are ten times slower than others and less informative: two samples, a third where they
    // differ.
    let policy = if matches!(metric, Metric::Sample { access: false, .. }) {
        RepeatPolicy {
            samples: 2,
            repeats: 1,
            ..STAGED
        }
    } else {
        BANDWIDTH
    };
    if level >= Level::Full {
        RepeatPolicy {
            samples: policy.samples + 2,
            repeats: 4,
            ..policy
        }
    } else {
        policy
    }
}

/// One cell of a matrix, or two cells that one measurement fills, and the transfers for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatrixCell {
    pub(super) metric: Metric,
    pub(super) pairs: Vec<Pair>,
    pub(super) job: Job,
}

/// The sizes of the copies for one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// The buffers' size.
    pub(super) bytes: u64,
    /// The buffers' size in whole rounds of the kernels of `from` and of `to`.
    pub(super) rounds: (u64, u64),
    /// The number of nvbandwidth's copies.
    pub(super) times: u32,
}

impl Sizes {
    fn sample(self) -> u64 {
        // Both directions within a GPU need two buffers each.
        SAMPLE_BYTES.min(self.bytes / 2) / 16 * 16
    }

    fn of(self, method: CopyMethod, first: bool) -> u64 {
        match method {
            CopyMethod::Sm if first => self.rounds.0,
            CopyMethod::Sm => self.rounds.1,
            CopyMethod::Peer | CopyMethod::Ce => self.bytes,
        }
    }
}

/// Copies that are not measured: links wake up, clocks rise, and the driver maps memory.
pub(super) fn warm_up(pair: Pair, method: CopyMethod, sizes: Sizes, times: u32) -> Flow {
    Flow::write(
        pair,
        method,
        if method == CopyMethod::Peer {
            sizes.sample()
        } else {
            sizes.bytes
        },
        times,
    )
}

/// The sample program's cells of one GPU with itself.
pub(super) fn within(gpu: GpuId, on: bool, sizes: Sizes, level: Level) -> Vec<MatrixCell> {
    let pair = Pair::new(gpu, gpu);
    let (one, other) = (
        sample(pair, sizes),
        sample(pair, sizes).at(sizes.bytes / 2, sizes.bytes / 2),
    );
    let uni = MatrixCell {
        metric: Metric::Sample {
            both_ways: false,
            access: on,
        },
        pairs: vec![pair],
        job: Job::new(vec![one], JobFigure::Within),
    };
    let both = MatrixCell {
        metric: Metric::Sample {
            both_ways: true,
            access: on,
        },
        pairs: vec![pair],
        job: Job::new(vec![one, other], JobFigure::TotalWithin),
    };
    of_level(vec![uni, both], level)
}

/// The sample program's cells of one pair.
pub(super) fn between(pair: Pair, on: bool, sizes: Sizes, level: Level) -> Vec<MatrixCell> {
    let one = |pair: Pair| MatrixCell {
        metric: Metric::Sample {
            both_ways: false,
            access: on,
        },
        pairs: vec![pair],
        job: Job::new(vec![sample(pair, sizes)], JobFigure::First),
    };
    let both = MatrixCell {
        metric: Metric::Sample {
            both_ways: true,
            access: on,
        },
        pairs: vec![pair, pair.back()],
        job: Job::new(
            vec![sample(pair, sizes), sample(pair.back(), sizes)],
            JobFigure::Total,
        ),
    };
    of_level(vec![one(pair), one(pair.back()), both], level)
}

fn sample(pair: Pair, sizes: Sizes) -> Flow {
    Flow::write(pair, CopyMethod::Peer, sizes.sample(), SAMPLE_TIMES)
}

/// nvbandwidth's cells of one pair: a row's GPU writes to, or reads from, the column's.
pub(super) fn devices(pair: Pair, sizes: Sizes, level: Level) -> Vec<MatrixCell> {
    let kinds = [
        (
            Metric::CE_WRITE,
            Metric::CE_BI_WRITE,
            CopyMethod::Ce,
            Side::Source,
        ),
        (
            Metric::CE_READ,
            Metric::CE_BI_READ,
            CopyMethod::Ce,
            Side::Target,
        ),
        (
            Metric::SM_WRITE,
            Metric::SM_BI_WRITE,
            CopyMethod::Sm,
            Side::Source,
        ),
        (
            Metric::SM_READ,
            Metric::SM_BI_READ,
            CopyMethod::Sm,
            Side::Target,
        ),
    ];
    let cells = kinds.into_iter().flat_map(|(uni, bi, method, side)| {
        let flow = |actor: Pair, first: bool| {
            Flow::by(side, actor, method, sizes.of(method, first), sizes.times)
        };
        let (there, back) = (flow(pair, true), flow(pair.back(), false));
        let one = |pair, flow| MatrixCell {
            metric: uni,
            pairs: vec![pair],
            job: Job::new(vec![flow], JobFigure::First),
        };
        let both = MatrixCell {
            metric: bi,
            pairs: vec![pair, pair.back()],
            job: Job::new(vec![there, back], JobFigure::Sum),
        };
        [one(pair, there), one(pair.back(), back), both]
    });
    of_level(cells.collect(), level)
}

fn of_level(mut cells: Vec<MatrixCell>, level: Level) -> Vec<MatrixCell> {
    cells.retain(|cell| {
        MATRICES
            .iter()
            .any(|(metric, from)| *metric == cell.metric && *from <= level)
    });
    cells
}
