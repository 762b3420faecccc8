//! The NCCL tests: every collective is right, and uses the transport that it reports. Each test is a file;
//! shared code is here and in `arms` (the NCCL configurations), `sweep` (running sizes), `trouble` (errors in
//! arms), `proof` and `dumps` (what NCCL's log lines and dumps prove), `tables`. `ranks` handles an
//! arm's processes.

mod allreduce;
mod arms;
mod calls;
mod channels;
mod checked;
mod collective;
mod counted;
mod diagnostics;
mod dumps;
mod groups;
mod libraries;
mod limits;
#[expect(clippy::module_inception, reason = "a test's file has the test's id")]
mod nccl;
mod nvls;
mod processes;
mod proof;
mod remeasure;
mod speed;
mod sweep;
mod tables;
mod trouble;
mod types;
mod withheld;

pub(super) use allreduce::TEST as ALLREDUCE;
pub(super) use arms::{is_any_starting, release_all, settle_all};
pub(super) use calls::TEST as CALLS;
pub(super) use channels::TEST as CHANNELS;
pub(super) use collective::TEST as COLLECTIVE;
pub(super) use nccl::{TEST as NCCL, start_ahead};
pub(super) use nvls::TEST as NVLS;
pub(super) use processes::TEST as PROCESSES;
pub(super) use types::TEST as TYPES;

use super::TestContext;
use crate::floors::Carrier;
use crate::nccl::Row;
use crate::schedule::Pair;
use crate::suite::benchmark::{GpuPaths, LinkStates};
use crate::suite::shared::gate::gate;
use limits::Limits;
use machine::{GpuId, Rank};
use outcome::finding::{Finding, Severity};
use outcome::metric::Metric;
use outcome::{Judgement, Outcome};

/// The expected speeds between these GPUs, from the figures of earlier tests; `None` where they were not
/// measured.
fn limits(
    context: &TestContext,
    gpus: &[GpuId],
    carrier: &dyn Fn(Pair) -> Carrier,
) -> Option<Limits> {
    let part = |(test, name)| {
        context
            .matrix(test, name)
            .map(|matrix| groups::submatrix(&matrix, gpus))
    };
    let gpu = |rank: Rank| {
        gpus.get(rank.index())
            .copied()
            .unwrap_or(GpuId::new(rank.index()))
    };
    let carrier = |from, to| carrier(Pair::new(gpu(from), gpu(to)));
    Limits::of(part(EDGES).as_ref(), part(LATENCY).as_ref(), &carrier)
}

/// The same between all GPUs. If access exists only within groups, data between groups goes through the host: no
/// speed is expected of that, and the missing limit is not a fault of the machine.
fn limits_of_all(
    context: &TestContext,
    rows: &[Row],
) -> Result<Result<Limits, Finding>, Box<Finding>> {
    let (clique, groups) = (context.clique()?, groups::of(context)?);
    let carrier =
        GpuPaths::new(context, clique).carriers(context.fabric()?, &LinkStates::default());
    let all: Vec<_> = GpuId::all(clique.len()).collect();
    let known = limits(context, &all, &carrier).filter(|_| groups.len() == 1);
    let unjudged = || {
        let found = speed::unjudged(rows);
        if groups.len() == 1 {
            found
        } else {
            Finding {
                severity: Severity::Info,
                ..found
            }
        }
    };
    Ok(known.ok_or_else(unjudged))
}

/// The matrices of the speeds between the GPUs, and of a small copy's time.
const EDGES: (&str, Metric) = ("p2p-bandwidth", Metric::CE_WRITE);
const LATENCY: (&str, Metric) = ("p2p-latency", Metric::LATENCY_ON_GPU);

/// Why an NCCL test cannot run; `None`: its preconditions hold.
fn not_testable(context: &TestContext) -> Result<Option<Judgement>, Box<Finding>> {
    if let Some(none) = gate(context, true)? {
        return Ok(Some(none));
    }
    let why = match context.outcome("p2p-capability") {
        Some(Outcome::Fail) => "the driver refuses peer-to-peer (see p2p-capability)",
        Some(Outcome::NotApplicable) => {
            "no pair of these GPUs can have peer access (see p2p-capability)"
        }
        _ => return Ok(None),
    };
    Ok(Some(Judgement::not_applicable(why)))
}

/// The same for tests after the first: NCCL must have passed that one.
fn not_connected(context: &TestContext) -> Result<Option<Judgement>, Box<Finding>> {
    if let Some(none) = not_testable(context)? {
        return Ok(Some(none));
    }
    Ok(first_failed(context.outcome(NCCL.id())).map(Judgement::not_applicable))
}

/// Why the result of the first test stops the others. It fails in several ways: no connection, wrong data, low speed.
const fn first_failed(first: Option<Outcome>) -> Option<&'static str> {
    match first {
        Some(Outcome::Fail) => {
            Some("the first test of NCCL failed (see nccl), so this test does not run")
        }
        Some(Outcome::Error) => {
            Some("it is unknown whether NCCL works (see nccl), so this test does not run")
        }
        Some(Outcome::Pass | Outcome::Warn | Outcome::NotApplicable) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It also fails where NCCL connected the GPUs and was slow.
    #[test]
    fn a_test_that_does_not_run_claims_nothing_about_connections() {
        for stops in [Outcome::Fail, Outcome::Error] {
            assert!(!first_failed(Some(stops)).unwrap().contains("connect"));
        }
        for goes_on in [
            Some(Outcome::Pass),
            Some(Outcome::Warn),
            Some(Outcome::NotApplicable),
            None,
        ] {
            assert_eq!(first_failed(goes_on), None);
        }
    }
}
