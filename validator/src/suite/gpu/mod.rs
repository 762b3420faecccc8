//! Tests of each GPU by itself, before transfers to its peers are tested. `host-bandwidth` measures its paths to the host's
//! memory. The others are stress: memory, arithmetic under steady load, and power steps of all GPUs at once; only level
//! `acceptance` runs these, for the time that `validate.acceptance_s` sets.

pub(super) mod host_bandwidth;
mod load;
pub(super) mod memory;
pub(super) mod power;
pub(super) mod products;
mod sample;

use crate::suite::TestContext;
use std::time::{Duration, Instant};

/// Time that such a test needs in addition to the configured time: for allocating, and for the last round.
const SPARE: Duration = Duration::from_secs(60);

/// The end of a test that runs for `parts` quarters of `validate.acceptance_s`.
fn end_time(context: &TestContext, parts: u64) -> Instant {
    let all = Duration::from_secs(context.config.validate.acceptance_s);
    Instant::now() + all * u32::try_from(parts).unwrap_or(1) / 4
}

/// Reports to the parent what is being done and for how much longer.
fn progress(context: &TestContext, what: &str, until: Instant) {
    let left = until.saturating_duration_since(Instant::now()).as_secs();
    context.doing(format!("{what}, {left} s left"));
}
