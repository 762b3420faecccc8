//! Lost GPUs, settings and Xids that explain a failure.

use super::*;

#[test]
fn a_lost_gpu_stays_a_failure_in_later_tests() {
    let mut witness = quiet();
    let lost = Standing { ordinal: Some(1), ..Standing::unknown(gpu(1).gpu, Presence::Lost) };
    witness.see(&look([gpu(0), lost.clone()]));
    let said = witness.settle(test("p2p-bandwidth"), errs(Code::CudaError, "999"), vec![]);
    assert_eq!(said.outcome(), Outcome::Fail);
    assert_eq!(told(&said)[1], ("GPU-GONE", Severity::Fail, "0000:02:00"));
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
            assert_eq!(told(&said), [(code, Severity::Error, "GPU 1")], "{id}");
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
