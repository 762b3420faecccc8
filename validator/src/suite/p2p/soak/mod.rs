//! Whether traffic holds for a minute. All pairs move data at once, every target is checked, and the GPUs'
//! state is read each second: clocks, temperature, power, and throttle reasons. The parent adds what the
//! kernel logs meanwhile.

mod judge;
mod measure;

use crate::config::Level;
use crate::gpu::State;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding};
use crate::suite::shared::gate::gate;
use crate::suite::shared::speed::{Bench, FULL, Watch, Ways};
use crate::suite::{Group, Machine, Test};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-soak",
    title: "Peer soak",
    proves: "all data of a minute of traffic between all pairs arrives, at a steady speed",
    level: Level::Full,
    deadline: Duration::from_secs(180),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// The duration.
const SOAK: Duration = Duration::from_secs(60);

/// One second.
#[derive(Debug, Clone, PartialEq)]
struct Second {
    /// Seconds since the start.
    at: f64,
    /// What all pairs moved together in it, by the GPUs' clocks, GB/s.
    gb_s: f64,
    /// By GPU; `None` where NVML does not report it.
    states: Vec<Option<State>>,
}

/// Everything that was measured.
#[derive(Debug, Default)]
struct Seen {
    seconds: Vec<Second>,
    /// The number of checked transfers.
    transfers: u64,
    findings: Vec<Finding>,
    /// Whether the pairs took turns because not all could have peer access at once.
    in_turns: bool,
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
    // The table shows clocks second by second.
    seen.findings.extend(watch.end(machine).0.into_iter().filter(|f| !f.is(Code::GpuThrottled)));
    Ok(judge::judge(seen))
}
