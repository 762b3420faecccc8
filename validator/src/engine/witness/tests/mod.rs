//! What the witness adds to the judgement of a test.

mod explained;

use super::*;
use crate::gpu::{ComputeMode, Counted, Counter};
use crate::machine::pcie::model::Bdf;
use crate::outcome::finding::Recovery;
use crate::suite;

fn gpu(ordinal: usize) -> Standing {
    let bus = u8::try_from(ordinal + 1).unwrap();
    let gpu = Bdf { domain: 0, bus, device: 0, function: 0 };
    let counted = [
        Counter::VolatileCorrected,
        Counter::VolatileUncorrected,
        Counter::AggregateCorrected,
        Counter::AggregateUncorrected,
        Counter::RemappedCorrected,
        Counter::RemappedUncorrected,
        Counter::RemapPending,
        Counter::RemapFailed,
        Counter::RetirePending,
    ];
    Standing {
        mode: ComputeMode::Shared,
        used_bytes: Some(4 << 20),
        busy_percent: Some(0),
        counted: counted
            .into_iter()
            .map(|c| (c, Counted::At(7 * u64::from(c < Counter::RemapPending))))
            .collect(),
        ordinal: Some(ordinal),
        recovery: Counted::At(0),
        ..Standing::unknown(gpu, Presence::Here)
    }
}

fn look(gpus: [Standing; 2]) -> Look {
    Look { quiet: false, gpus: Ok(gpus.into()) }
}

/// A witness after one look.
fn witness(gpus: [Standing; 2]) -> Witness {
    let mut witness = Witness::default();
    witness.see(&look(gpus));
    witness
}

fn quiet() -> Witness {
    witness([gpu(0), gpu(1)])
}

fn test(id: &str) -> &'static Test {
    suite::by_id(id).unwrap()
}

fn fails(code: Code, subject: &str) -> Judgement {
    Judgement::by(code.finding(Severity::Fail, subject, "seen"))
}

fn errs(code: Code, message: &str) -> Judgement {
    Judgement::by(code.finding(Severity::Error, "machine", message))
}

fn fine() -> Judgement {
    Judgement::of("fine", vec![])
}

/// Code, severity and subject of each finding.
fn keys(said: &Judgement) -> Vec<(&str, Severity, &str)> {
    said.findings.iter().map(|f| (f.code.as_str(), f.severity, f.subject.as_str())).collect()
}

#[test]
fn unchanged_gpus_add_nothing() {
    let mut witness = quiet();
    witness.see(&look([gpu(0), gpu(1)]));
    assert_eq!(witness.settle(test("cuda"), fine(), vec![]), fine());
}
