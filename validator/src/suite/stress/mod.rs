//! What wears each GPU by itself, before its peers are tried at that heat: its memory, its arithmetic under steady
//! load, and steps of power of all GPUs at once. Level `acceptance` alone runs these, for as long as
//! `validate.acceptance_s` says.

mod load;
mod memory;
mod products;
mod second;

use crate::config::Level;
use crate::suite::{Group, Machine, Test};
use std::time::{Duration, Instant};

pub(in crate::suite) const MEMORY: Test = Test {
    id: "gpu-memory",
    title: "GPU memory",
    proves: "nearly all memory of every GPU holds every bit through moving inversions, with all GPUs at work",
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

/// The time of such a test besides the one that is asked for: allocating, and the round that is under way.
const SPARE: Duration = Duration::from_secs(60);

/// When a test ends that gets `parts` of four of `validate.acceptance_s`.
fn end(machine: &Machine, parts: u64) -> Instant {
    let all = Duration::from_secs(machine.config.validate.acceptance_s);
    Instant::now() + all * u32::try_from(parts).unwrap_or(1) / 4
}

/// Tells the parent what is done and for how much longer.
fn progress(machine: &Machine, what: &str, until: Instant) {
    let left = until.saturating_duration_since(Instant::now()).as_secs();
    machine.doing(&format!("{what}, {left} s left"));
}
