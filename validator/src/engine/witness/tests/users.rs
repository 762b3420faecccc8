//! Programs of others on the GPUs.

use super::*;
use crate::gpu::Process;

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
        assert_eq!(told(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")], "{code:?}");
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
    assert_eq!(told(&said)[1], ("GPU-IN-USE", Severity::Warn, "GPU 1"));
}

#[test]
fn memory_of_other_programs_explains_failures_for_lack_of_memory() {
    let full = || errs(Code::CudaError, "cuMemAlloc says 2 CUDA_ERROR_OUT_OF_MEMORY");
    let said = witness([gpu(0), used(gpu(1))]).settle(test("p2p-reach"), full(), vec![]);
    assert_eq!(told(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")]);
    let after =
        full().with(vec![Code::CudaError.finding(Severity::Error, "GPU 0 -> 2", "bytes 8 of a buffer of 4")]);
    let said = witness([gpu(0), used(gpu(1))]).settle(test("p2p-reach"), after, vec![]);
    assert_eq!(
        (told(&said), said.findings[0].evidence.len()),
        (vec![("GPU-IN-USE", Severity::Error, "GPU 1")], 2)
    );
    let other = || errs(Code::CudaError, "cuMemAlloc says 1 CUDA_ERROR_INVALID_VALUE");
    assert_eq!(witness([gpu(0), used(gpu(1))]).settle(test("p2p-reach"), other(), vec![]), other());
    let mut nccl = Code::NcclError.finding(Severity::Fail, "with peer-to-peer", "unhandled cuda error");
    nccl = nccl.seen("NCCL WARN Cuda failure 2 'out of memory'");
    let said = witness([gpu(0), used(gpu(1))]).settle(test("nccl-allreduce"), Judgement::by(nccl), vec![]);
    assert_eq!(told(&said), [("GPU-IN-USE", Severity::Error, "GPU 1")]);
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
