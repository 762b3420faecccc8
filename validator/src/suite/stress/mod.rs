//! Stress tests of each GPU by itself, before transfers to its peers are tested on the hot GPUs: memory, arithmetic
//! under steady load, and power steps of all GPUs at once. Only level `acceptance` runs these, for the time that
//! `validate.acceptance_s` sets.

mod load;
mod memory;
mod products;
mod sample;

use crate::suite::{Group, Machine, Test};
use report::Level;
use std::time::{Duration, Instant};

pub(in crate::suite) const MEMORY: Test = Test {
    id: "gpu-memory",
    title: "GPU memory",
    proves: "moving inversions find no wrong bit in nearly all memory of every GPU, with all GPUs at work",
    level: Level::Acceptance,
    deadline: SPARE,
    mandatory: false,
    group: Group::Gpu,
    run: memory::run,
};

pub(in crate::suite) const PRODUCTS: Test = Test {
    id: "gpu-products",
    title: "GPU arithmetic",
    proves: "under steady load of all GPUs every matrix product is right, and clocks and links hold",
    level: Level::Acceptance,
    deadline: SPARE,
    mandatory: false,
    group: Group::Gpu,
    run: products::steady,
};

pub(in crate::suite) const POWER: Test = Test {
    id: "gpu-power",
    title: "Power steps",
    proves: "all GPUs go from idle to full load together, again and again, and every result is right",
    level: Level::Acceptance,
    deadline: SPARE,
    mandatory: false,
    group: Group::Gpu,
    run: products::in_steps,
};

/// Time that such a test needs in addition to the configured time: for allocating, and for the last round.
const SPARE: Duration = Duration::from_secs(60);

/// The end of a test that runs for `parts` quarters of `validate.acceptance_s`.
fn end_time(machine: &Machine, parts: u64) -> Instant {
    let all = Duration::from_secs(machine.config.validate.acceptance_s);
    Instant::now() + all * u32::try_from(parts).unwrap_or(1) / 4
}

/// Reports to the parent what is being done and for how much longer.
fn progress(machine: &Machine, what: &str, until: Instant) {
    let left = until.saturating_duration_since(Instant::now()).as_secs();
    machine.doing(format!("{what}, {left} s left"));
}
