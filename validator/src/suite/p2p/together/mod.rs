//! Speed while many pairs move data at the same time: rings and longer shifts, all to all, all to one and one
//! to all (nvbandwidth's patterns), compared with what the links allow according to each pair's speed alone. Copy
//! engines write; every transfer's data is checked.

mod judge;
mod measure;
mod pattern;

use crate::config::Level;
use crate::machine::GpuId;
use crate::machine::pcie::link::raw_gb_s;
use crate::machine::pcie::model::Bdf;
use crate::outcome::finding::Finding;
use crate::outcome::{Judgement, Matrix};
use crate::schedule::Pair;
use crate::suite::shared::gate::gate;
use crate::suite::shared::pair::matrix;
use crate::suite::shared::speed::{Bench, FULL, Watch, Ways, rounded};
use crate::suite::{Group, Machine, Test};
use pattern::{Kind, Pattern};
use std::collections::BTreeMap;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-together",
    title: "All at once",
    proves: "the speed of many pairs at once is what the shared links allow, and their data arrives",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Patterns whose transfers are reported one by one, and the matrix of each.
const MATRICES: &[(&str, Kind)] =
    &[("together.ring", Kind::Ring), ("together.ring.back", Kind::RingBack), ("together.all", Kind::All)];

/// A pattern's figures.
#[derive(Debug, Clone, PartialEq)]
struct Moved {
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

impl Moved {
    /// The better of the two, GB/s.
    fn best(&self) -> f64 {
        self.again.as_ref().map_or(self.total, |again| again.0.max(self.total))
    }

    /// Each transfer's better figure.
    fn each(&self) -> Vec<f64> {
        let again = self.again.as_ref().map_or(&[][..], |again| &again.1);
        let other = |n: usize| again.get(n).copied().unwrap_or(0.0);
        self.each.iter().enumerate().map(|(n, gb_s)| gb_s.max(other(n))).collect()
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
struct Seen {
    /// Each ordered pair by itself, GB/s.
    alone: BTreeMap<Pair, f64>,
    moved: Vec<Moved>,
    /// Patterns that could not be run, and why.
    left_out: Vec<(Pattern, String)>,
    findings: Vec<Finding>,
}

impl Seen {
    /// The speeds of pairs, and the totals of each GPU as sender and receiver.
    fn matrices(&self, gpus: usize) -> Vec<Matrix> {
        let cell = |kind: Kind, pair: Pair| {
            let moved = self.moved.iter().find(|m| m.pattern.kind == kind)?;
            let place = moved.pattern.pairs.iter().position(|p| *p == pair)?;
            moved.each().get(place).copied().map(rounded)
        };
        let pairs = MATRICES.iter().map(|(name, kind)| matrix(name, "GB/s", gpus, |pair| cell(*kind, pair)));
        let total =
            |kind: Kind| self.moved.iter().find(|m| m.pattern.kind == kind).map(|m| rounded(m.best()));
        let row = |name: &str, kind: fn(GpuId) -> Kind| Matrix {
            name: name.to_owned(),
            unit: "GB/s".to_owned(),
            rows: vec!["total".to_owned()],
            columns: (0..gpus).map(|n| n.to_string()).collect(),
            values: vec![GpuId::all(gpus).map(|gpu| total(kind(gpu))).collect()],
        };
        let ones = [row("together.to-one", Kind::ToOne), row("together.from-one", Kind::FromOne)];
        pairs.chain(ones.into_iter().filter(|_| gpus > 2)).collect()
    }
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let ways = Ways::new(machine, clique);
    let watch = Watch::begin(machine, &clique.addresses());
    let bench = Bench::new(machine, clique.len().saturating_sub(1), FULL)?;
    let mut seen = Seen::default();
    measure::all(machine, &bench, &ways, &mut seen)?;
    let fabric = machine.fabric()?;
    let raw = |port: Bdf| {
        let link = fabric.devices.iter().find(|d| d.bdf == port)?.link.as_ref()?;
        Some(raw_gb_s(link.gts, link.width))
    };
    let like = |pair| ways.like(pair);
    let basis = judge::Basis { routes: &ways.routes, nvlinks: &ways.nvlinks_up(), raw: &raw, like: &like };
    let low = judge::low(&seen, &basis);
    measure::again(machine, &bench, &ways, &low, &mut seen)?;
    let (found, states) = watch.end(machine);
    seen.findings.extend(found);
    Ok(judge::judge(seen, &basis, &states))
}
