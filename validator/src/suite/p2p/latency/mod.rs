//! The time of a small transfer: 16 bytes by p2pBandwidthLatencyTest's method, on the GPU's clock and on the
//! host's, with peer access off and on, and one load from a peer's memory by nvbandwidth's pointer chase
//! (16384 loads for a sample, where it makes a million). Data is checked.

mod judge;
mod measure;

use crate::suite::benchmark::{Bench, GpuPaths, Grid, Watch};
use crate::suite::shared::gate::gate;
use crate::suite::{Group, Test, TestContext};
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_LATENCY,
    title: "Peer latency",
    proves: "a small copy reaches every peer with the latency of a direct path, without a detour through the host",
    level: Level::Quick,
    deadline: Duration::from_secs(60),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The size of the buffers: the pointer chase's ring fits twice, bytes.
const BYTES: u64 = 4 << 20;

/// The figures and findings of all measurements.
#[derive(Debug)]
struct Results {
    /// Times of copies of 16 bytes, us.
    copies: Grid,
    /// Times of single loads, ns.
    loads: Grid,
    findings: Vec<Finding>,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            copies: Grid::times(),
            loads: Grid::times(),
            findings: Vec::new(),
        }
    }
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let paths = GpuPaths::new(context, clique);
    let watch = Watch::begin(context, &clique.addresses());
    let bench = Bench::new(context, 1, BYTES)?;
    let mut results = Results::default();
    measure::all(context, &bench, &paths, &mut results)?;
    let basis = judge::Basis {
        path_group: &|pair| paths.path_group(pair),
        nvlink: &|pair| paths.is_nvlink(pair),
    };
    let suspect_pairs = judge::suspect_pairs(&results, &basis);
    measure::again(context, &bench, &suspect_pairs, &mut results)?;
    let (found, states) = watch.end(context);
    results.findings.extend(found);
    Ok(judge::judge(
        results,
        &basis,
        clique.len(),
        context.config.validate.level,
        &states,
    ))
}
