//! Speed while many pairs move data at the same time: rings and longer shifts, all to all, all to one and one
//! to all (nvbandwidth's patterns), compared with what the links allow according to each pair's speed alone. Copy
//! engines write; kernels and reads are compared with them in the ring and from all to all. Then all traffic is mixed,
//! with copies to and from the host, and the GPUs of each PCIe switch send to several other root ports. Every transfer's data is
//! checked.

mod judge;
mod measure;
mod mixed;
mod movers;
mod pattern;
mod switches;

use crate::schedule::Pair;
use crate::suite::benchmark::{Bench, FULL, GpuPaths, Watch, rounded};
use crate::suite::shared::gate::gate;
use crate::suite::shared::pair::matrix;
use crate::suite::{Group, Test, TestContext};
use machine::GpuId;
use machine::pcie::link::raw_gb_s;
use machine::pcie::model::Bdf;
use movers::MoverSpeed;
use outcome::finding::Finding;
use outcome::metric::Metric;
use outcome::test;
use outcome::{Judgement, Matrix};
use pattern::{Pattern, PatternKind};
use report::Level;
use std::collections::BTreeMap;
use std::time::Duration;
use switches::SwitchSpeed;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_TOGETHER,
    title: "All at once",
    proves: "the speed of many pairs at once is what the shared links allow, and their data arrives",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Patterns whose transfers are reported one by one, and the matrix of each.
const MATRICES: &[(Metric, PatternKind)] = &[
    (Metric::RING, PatternKind::Ring),
    (Metric::RING_BACK, PatternKind::RingBack),
    (Metric::ALL_AT_ONCE, PatternKind::All),
];

/// The speeds of one pattern's transfers.
#[derive(Debug, Clone, PartialEq)]
struct PatternSpeeds {
    pattern: Pattern,
    /// From the first start to the last stop, all bytes, GB/s.
    total: f64,
    /// Each transfer by its own clock, GB/s, in the pattern's order.
    each: Vec<f64>,
    /// How many copies each transfer made.
    times: u32,
    /// `total` and `each` when it was measured again.
    again: Option<(f64, Vec<f64>)>,
}

impl PatternSpeeds {
    /// The better of the two, GB/s.
    fn best(&self) -> f64 {
        self.again
            .as_ref()
            .map_or(self.total, |again| again.0.max(self.total))
    }

    /// Each transfer's better figure.
    fn each(&self) -> Vec<f64> {
        let again = self.again.as_ref().map_or(&[][..], |again| &again.1);
        let other = |n: usize| again.get(n).copied().unwrap_or(0.0);
        self.each
            .iter()
            .enumerate()
            .map(|(n, gb_s)| gb_s.max(other(n)))
            .collect()
    }
}

/// The figures and findings of all measurements.
#[derive(Debug, Default)]
struct Results {
    /// Each ordered pair by itself, GB/s.
    alone: BTreeMap<Pair, f64>,
    speeds: Vec<PatternSpeeds>,
    /// Patterns by kernels and reads.
    movers: Vec<MoverSpeed>,
    /// GPUs of one switch that send to several root ports.
    switches: Vec<SwitchSpeed>,
    /// Rounds of mixed traffic: transfers, and GB/s of all together.
    mixed: Vec<(usize, f64)>,
    /// Each ordered pair by itself, by the matrix of `p2p-bandwidth`, for the movers that it measured.
    alone_by: BTreeMap<&'static str, BTreeMap<Pair, f64>>,
    /// Patterns that could not be run, and why.
    left_out: Vec<(Pattern, String)>,
    findings: Vec<Finding>,
}

impl Results {
    /// The speeds of pairs, and the totals of each GPU as sender and receiver.
    fn matrices(&self, gpus: usize) -> Vec<Matrix> {
        let cell = |kind: PatternKind, pair: Pair| {
            let speeds = self.speeds.iter().find(|m| m.pattern.kind == kind)?;
            let place = speeds.pattern.pairs.iter().position(|p| *p == pair)?;
            speeds.each().get(place).copied().map(rounded)
        };
        let pairs = MATRICES
            .iter()
            .map(|(metric, kind)| matrix(*metric, gpus, |pair| cell(*kind, pair)));
        let total = |kind: PatternKind| {
            self.speeds
                .iter()
                .find(|m| m.pattern.kind == kind)
                .map(|m| rounded(m.best()))
        };
        let row = |metric: Metric, kind: fn(GpuId) -> PatternKind| Matrix {
            name: metric.name().to_owned(),
            unit: metric.unit().to_owned(),
            rows: vec!["total".to_owned()],
            columns: (0..gpus).map(|n| n.to_string()).collect(),
            values: vec![GpuId::all(gpus).map(|gpu| total(kind(gpu))).collect()],
        };
        let ones = [
            row(Metric::TO_ONE, PatternKind::ToOne),
            row(Metric::FROM_ONE, PatternKind::FromOne),
        ];
        pairs.chain(ones.into_iter().filter(|_| gpus > 2)).collect()
    }
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let paths = GpuPaths::new(context, clique);
    let watch = Watch::begin(context, &clique.addresses());
    let bench = Bench::new(context, clique.len().saturating_sub(1) + mixed::MORE, FULL)?;
    let mut results = Results::default();
    measure::all(context, &bench, &paths, &mut results)?;
    let fabric = context.fabric()?;
    let raw = |port: Bdf| {
        let link = fabric
            .devices
            .iter()
            .find(|d| d.bdf == port)?
            .link
            .as_ref()?;
        Some(raw_gb_s(link.gts, link.width))
    };
    let path_group = |pair| paths.path_group(pair);
    let basis = judge::Basis {
        routes: &paths.routes,
        nvlinks: &paths.nvlinks_up(),
        raw: &raw,
        path_group: &path_group,
    };
    let suspect_patterns = judge::suspect_patterns(&results, &basis);
    measure::again(context, &bench, &paths, &suspect_patterns, &mut results)?;
    let (found, states) = watch.end(context);
    results.findings.extend(found);
    Ok(judge::judge(results, &basis, &states))
}
