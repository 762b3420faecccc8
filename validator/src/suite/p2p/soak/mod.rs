//! Whether traffic holds for a minute. All pairs move data at once, every target is checked, and the GPUs'
//! state is read each second: clocks, temperature, power, and throttle reasons. The parent adds what the
//! kernel logs meanwhile.

mod judge;
mod measure;

use crate::suite::benchmark::{Bench, FULL, GpuPaths, Watch};
use crate::suite::shared::gate::gate;
use crate::suite::{Group, Test, TestContext};
use gpu::State;
use outcome::Judgement;
use outcome::finding::{Code, Finding};
use outcome::test;
use report::Level;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::P2P_SOAK,
    title: "Peer soak",
    proves: "all data of a minute of traffic between all pairs arrives, at a steady speed",
    level: Level::Full,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// How long all pairs are kept busy.
const SOAK: Duration = Duration::from_secs(60);

/// The measurements of one second.
#[derive(Debug, Clone, PartialEq)]
struct Second {
    /// Seconds since the start.
    at: f64,
    /// What all pairs moved together in it, by the GPUs' clocks, GB/s.
    gb_s: f64,
    /// By GPU; `None` where NVML does not report it.
    states: Vec<Option<State>>,
}

/// The measurements of all seconds, and findings.
#[derive(Debug, Default)]
struct Results {
    seconds: Vec<Second>,
    /// The number of checked transfers.
    transfers: u64,
    findings: Vec<Finding>,
    /// Whether the pairs took turns because not all could have peer access at once.
    in_turns: bool,
}

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(none);
    }
    let clique = context.clique()?;
    let paths = GpuPaths::new(context, clique);
    let watch = Watch::begin(context, &clique.addresses());
    let bench = Bench::new(context, clique.len().saturating_sub(1), FULL)?;
    let mut results = Results::default();
    measure::all(context, &bench, &paths, &mut results)?;
    // The table shows clocks second by second.
    results.findings.extend(watch.end(context).0.into_iter().filter(|f| !f.is(Code::GpuThrottled)));
    Ok(judge::judge(results))
}
