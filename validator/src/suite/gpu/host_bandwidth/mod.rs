//! Bandwidth between each GPU and the host's memory, and within each GPU. nvbandwidth's copies: to and from
//! the host, one GPU and all at once, both directions at once, and a copy within the GPU. Data goes to the
//! host and back and is checked. Memory of the NUMA node near each GPU is used.

mod host_memory;
mod judge;
mod measure;

use crate::floors::raw_to_host;
use crate::suite::benchmark::{Bench, FULL, Grid, LinkStates, Watch};
use crate::suite::shared::gate::gate;
use crate::suite::{Group, Test, TestContext};
use machine::pcie::model::Bdf;
use machine::pcie::tree::Tree;
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::HOST_BANDWIDTH,
    title: "Host bandwidth",
    proves: "every GPU moves as much data to and from the host's memory as its PCIe link allows",
    level: Level::Standard,
    deadline: Duration::from_secs(120),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The figures and findings of all measurements; the figures of GPU n are those of the pair n, n.
#[derive(Debug, Default)]
struct Results {
    grid: Grid,
    links: LinkStates,
    findings: Vec<Finding>,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, false)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let gpus = clique.addresses();
    let watch = Watch::begin(context, &gpus);
    let bench = Bench::new(context, 2, FULL)?;
    let blocks = host_memory::blocks(context, clique)?;
    let mut results = Results::default();
    measure::all(context, &bench, &blocks, &mut results)?;
    let links = std::mem::take(&mut results.links);
    let (read, fabric) = (context.fabric()?, links.applied(context.fabric()?));
    let tree = Tree::of(&fabric);
    let limits = |gpu: &Bdf| judge::HostLimits {
        raw: raw_to_host(&tree, *gpu),
        own: links.own(*gpu),
        most: links.most(read, *gpu),
    };
    let all_limits: Vec<_> = gpus.iter().map(limits).collect();
    measure::again(
        context,
        &bench,
        &blocks,
        &judge::suspect_gpus(&results, &all_limits),
        &mut results,
    )?;
    let (found, states) = watch.end(context);
    results.findings.extend(found);
    results.findings.extend(links.findings(&gpus));
    Ok(judge::judge(results, &all_limits, &states))
}
