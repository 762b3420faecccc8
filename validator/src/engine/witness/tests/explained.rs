//! Lost GPUs, settings and Xids that explain a failure.

use super::*;
use crate::gpu::Process;

#[test]
fn a_lost_gpu_stays_a_failure_in_later_tests() {
    let mut witness = quiet();
    let lost = Standing { ordinal: Some(1), ..Standing::unknown(gpu(1).gpu, Presence::Lost) };
    witness.see(&look([gpu(0), lost.clone()]));
    let said = witness.settle(test("p2p-bandwidth"), errs(Code::CudaError, "999"), vec![]);
    assert_eq!(said.outcome(), Outcome::Fail);
    assert_eq!(keys(&said)[1], ("GPU-GONE", Severity::Fail, "0000:02:00"));
    for code in [Code::CudaStart, Code::TestTimeout, Code::TestCrashed, Code::NcclError] {
        let said = witness.settle(test("nccl"), errs(code, "cuInit says 999"), vec![]);
        assert_eq!(said.outcome(), Outcome::Fail, "{code:?}");
        assert!(
            said.summary.starts_with("GPU 0000:02:00 was lost while p2p-bandwidth ran: "),
            "{}",
            said.summary
        );
    }
    let unread = errs(Code::ExpectUnchecked, "x");
    assert_eq!(witness.settle(test("nccl"), unread, vec![]).outcome(), Outcome::Error);
}

#[test]
fn a_gpu_lost_in_the_kernel_log_is_lost_and_one_in_an_old_log_is_not() {
    let gone = || vec![Code::GpuGone.finding(Severity::Fail, "0000:02:00.0", "fell off")];
    for (id, outcome) in [("p2p-order", Outcome::Fail), ("xid", Outcome::Error)] {
        let mut witness = quiet();
        assert_eq!(witness.settle(test(id), fine(), gone()).outcome(), Outcome::Fail);
        assert_eq!(
            witness.settle(test("nccl"), errs(Code::CudaStart, "999"), vec![]).outcome(),
            outcome,
            "{id}"
        );
    }
}

#[test]
fn a_setting_that_prevents_tests_replaces_cudas_error() {
    let set = |mode, mig| {
        let mut gpu = gpu(1);
        (gpu.mode, gpu.mig) = (mode, mig);
        gpu
    };
    for (gpu1, code) in [
        (set(ComputeMode::Prohibited, false), "GPU-COMPUTE-MODE"),
        (set(ComputeMode::Exclusive, false), "GPU-COMPUTE-MODE"),
        (set(ComputeMode::Shared, true), "GPU-MIG"),
    ] {
        let mut witness = witness([gpu(0), gpu1]);
        let start =
            || errs(Code::CudaStart, "cuDevicePrimaryCtxRetain says 46 CUDA_ERROR_DEVICE_UNAVAILABLE");
        for id in ["cuda", "p2p-integrity"] {
            let said = witness.settle(test(id), start(), vec![]);
            assert_eq!(keys(&said), [(code, Severity::Error, "GPU 1")], "{id}");
            assert!(said.summary.starts_with("GPU 1 is s"), "{}", said.summary);
        }
    }
}

#[test]
fn a_gpu_hidden_from_cuda_is_missing_unless_it_is_split() {
    let mut split = gpu(1);
    (split.mig, split.ordinal) = (true, None);
    for (subject, code) in [("0000:02:00.0", "GPU-MIG"), ("0000:01:00.0", "GPU-COUNT-CUDA")] {
        let said =
            witness([gpu(0), split.clone()]).settle(test("cuda"), fails(Code::GpuCountCuda, subject), vec![]);
        assert_eq!(said.findings[0].code, code, "{said:?}");
    }
}

#[test]
fn a_program_xid_belongs_to_a_failure_or_is_an_error() {
    let xid = || vec![Code::GpuXid.finding(Severity::Error, "0000:02:00", "Xid 31")];
    assert_eq!(quiet().settle(test("p2p-order"), fine(), xid()).outcome(), Outcome::Error);
    let failed = fails(Code::CudaSticky, "GPU 0 -> 1");
    assert_eq!(quiet().settle(test("p2p-order"), failed, xid()).outcome(), Outcome::Fail);
}

// Programs of others on the GPUs.

fn train() -> Process {
    Process { pid: 7, name: "/usr/bin/train".into(), bytes: Some(9 << 30), compute: true, ours: false }
}

fn used(mut gpu: Standing) -> Standing {
    gpu.users = Ok(vec![train()]);
    gpu
}

#[test]
fn timing_and_progress_on_a_gpu_in_use_cannot_be_judged() {
    for code in
        [Code::P2pHang, Code::P2pSlow, Code::NcclSlow, Code::NcclHang, Code::TestTimeout, Code::HostSlow]
    {
        let said =
            witness([gpu(0), used(gpu(1))]).settle(test("p2p-order"), fails(code, "GPU 0 -> 1"), vec![]);
        assert_eq!(keys(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")], "{code:?}");
        assert!(said.summary.contains("/usr/bin/train (process 7, 9216 MiB)"), "{}", said.summary);
        assert!(said.findings[0].evidence[0].contains("GPU 0 -> 1: seen"), "{said:?}");
    }
}

#[test]
fn a_gpu_without_other_users_keeps_its_failure() {
    let hang = || fails(Code::P2pHang, "GPU 0 -> 1");
    assert_eq!(quiet().settle(test("p2p-order"), hang(), vec![]), hang());
    assert_eq!(witness([gpu(2), used(gpu(3))]).settle(test("p2p-order"), hang(), vec![]), hang());
    let mut own = train();
    own.ours = true;
    let mut mine = gpu(1);
    mine.users = Ok(vec![own]);
    assert_eq!(witness([gpu(0), mine]).settle(test("p2p-order"), hang(), vec![]), hang());
}

#[test]
fn wrong_data_stays_a_failure_and_is_not_hidden() {
    let wrong = fails(Code::P2pWrongData, "GPU 0 -> 1");
    let mut witness = witness([gpu(0), used(gpu(1))]);
    assert_eq!(witness.settle(test("p2p-integrity"), wrong.clone(), vec![]), wrong);
    let both = wrong.with(vec![Code::P2pHang.finding(Severity::Fail, "GPU 0 -> 1", "hangs")]);
    let said = witness.settle(test("p2p-integrity"), both, vec![]);
    assert_eq!(said.outcome(), Outcome::Fail);
    assert_eq!(keys(&said)[1], ("GPU-IN-USE", Severity::Warn, "GPU 1"));
}

#[test]
fn memory_of_other_programs_explains_failures_for_lack_of_memory() {
    let full = || errs(Code::CudaError, "cuMemAlloc says 2 CUDA_ERROR_OUT_OF_MEMORY");
    let said = witness([gpu(0), used(gpu(1))]).settle(test("p2p-reach"), full(), vec![]);
    assert_eq!(keys(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")]);
    let after =
        full().with(vec![Code::CudaError.finding(Severity::Error, "GPU 0 -> 2", "bytes 8 of a buffer of 4")]);
    let said = witness([gpu(0), used(gpu(1))]).settle(test("p2p-reach"), after, vec![]);
    assert_eq!(
        (keys(&said), said.findings[0].evidence.len()),
        (vec![("GPU-IN-USE", Severity::Error, "GPU 1")], 2)
    );
    let other = || errs(Code::CudaError, "cuMemAlloc says 1 CUDA_ERROR_INVALID_VALUE");
    assert_eq!(witness([gpu(0), used(gpu(1))]).settle(test("p2p-reach"), other(), vec![]), other());
    let mut nccl = Code::NcclError.finding(Severity::Fail, "with peer-to-peer", "unhandled cuda error");
    nccl = nccl.seen("NCCL WARN Cuda failure 2 'out of memory'");
    let said = witness([gpu(0), used(gpu(1))]).settle(test("nccl-allreduce"), Judgement::by(nccl), vec![]);
    assert_eq!(keys(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")]);
}

#[test]
fn unnamed_programs_are_detected_by_memory_or_load() {
    let slow = || fails(Code::P2pSlow, "GPU 0 -> 1");
    let mut full = gpu(1);
    full.used_bytes = Some(40 << 30);
    let said = witness([gpu(0), full.clone()]).settle(test("p2p-bandwidth"), slow(), vec![]);
    assert!(said.summary.contains("does not name (40960 MiB)"), "{}", said.summary);
    // Memory that is used later may be ours.
    let mut later = quiet();
    later.see(&look([gpu(0), full]));
    assert_eq!(later.settle(test("p2p-bandwidth"), slow(), vec![]), slow());
    let mut busy = gpu(1);
    busy.busy_percent = Some(90);
    let at_first = witness([gpu(0), busy.clone()]).settle(test("p2p-bandwidth"), slow(), vec![]);
    assert_eq!(at_first.outcome(), Outcome::Error);
    for (still, outcome) in [(false, Outcome::Fail), (true, Outcome::Error)] {
        let mut later = quiet();
        later.see(&Look { quiet: still, ..look([gpu(0), busy.clone()]) });
        assert_eq!(later.settle(test("p2p-bandwidth"), slow(), vec![]).outcome(), outcome);
    }
}

#[test]
fn a_gpu_on_which_our_own_work_hangs_is_not_called_in_use() {
    let mut witness = quiet();
    let hang = || fails(Code::P2pHang, "GPU 0 -> 1");
    assert_eq!(witness.settle(test("p2p-order"), hang(), vec![]), hang());
    let mut busy = gpu(1);
    busy.busy_percent = Some(100);
    witness.see(&Look { quiet: true, ..look([gpu(0), busy]) });
    assert_eq!(witness.settle(test("p2p-latency"), hang(), vec![]), hang());
}

#[test]
fn measurements_are_kept() {
    let measured = fails(Code::P2pSlow, "GPU 0 -> 1").with_tables(vec![serde_json::json!({"name": "x"})]);
    let said = witness([gpu(0), used(gpu(1))]).settle(test("p2p-bandwidth"), measured.clone(), vec![]);
    assert_eq!(said.tables, measured.tables);
}

// Memory errors, by the counters of the GPUs, and what the driver asks for.

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
    assert_eq!(keys(&said), [("GPU-ECC", Severity::Fail, "GPU 1")]);
    assert!(said.findings[0].message.contains("2 uncorrected memory errors"), "{said:?}");
    // Counted once.
    witness.see(&look([gpu(0), counts(gpu(1), Counter::VolatileUncorrected, 9)]));
    assert_eq!(witness.settle(test("p2p-reach"), fine(), vec![]).findings, []);
    witness.see(&look([counts(gpu(0), Counter::AggregateCorrected, 8), gpu(1)]));
    let said = witness.settle(test("p2p-latency"), fine(), vec![]);
    assert_eq!(keys(&said), [("GPU-ECC", Severity::Warn, "GPU 0")]);
    assert_eq!((&said.findings[0].measured, &said.findings[0].expected), (&1.into(), &0.into()));
}

#[test]
fn memory_faults_before_the_tests_are_reported_once() {
    let spoilt = || [counts(gpu(0), Counter::RemapPending, 1), counts(gpu(1), Counter::RemapFailed, 1)];
    let mut witness = witness(spoilt());
    let said = witness.settle(test("cuda"), fine(), vec![]);
    assert_eq!(keys(&said), [("GPU-REMAP", Severity::Warn, "GPU 0"), ("GPU-REMAP", Severity::Fail, "GPU 1")]);
    witness.see(&look(spoilt()));
    assert_eq!(witness.settle(test("p2p-order"), fine(), vec![]), fine());
    let [first, second] = spoilt();
    witness.see(&look([counts(first, Counter::RemappedUncorrected, 8), second]));
    assert_eq!(
        keys(&witness.settle(test("p2p-reach"), fine(), vec![])),
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
        (keys(&said), said.outcome()),
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
    assert_eq!(keys(&said), [("GPU-NEEDS-RECOVERY", Severity::Fail, "GPU 1")]);
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
    assert_eq!(keys(&said), [("GPU-NEEDS-RECOVERY", Severity::Fail, "GPU 1")]);
    assert_eq!((said.findings[0].recovery, &said.findings[0].measured), (None, &"6".into()));
    assert!(said.findings[0].remedy.contains("nvidia-smi -q"), "{said:?}");
}

#[test]
fn a_driver_without_the_field_is_information_and_one_that_fails_to_read_it_warns() {
    let old = witness([asks(gpu(0), Counted::Unsupported), gpu(1)]).settle(test("cuda"), fine(), vec![]);
    assert_eq!(keys(&old), [("GPU-NEEDS-RECOVERY", Severity::Info, "machine")]);
    assert!(old.outcome() == Outcome::Pass && old.findings[0].message.ends_with(": GPU 0"), "{old:?}");
    let unread = asks(gpu(1), Counted::Unread("why".into()));
    assert_eq!(witness([gpu(0), unread]).settle(test("cuda"), fine(), vec![]).outcome(), Outcome::Warn);
}
