//! Memory errors, by the counters of the GPUs, and what the driver asks for.

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

fn asks(mut gpu: Standing, recovery: Counted) -> Standing {
    gpu.recovery = recovery;
    gpu
}

#[test]
fn a_gpu_that_the_driver_wants_to_be_recovered_fails_the_test_in_which_that_began_once() {
    let mut witness = quiet();
    assert_eq!(witness.settle(test("cuda"), fine(), vec![]), fine());
    let reset = || look([gpu(0), asks(gpu(1), Counted::At(1))]);
    witness.see(&reset());
    let said = witness.settle(test("p2p-order"), fine(), vec![]);
    assert_eq!(told(&said), [("GPU-NEEDS-RECOVERY", Severity::Fail, "GPU 1")]);
    let finding = &said.findings[0];
    assert_eq!((finding.recovery, &finding.measured), (Some(Recovery::ResetGpu), &"reset-gpu".into()));
    assert!(finding.message.ends_with("the driver says that the GPU must be reset"), "{finding:?}");
    assert!(finding.remedy.contains("--gpu-reset"), "{finding:?}");
    witness.see(&reset());
    assert_eq!(witness.settle(test("p2p-reach"), fine(), vec![]), fine());
    witness.see(&look([gpu(0), asks(gpu(1), Counted::At(2))]));
    let said = witness.settle(test("p2p-latency"), fine(), vec![]);
    assert_eq!(said.findings[0].recovery, Some(Recovery::RebootNode));
}

#[test]
fn an_action_that_is_not_known_fails_without_a_word_for_programs() {
    let said = witness([gpu(0), asks(gpu(1), Counted::At(6))]).settle(test("cuda"), fine(), vec![]);
    assert_eq!(told(&said), [("GPU-NEEDS-RECOVERY", Severity::Fail, "GPU 1")]);
    assert_eq!((said.findings[0].recovery, &said.findings[0].measured), (None, &"6".into()));
    assert!(said.findings[0].remedy.contains("nvidia-smi -q"), "{said:?}");
}

#[test]
fn a_driver_without_the_field_is_information_and_one_that_fails_to_read_it_warns() {
    let old = witness([asks(gpu(0), Counted::Unsupported), gpu(1)]).settle(test("cuda"), fine(), vec![]);
    assert_eq!(told(&old), [("GPU-NEEDS-RECOVERY", Severity::Info, "machine")]);
    assert!(old.outcome() == Outcome::Pass && old.findings[0].message.ends_with(": GPU 0"), "{old:?}");
    let unread = asks(gpu(1), Counted::Unread("why".into()));
    assert_eq!(witness([gpu(0), unread]).settle(test("cuda"), fine(), vec![]).outcome(), Outcome::Warn);
}
