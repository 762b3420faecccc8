//! Whether traffic holds for a minute. All pairs move data at once, by copy engines and by kernels, in writes and in
//! reads, one after the other; every target is checked, and the GPUs'
//! state is read each second: clocks, temperature, power, and throttle reasons. The parent adds what the
//! kernel logs meanwhile.

mod judge;
mod measure;

use crate::suite::benchmark::{Bench, CopyMethod, FULL, GpuPaths, Side, Watch};
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

/// What moves the data: copy engines that write for most of the time, then kernels and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SoakMover {
    /// As in `kernels read`.
    name: &'static str,
    method: CopyMethod,
    by: Side,
    /// Its part of the time, in tenths.
    tenths: u32,
}

const MOVERS: [SoakMover; 4] = [
    SoakMover {
        name: "copy engines write",
        method: CopyMethod::Ce,
        by: Side::Source,
        tenths: 4,
    },
    SoakMover {
        name: "kernels write",
        method: CopyMethod::Sm,
        by: Side::Source,
        tenths: 2,
    },
    SoakMover {
        name: "copy engines read",
        method: CopyMethod::Ce,
        by: Side::Target,
        tenths: 2,
    },
    SoakMover {
        name: "kernels read",
        method: CopyMethod::Sm,
        by: Side::Target,
        tenths: 2,
    },
];

/// The measurements of one second.
#[derive(Debug, Clone, PartialEq)]
struct Second {
    /// Seconds since the start.
    at: f64,
    /// What moved the data in it.
    by: &'static str,
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
    results.findings.extend(
        watch
            .end(context)
            .0
            .into_iter()
            .filter(|f| !f.is(Code::GpuThrottled)),
    );
    Ok(judge::judge(results))
}
