//! Bandwidth between the GPUs: the matrices of p2pBandwidthLatencyTest, with peer access off and on, and
//! nvbandwidth's between devices, with their methods, so that the numbers are comparable; in addition, every
//! sample's data is checked. Latency is left to `p2p_latency`, many pairs at once to `p2p_together`.

mod cells;
mod detour;
mod judge;
mod measure;
mod sizes;
mod spread;
mod suspects;
#[cfg(test)]
mod tests;

use crate::floors::{Carrier, Distance};
use crate::schedule::Pair;
use crate::suite::benchmark::{Bench, FULL, GpuPaths, Grid, LinkStates, Watch};
use crate::suite::p2p::capability::expected;
use crate::suite::shared::gate::gate;
use crate::suite::shared::peer_groups::in_same_group;
use crate::suite::{Group, Test, TestContext, nccl};
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use outcome::test;
use outcome::{Judgement, Outcome};
use report::Level;
use serde_json::Value;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_BANDWIDTH,
    title: "Peer bandwidth",
    proves: "every pair of GPUs delivers data as fast as the links between them allow",
    level: Level::Quick,
    // 8 GPUs whose paths share links are measured pair by pair: 40 s; a slow link takes longer.
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The name of the latencies' cells.
const LATENCY_CELL: Metric = Metric::LATENCY_ON_GPU;

/// The figures and findings of all measurements.
#[derive(Debug)]
struct Results {
    grid: Grid,
    links: LinkStates,
    /// Time of 16 bytes, us, by the GPU's clock: it reveals staged copies.
    latency: Grid,
    findings: Vec<Finding>,
    /// Pairs without peer access, and why.
    without_access: Vec<(Pair, String)>,
    /// Bandwidth by size.
    sizes: Vec<sizes::Row>,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            grid: Grid::default(),
            links: LinkStates::default(),
            latency: Grid::times(),
            findings: Vec::new(),
            without_access: Vec::new(),
            sizes: Vec::new(),
        }
    }
}

/// What figures are judged by: the configuration, and what is known about the paths.
pub(super) struct Basis<'a> {
    pub(super) gpus: usize,
    pub(super) level: Level,
    /// `expect.min_p2p_gb_s`
    pub(super) least: Option<f64>,
    /// What carries each pair's data.
    pub(super) carrier: &'a dyn Fn(Pair) -> Carrier,
    /// What its links carry at their best, GB/s.
    pub(super) ceiling: &'a dyn Fn(Pair) -> Option<f64>,
    /// What the GPUs' own links carry under load, GB/s.
    pub(super) own: &'a dyn Fn(Pair) -> Option<f64>,
    /// The name of the group of pairs with similar paths, which are compared with each other.
    pub(super) path_group: &'a dyn Fn(Pair) -> String,
    /// How far apart the GPUs of a pair are over PCIe.
    pub(super) distance: &'a dyn Fn(Pair) -> Option<Distance>,
}

impl Basis<'_> {
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> {
        Pair::all(self.gpus)
    }
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let floor = context.config.expect.min_p2p_gb_s;
    if let Some(none) = gate(context, true)? {
        return Ok(unmeasured(none, floor));
    }
    let clique = context.clique()?;
    // No timing while NCCL starts.
    nccl::settle_all(context);
    let paths = GpuPaths::new(context, clique);
    let watch = Watch::begin(context, &clique.addresses());
    let bench = Bench::new(context, 2, FULL)?;
    let mut results = Results::default();
    measure::all(context, &bench, &paths, &mut results)?;
    results
        .findings
        .extend(detour::findings(context, &bench, &paths)?);
    // Links were read under load and are not read again.
    let (fabric, links) = (context.fabric()?, std::mem::take(&mut results.links));
    let carrier = paths.carriers(fabric, &links);
    let basis = Basis {
        gpus: clique.len(),
        level: context.config.validate.level,
        least: floor,
        carrier: &carrier,
        ceiling: &|pair| paths.ceiling(fabric, &links, pair),
        own: &|pair| paths.own(&links, pair),
        path_group: &|pair| paths.path_group(pair),
        distance: &|pair| paths.distance(pair),
    };
    let suspect_cells = judge::suspect_cells(&results, &basis);
    measure::again(context, &bench, &suspect_cells, &mut results)?;
    let (found, states) = watch.end(context);
    results.findings.extend(found);
    // A floor applies to pairs that are meant to reach each other.
    let groups = expected(context, clique)?;
    results.without_access.retain(|(pair, _)| {
        groups
            .as_ref()
            .is_none_or(|groups| in_same_group(groups, *pair))
    });
    results.findings.extend(paths.findings());
    results.findings.extend(links.findings(&clique.addresses()));
    Ok(judge::judge(results, &basis, &states))
}

/// A configured floor needs a measurement, and no other test makes it.
fn unmeasured(none: Judgement, floor: Option<f64>) -> Judgement {
    let Some(floor) = floor.filter(|_| none.outcome() == Outcome::NotApplicable) else {
        return none;
    };
    let message = format!(
        "expect.min_p2p_gb_s is {floor}, and no bandwidth is measured: {}",
        none.summary
    );
    let finding = Code::ExpectUnchecked.finding(Severity::Error, Subject::Machine, message);
    Judgement::by(finding.values(Value::Null, floor, Some("GB/s")))
}
