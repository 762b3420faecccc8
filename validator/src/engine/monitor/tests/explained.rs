//! Lost GPUs, settings and Xids that explain a failure.

use super::*;
use crate::schedule::Pair;
use gpu::Process;
use outcome::finding::Reason;

#[test]
fn a_lost_gpu_stays_a_failure_in_later_tests() {
    let mut monitor = quiet();
    let lost = GpuStatus {
        ordinal: Some(1),
        ..GpuStatus::unknown(gpu(1).gpu, Presence::Lost)
    };
    monitor.add_snapshot(&snapshot([gpu(0), lost.clone()]));
    let said = monitor.explain(test("p2p-bandwidth"), errs(Code::CudaError, "999"), vec![]);
    assert_eq!(said.outcome(), Outcome::Fail);
    assert_eq!(keys(&said)[1], ("GPU-GONE", Severity::Fail, "0000:02:00"));
    for code in [
        Code::CudaStart,
        Code::TestTimeout,
        Code::TestCrashed,
        Code::NcclError,
    ] {
        let said = monitor.explain(test("nccl"), errs(code, "cuInit says 999"), vec![]);
        assert_eq!(said.outcome(), Outcome::Fail, "{code:?}");
        assert!(
            said.summary
                .starts_with("GPU 0000:02:00 was lost while p2p-bandwidth ran: "),
            "{}",
            said.summary
        );
    }
    let unread = errs(Code::ExpectUnchecked, "x");
    assert_eq!(
        monitor.explain(test("nccl"), unread, vec![]).outcome(),
        Outcome::Error
    );
}

#[test]
fn a_gpu_lost_in_the_kernel_log_is_lost_and_one_in_an_old_log_is_not() {
    let gone = || vec![Code::GpuGone.finding(Severity::Fail, "0000:02:00.0", "fell off")];
    for (id, outcome) in [("p2p-order", Outcome::Fail), ("xid", Outcome::Error)] {
        let mut monitor = quiet();
        assert_eq!(
            monitor.explain(test(id), fine(), gone()).outcome(),
            Outcome::Fail
        );
        assert_eq!(
            monitor
                .explain(test("nccl"), errs(Code::CudaStart, "999"), vec![])
                .outcome(),
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
        let mut monitor = monitor([gpu(0), gpu1]);
        let start = || {
            errs(
                Code::CudaStart,
                "cuDevicePrimaryCtxRetain says 46 CUDA_ERROR_DEVICE_UNAVAILABLE",
            )
        };
        for id in ["cuda", "p2p-integrity"] {
            let said = monitor.explain(test(id), start(), vec![]);
            assert_eq!(keys(&said), [(code, Severity::Error, "GPU 1")], "{id}");
            assert!(said.summary.starts_with("GPU 1 is s"), "{}", said.summary);
        }
    }
}

#[test]
fn a_gpu_hidden_from_cuda_is_missing_unless_it_is_split() {
    let mut split = gpu(1);
    (split.mig, split.ordinal) = (true, None);
    for (subject, code) in [
        ("0000:02:00.0", "GPU-MIG"),
        ("0000:01:00.0", "GPU-COUNT-CUDA"),
    ] {
        let said = monitor([gpu(0), split.clone()]).explain(
            test("cuda"),
            fails(Code::GpuCountCuda, subject),
            vec![],
        );
        assert_eq!(said.findings[0].code, code, "{said:?}");
    }
}

#[test]
fn a_program_xid_belongs_to_a_failure_or_is_an_error() {
    let xid = || vec![Code::GpuXid.finding(Severity::Error, "0000:02:00", "Xid 31")];
    assert_eq!(
        quiet().explain(test("p2p-order"), fine(), xid()).outcome(),
        Outcome::Error
    );
    let failed = fails(Code::CudaSticky, "GPU 0 -> 1");
    assert_eq!(
        quiet().explain(test("p2p-order"), failed, xid()).outcome(),
        Outcome::Fail
    );
}

// Programs of others on the GPUs.

fn train() -> Process {
    Process {
        pid: 7,
        name: "/usr/bin/train".into(),
        bytes: Some(9 << 30),
        compute: true,
        ours: false,
    }
}

fn used(mut gpu: GpuStatus) -> GpuStatus {
    gpu.users = Ok(vec![train()]);
    gpu
}

#[test]
fn timing_and_progress_on_a_gpu_in_use_cannot_be_judged() {
    for code in [
        Code::P2pHang,
        Code::P2pSlow,
        Code::NcclSlow,
        Code::NcclHang,
        Code::TestTimeout,
        Code::HostSlow,
    ] {
        let said = monitor([gpu(0), used(gpu(1))]).explain(
            test("p2p-order"),
            fails(code, "GPU 0 -> 1"),
            vec![],
        );
        assert_eq!(
            keys(&said),
            [("GPU-IN-USE", Severity::Error, "GPU 1")],
            "{code:?}"
        );
        assert!(
            said.summary
                .contains("/usr/bin/train (process 7, 9216 MiB)"),
            "{}",
            said.summary
        );
        assert!(
            said.findings[0].evidence[0].contains("GPU 0 -> 1: seen"),
            "{said:?}"
        );
    }
}

#[test]
fn a_gpu_without_other_users_keeps_its_failure() {
    let hang = || fails(Code::P2pHang, "GPU 0 -> 1");
    assert_eq!(quiet().explain(test("p2p-order"), hang(), vec![]), hang());
    assert_eq!(
        monitor([gpu(2), used(gpu(3))]).explain(test("p2p-order"), hang(), vec![]),
        hang()
    );
    let mut own = train();
    own.ours = true;
    let mut mine = gpu(1);
    mine.users = Ok(vec![own]);
    assert_eq!(
        monitor([gpu(0), mine]).explain(test("p2p-order"), hang(), vec![]),
        hang()
    );
}

#[test]
fn wrong_data_stays_a_failure_and_is_not_hidden() {
    let wrong = fails(Code::P2pWrongData, "GPU 0 -> 1");
    let mut monitor = monitor([gpu(0), used(gpu(1))]);
    assert_eq!(
        monitor.explain(test("p2p-integrity"), wrong.clone(), vec![]),
        wrong
    );
    let both = wrong.with(vec![Code::P2pHang.finding(
        Severity::Fail,
        Pair::of(0, 1),
        "hangs",
    )]);
    let said = monitor.explain(test("p2p-integrity"), both, vec![]);
    assert_eq!(said.outcome(), Outcome::Fail);
    assert_eq!(keys(&said)[1], ("GPU-IN-USE", Severity::Warn, "GPU 1"));
}

#[test]
fn memory_of_other_programs_explains_failures_for_lack_of_memory() {
    let full = || {
        errs(
            Code::CudaError,
            "cuMemAlloc says 2 CUDA_ERROR_OUT_OF_MEMORY",
        )
    };
    let said = monitor([gpu(0), used(gpu(1))]).explain(test("p2p-reach"), full(), vec![]);
    assert_eq!(keys(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")]);
    let after = full().with(vec![Code::CudaError.finding(
        Severity::Error,
        Pair::of(0, 2),
        "bytes 8 of a buffer of 4",
    )]);
    let said = monitor([gpu(0), used(gpu(1))]).explain(test("p2p-reach"), after, vec![]);
    assert_eq!(
        (keys(&said), said.findings[0].evidence.len()),
        (vec![("GPU-IN-USE", Severity::Error, "GPU 1")], 2)
    );
    let other = || {
        errs(
            Code::CudaError,
            "cuMemAlloc says 1 CUDA_ERROR_INVALID_VALUE",
        )
    };
    assert_eq!(
        monitor([gpu(0), used(gpu(1))]).explain(test("p2p-reach"), other(), vec![]),
        other()
    );
    let mut nccl =
        Code::NcclError.finding(Severity::Fail, "with peer-to-peer", "unhandled cuda error");
    let line = "NCCL WARN Cuda failure 2 'out of memory'";
    nccl = nccl.seen(line).lacking([line]);
    let said = monitor([gpu(0), used(gpu(1))]).explain(
        test("nccl-allreduce"),
        Judgement::by(nccl),
        vec![],
    );
    assert_eq!(keys(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")]);
}

#[test]
fn unnamed_programs_are_detected_by_memory_or_load() {
    let slow = || fails(Code::P2pSlow, "GPU 0 -> 1");
    let mut full = gpu(1);
    full.used_bytes = Some(40 << 30);
    let said = monitor([gpu(0), full.clone()]).explain(test("p2p-bandwidth"), slow(), vec![]);
    assert!(
        said.summary.contains("does not name (40960 MiB)"),
        "{}",
        said.summary
    );
    // Memory that is used later may be ours.
    let mut later = quiet();
    later.add_snapshot(&snapshot([gpu(0), full]));
    assert_eq!(later.explain(test("p2p-bandwidth"), slow(), vec![]), slow());
    let mut busy = gpu(1);
    busy.busy_percent = Some(90);
    let at_first = monitor([gpu(0), busy.clone()]).explain(test("p2p-bandwidth"), slow(), vec![]);
    assert_eq!(at_first.outcome(), Outcome::Error);
    for (still, outcome) in [(false, Outcome::Fail), (true, Outcome::Error)] {
        let mut later = quiet();
        later.add_snapshot(&GpuSnapshot {
            quiet: still,
            ..snapshot([gpu(0), busy.clone()])
        });
        assert_eq!(
            later
                .explain(test("p2p-bandwidth"), slow(), vec![])
                .outcome(),
            outcome
        );
    }
}

#[test]
fn a_gpu_on_which_our_own_work_hangs_is_not_called_in_use() {
    let mut monitor = quiet();
    let hang = || fails(Code::P2pHang, "GPU 0 -> 1");
    assert_eq!(monitor.explain(test("p2p-order"), hang(), vec![]), hang());
    let mut busy = gpu(1);
    busy.busy_percent = Some(100);
    monitor.add_snapshot(&GpuSnapshot {
        quiet: true,
        ..snapshot([gpu(0), busy])
    });
    assert_eq!(monitor.explain(test("p2p-latency"), hang(), vec![]), hang());
}

#[test]
fn measurements_are_kept() {
    let measured = fails(Code::P2pSlow, "GPU 0 -> 1")
        .with_tables(vec![serde_json::json!({"name": "x"}).into()]);
    let said =
        monitor([gpu(0), used(gpu(1))]).explain(test("p2p-bandwidth"), measured.clone(), vec![]);
    assert_eq!(said.tables, measured.tables);
}

// Memory errors, by the counters of the GPUs, and what the driver asks for.

fn counts(mut gpu: GpuStatus, counter: Counter, at: u64) -> GpuStatus {
    gpu.counted.insert(counter, CounterValue::At(at));
    gpu
}

#[test]
fn memory_errors_during_a_test_belong_to_it() {
    let mut monitor = quiet();
    assert_eq!(
        monitor.explain(test("cuda"), fine(), vec![]).outcome(),
        Outcome::Pass
    );
    monitor.add_snapshot(&snapshot([
        gpu(0),
        counts(gpu(1), Counter::VolatileUncorrected, 9),
    ]));
    let said = monitor.explain(test("p2p-order"), fine(), vec![]);
    assert_eq!(keys(&said), [("GPU-ECC", Severity::Fail, "GPU 1")]);
    assert!(
        said.findings[0]
            .message
            .contains("2 uncorrected memory errors"),
        "{said:?}"
    );
    // Counted once.
    monitor.add_snapshot(&snapshot([
        gpu(0),
        counts(gpu(1), Counter::VolatileUncorrected, 9),
    ]));
    assert_eq!(
        monitor.explain(test("p2p-reach"), fine(), vec![]).findings,
        []
    );
    monitor.add_snapshot(&snapshot([
        counts(gpu(0), Counter::AggregateCorrected, 8),
        gpu(1),
    ]));
    let said = monitor.explain(test("p2p-latency"), fine(), vec![]);
    assert_eq!(keys(&said), [("GPU-ECC", Severity::Warn, "GPU 0")]);
    assert_eq!(
        (&said.findings[0].measured, &said.findings[0].expected),
        (&1.into(), &0.into())
    );
}

#[test]
fn memory_faults_before_the_tests_are_reported_once() {
    let spoilt = || {
        [
            counts(gpu(0), Counter::RemapPending, 1),
            counts(gpu(1), Counter::RemapFailed, 1),
        ]
    };
    let mut monitor = monitor(spoilt());
    let said = monitor.explain(test("cuda"), fine(), vec![]);
    assert_eq!(
        keys(&said),
        [
            ("GPU-REMAP", Severity::Warn, "GPU 0"),
            ("GPU-REMAP", Severity::Fail, "GPU 1")
        ]
    );
    monitor.add_snapshot(&snapshot(spoilt()));
    assert_eq!(monitor.explain(test("p2p-order"), fine(), vec![]), fine());
    let [first, second] = spoilt();
    monitor.add_snapshot(&snapshot([
        counts(first, Counter::RemappedUncorrected, 8),
        second,
    ]));
    assert_eq!(
        keys(&monitor.explain(test("p2p-reach"), fine(), vec![])),
        [("GPU-REMAP", Severity::Fail, "GPU 0")]
    );
}

#[test]
fn gpus_without_counters_are_named_and_those_that_cannot_be_read_warn() {
    let lacking = |mut gpu: GpuStatus| {
        gpu.counted
            .values_mut()
            .for_each(|c| *c = CounterValue::Unsupported);
        gpu
    };
    let said = monitor([lacking(gpu(0)), lacking(gpu(1))]).explain(test("cuda"), fine(), vec![]);
    assert_eq!(
        (keys(&said), said.outcome()),
        (
            vec![("GPU-UNCOUNTED", Severity::Info, "machine")],
            Outcome::Pass
        )
    );
    assert!(
        said.findings[0].message.ends_with(": GPU 0, GPU 1"),
        "{said:?}"
    );
    let mut broken = gpu(1);
    broken.counted.insert(
        Counter::AggregateCorrected,
        CounterValue::Unread("why".into()),
    );
    let said = monitor([gpu(0), broken]).explain(test("cuda"), fine(), vec![]);
    assert_eq!(said.outcome(), Outcome::Warn);
    let mut blind = quiet();
    blind.add_snapshot(&GpuSnapshot {
        quiet: false,
        gpus: Err("no answer".into()),
    });
    assert_eq!(
        blind.explain(test("p2p-order"), fine(), vec![]).outcome(),
        Outcome::Warn
    );
}

fn asks(mut gpu: GpuStatus, recovery: CounterValue) -> GpuStatus {
    gpu.recovery = recovery;
    gpu
}

#[test]
fn a_gpu_that_the_driver_wants_to_be_recovered_fails_the_test_in_which_that_began_once() {
    let mut monitor = quiet();
    assert_eq!(monitor.explain(test("cuda"), fine(), vec![]), fine());
    let reset = || snapshot([gpu(0), asks(gpu(1), CounterValue::At(1))]);
    monitor.add_snapshot(&reset());
    let said = monitor.explain(test("p2p-order"), fine(), vec![]);
    assert_eq!(
        keys(&said),
        [("GPU-NEEDS-RECOVERY", Severity::Fail, "GPU 1")]
    );
    let finding = &said.findings[0];
    assert_eq!(
        (finding.recovery, &finding.measured),
        (Some(Recovery::ResetGpu), &"reset-gpu".into())
    );
    assert!(
        finding
            .message
            .ends_with("the driver says that the GPU must be reset"),
        "{finding:?}"
    );
    assert_eq!(finding.reason, Some(Reason::DriverAsks(Recovery::ResetGpu)));
    monitor.add_snapshot(&reset());
    assert_eq!(monitor.explain(test("p2p-reach"), fine(), vec![]), fine());
    monitor.add_snapshot(&snapshot([gpu(0), asks(gpu(1), CounterValue::At(2))]));
    let said = monitor.explain(test("p2p-latency"), fine(), vec![]);
    assert_eq!(said.findings[0].recovery, Some(Recovery::RebootNode));
}

#[test]
fn an_action_that_is_not_known_fails_without_a_word_for_programs() {
    let said =
        monitor([gpu(0), asks(gpu(1), CounterValue::At(6))]).explain(test("cuda"), fine(), vec![]);
    assert_eq!(
        keys(&said),
        [("GPU-NEEDS-RECOVERY", Severity::Fail, "GPU 1")]
    );
    assert_eq!(
        (said.findings[0].recovery, &said.findings[0].measured),
        (None, &"6".into())
    );
    assert_eq!(said.findings[0].reason, None);
}

#[test]
fn a_driver_without_the_field_is_information_and_one_that_fails_to_read_it_warns() {
    let old = monitor([asks(gpu(0), CounterValue::Unsupported), gpu(1)]).explain(
        test("cuda"),
        fine(),
        vec![],
    );
    assert_eq!(
        keys(&old),
        [("GPU-NEEDS-RECOVERY", Severity::Info, "machine")]
    );
    assert!(
        old.outcome() == Outcome::Pass && old.findings[0].message.ends_with(": GPU 0"),
        "{old:?}"
    );
    let unread = asks(gpu(1), CounterValue::Unread("why".into()));
    assert_eq!(
        monitor([gpu(0), unread])
            .explain(test("cuda"), fine(), vec![])
            .outcome(),
        Outcome::Warn
    );
}
