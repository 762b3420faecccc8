//! The time of a small transfer: 16 bytes by p2pBandwidthLatencyTest's method, on the GPU's clock and on the
//! host's, with peer access off and on, and one load from a peer's memory by nvbandwidth's pointer chase
//! (16384 loads for a sample, where it makes a million). Data is checked.

mod judge;
mod measure;

use crate::config::Level;
use crate::outcome::Judgement;
use crate::outcome::finding::Finding;
use crate::suite::shared::gate::gate;
use crate::suite::shared::speed::{Bench, Grid, Watch, Ways};
use crate::suite::{Group, Machine, Test};
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-latency",
    title: "Peer latency",
    proves: "a small copy reaches every peer with the latency of a direct path, without a detour through the host",
    level: Level::Quick,
    deadline: Duration::from_secs(60),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Room for the ring of the chase, and more.
const BYTES: u64 = 4 << 20;

/// Everything that was measured.
#[derive(Debug)]
struct Seen {
    /// Microseconds.
    copies: Grid,
    /// Nanoseconds.
    loads: Grid,
    findings: Vec<Finding>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { copies: Grid::times(), loads: Grid::times(), findings: Vec::new() }
    }
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let ways = Ways::new(machine, clique);
    let watch = Watch::begin(machine, &clique.addresses());
    let bench = Bench::new(machine, 1, BYTES)?;
    let mut seen = Seen::default();
    measure::all(machine, &bench, &ways, &mut seen)?;
    let kinds = judge::Kinds { like: &|pair| ways.like(pair), nvlink: &|pair| ways.is_nvlink(pair) };
    let late = judge::late(&seen, &kinds);
    measure::again(machine, &bench, &late, &mut seen)?;
    let (found, states) = watch.end(machine);
    seen.findings.extend(found);
    Ok(judge::judge(seen, &kinds, clique.len(), machine.config.validate.level, &states))
}
