//! What the monitor adds to the judgement of a test.

mod explained;

use super::*;
use crate::suite;
use gpu::{ComputeMode, Counter, CounterValue};
use machine::pcie::model::Bdf;
use outcome::finding::Recovery;
use outcome::finding::Subject;

fn gpu(ordinal: usize) -> GpuStatus {
    let bus = u8::try_from(ordinal + 1).unwrap();
    let gpu = Bdf {
        domain: 0,
        bus,
        device: 0,
        function: 0,
    };
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
    GpuStatus {
        mode: ComputeMode::Shared,
        used_bytes: Some(4 << 20),
        busy_percent: Some(0),
        counted: counted
            .into_iter()
            .map(|c| {
                (
                    c,
                    CounterValue::At(7 * u64::from(c < Counter::RemapPending)),
                )
            })
            .collect(),
        ordinal: Some(ordinal),
        recovery: CounterValue::At(0),
        ..GpuStatus::unknown(gpu, Presence::Here)
    }
}

fn snapshot(gpus: [GpuStatus; 2]) -> GpuSnapshot {
    GpuSnapshot {
        quiet: false,
        gpus: Ok(gpus.into()),
    }
}

/// A monitor after one snapshot.
fn monitor(gpus: [GpuStatus; 2]) -> GpuMonitor {
    let mut monitor = GpuMonitor::default();
    monitor.add_snapshot(&snapshot(gpus));
    monitor
}

fn quiet() -> GpuMonitor {
    monitor([gpu(0), gpu(1)])
}

fn test(id: &str) -> &'static Test {
    suite::by_id(id).unwrap()
}

fn fails(code: Code, subject: &str) -> Judgement {
    Judgement::by(code.finding(Severity::Fail, subject, "seen"))
}

fn errs(code: Code, message: &str) -> Judgement {
    Judgement::by(
        code.finding(Severity::Error, Subject::Machine, message)
            .lacking([message]),
    )
}

fn fine() -> Judgement {
    Judgement::of("fine", vec![])
}

/// Code, severity and subject of each finding.
fn keys(said: &Judgement) -> Vec<(&str, Severity, &str)> {
    said.findings
        .iter()
        .map(|f| (f.code.as_str(), f.severity, &*f.subject.to_string().leak()))
        .collect()
}

#[test]
fn unchanged_gpus_add_nothing() {
    let mut monitor = quiet();
    monitor.add_snapshot(&snapshot([gpu(0), gpu(1)]));
    assert_eq!(monitor.explain(test("cuda"), fine(), vec![]), fine());
}
