//! Each way in which witnesses can agree or lie.

use super::judge::judge;
use super::*;
use crate::gpu::Status;
use crate::outcome::Outcome;

fn told(status: Status) -> P2pTold {
    let said = || Ok(status);
    P2pTold { read: said(), write: said(), atomics: said(), prop: said() }
}

fn said(can: bool, nvml: Status, enabling: Enabling) -> Said {
    Said { pair: Pair { from: 0, to: 1 }, can, supported: can, atomics: false, nvml: told(nvml), enabling }
}

fn refused() -> Enabling {
    Enabling::Refused("cuCtxEnablePeerAccess says 217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED".into())
}

#[track_caller]
fn finds(said: Said, code: Code, word: &str) {
    let judgement = judge(2, &[said]);
    assert_eq!(judgement.outcome(), Outcome::Fail);
    assert!(judgement.findings[0].is(code), "{judgement:?}");
    assert!(judgement.summary.contains(word), "{}", judgement.summary);
}

#[test]
fn three_witnesses_that_say_yes_pass() {
    let judgement = judge(2, &[said(true, Status::Ok, Enabling::Works)]);
    assert_eq!(judgement.outcome(), Outcome::Pass);
    assert_eq!(judgement.matrices[0].values, [[Some(1.0), Some(1.0)], [Some(0.0), Some(1.0)]]);
}

#[test]
fn disagreement_about_atomics_is_told_and_passes() {
    let mut one = said(true, Status::Ok, Enabling::Works);
    let judgement = judge(2, &[one.clone()]);
    assert_eq!((judgement.outcome(), judgement.findings.len()), (Outcome::Pass, 1));
    one.atomics = true;
    assert_eq!(judge(2, &[one]).findings, []);
}

#[test]
fn three_that_say_no_name_the_drivers_reason() {
    finds(said(false, Status::Chipset, refused()), Code::P2pUnsupported, "CNS");
    let judgement = judge(2, &[said(false, Status::Chipset, refused())]);
    assert!(judgement.findings[0].cause.contains("stock driver"));
}

#[test]
fn a_witness_that_stands_alone_is_named() {
    finds(said(true, Status::Chipset, Enabling::Works), Code::P2pWitnesses, "NCCL obeys NVML");
    finds(said(false, Status::Ok, refused()), Code::P2pWitnesses, "CUDA says that it does not");
    finds(said(true, Status::Chipset, refused()), Code::P2pWitnesses, "enabling it fails");
    finds(said(false, Status::Chipset, Enabling::Works), Code::P2pWitnesses, "can be enabled");
    let mut itself = said(true, Status::Ok, Enabling::Works);
    itself.supported = false;
    finds(itself, Code::P2pWitnesses, "cuDeviceGetP2PAttribute says no");
}

#[test]
fn access_that_is_promised_and_refused_fails_with_the_drivers_words() {
    finds(said(true, Status::Ok, refused()), Code::P2pRefused, "217");
}

#[test]
fn a_witness_that_does_not_answer_is_an_error() {
    let mut silent = said(true, Status::Ok, Enabling::Works);
    silent.nvml.write = Err("the GPU is lost".into());
    let judgement = judge(2, &[silent]);
    assert_eq!(judgement.outcome(), Outcome::Error);
    assert!(judgement.summary.contains("the GPU is lost"));
}
