//! Memory errors, by the counters of the GPUs.

use super::*;

fn counts(mut gpu: Standing, counter: Counter, at: u64) -> Standing {
    gpu.counted.insert(counter, Counted::At(at));
    gpu
}

#[test]
fn memory_errors_during_a_test_belong_to_it() {
    let mut witness = quiet();
    assert_eq!(witness.settle(test("cuda"), fine(), vec![]).outcome(), Outcome::Pass);
    witness.see(&look([gpu(0), counts(gpu(1), Counter::VolatileUncorrected, 9)]));
    let said = witness.settle(test("p2p-order"), fine(), vec![]);
    assert_eq!(told(&said), [("GPU-ECC", Severity::Fail, "GPU 1")]);
    assert!(said.findings[0].message.contains("2 uncorrected memory errors"), "{said:?}");
    // Counted once.
    witness.see(&look([gpu(0), counts(gpu(1), Counter::VolatileUncorrected, 9)]));
    assert_eq!(witness.settle(test("p2p-reach"), fine(), vec![]).findings, []);
    witness.see(&look([counts(gpu(0), Counter::AggregateCorrected, 8), gpu(1)]));
    let said = witness.settle(test("p2p-latency"), fine(), vec![]);
    assert_eq!(told(&said), [("GPU-ECC", Severity::Warn, "GPU 0")]);
    assert_eq!((&said.findings[0].measured, &said.findings[0].expected), (&1.into(), &0.into()));
}

#[test]
fn memory_faults_before_the_tests_are_reported_once() {
    let spoilt = || [counts(gpu(0), Counter::RemapPending, 1), counts(gpu(1), Counter::RemapFailed, 1)];
    let mut witness = witness(spoilt());
    let said = witness.settle(test("cuda"), fine(), vec![]);
    assert_eq!(told(&said), [("GPU-REMAP", Severity::Warn, "GPU 0"), ("GPU-REMAP", Severity::Fail, "GPU 1")]);
    witness.see(&look(spoilt()));
    assert_eq!(witness.settle(test("p2p-order"), fine(), vec![]), fine());
    let [first, second] = spoilt();
    witness.see(&look([counts(first, Counter::RemappedUncorrected, 8), second]));
    assert_eq!(
        told(&witness.settle(test("p2p-reach"), fine(), vec![])),
        [("GPU-REMAP", Severity::Fail, "GPU 0")]
    );
}

#[test]
fn gpus_without_counters_are_named_and_those_that_cannot_be_read_warn() {
    let lacking = |mut gpu: Standing| {
        gpu.counted.values_mut().for_each(|c| *c = Counted::Unsupported);
        gpu
    };
    let said = witness([lacking(gpu(0)), lacking(gpu(1))]).settle(test("cuda"), fine(), vec![]);
    assert_eq!(
        (told(&said), said.outcome()),
        (vec![("GPU-UNCOUNTED", Severity::Info, "machine")], Outcome::Pass)
    );
    assert!(said.findings[0].message.ends_with(": GPU 0, GPU 1"), "{said:?}");
    let mut broken = gpu(1);
    broken.counted.insert(Counter::AggregateCorrected, Counted::Unread("why".into()));
    let said = witness([gpu(0), broken]).settle(test("cuda"), fine(), vec![]);
    assert_eq!(said.outcome(), Outcome::Warn);
    let mut blind = quiet();
    blind.see(&Look { quiet: false, gpus: Err("no answer".into()) });
    assert_eq!(blind.settle(test("p2p-order"), fine(), vec![]).outcome(), Outcome::Warn);
}
