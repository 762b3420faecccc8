//! What people are told of transfers between processes.

use super::judge::judge;
use super::*;
use crate::gpu::pattern::{Counts, Wrong};
use crate::outcome::Outcome;
use crate::suite::shared::transfer::{Cell, Engine, Kind, Memory, Traces, Way, What};

const PAIR: Pair = Pair { from: 0, to: 1 };

fn told() -> Told {
    Told { tried: vec![(PAIR, How::Ipc), (PAIR, How::Descriptor)], ..Told::default() }
}

fn fault() -> Fault {
    let kind = Kind { engine: Engine::Copy, way: Way::Write, memory: Memory::Plain };
    let counts =
        Counts { looked: 1024, wrong: 1024, zeros: 1024, sentinels: 0, first: Some(0), last: Some(1023) };
    let traces = Traces { counts, address: 0x7000, first: 0, seed: 1, found: vec![0], expected: None };
    let cell = Cell { pair: PAIR, kind, bytes: 4096, shift: (0, 0) };
    Fault { cell, what: What::Data(Wrong::Zeros), traces, times: None, amid: false }
}

#[test]
fn data_that_arrives_both_ways_passes() {
    let said = judge(&told());
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(
        said.summary,
        "data arrives between two processes: 1 ordered pairs by CUDA IPC, 1 by descriptor"
    );
}

#[test]
fn wrong_data_says_by_which_way_it_went() {
    let told = Told { faults: vec![(How::Ipc, fault())], ..told() };
    let said = judge(&told);
    assert!(said.outcome() == Outcome::Fail && said.findings.len() == 1);
    assert_eq!(
        said.summary,
        "GPU 0 -> 1: between processes, by CUDA IPC: copy engine write of 4 KiB arrives as zeros"
    );
}

#[test]
fn a_way_that_the_driver_does_not_offer_warns_and_is_no_crash() {
    let trouble =
        Trouble { text: "cuIpcGetMemHandle says 801".into(), code: Some(801), hang: false, sticky: false };
    let Stop::Unsupported(why) = stop("GPU 0", &trouble) else { panic!("801 is no fault") };
    let mut told = Told { unsupported: vec![(How::Ipc, why)], ..told() };
    let said = judge(&told);
    assert_eq!(said.outcome(), Outcome::Warn);
    assert!(said.summary.starts_with("CUDA IPC cannot be used between processes here"), "{}", said.summary);
    told.tried.clear();
    assert_eq!(judge(&told).outcome(), Outcome::Warn, "nothing tried is no pass");
    told.unsupported = vec![(How::Descriptor, "cuMemGetAllocationGranularity says 801".into())];
    assert_eq!(judge(&told).outcome(), Outcome::Warn);
    told.tried = vec![(PAIR, How::Ipc)];
    let said = judge(&told);
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 1), "programs have CUDA IPC");
    assert!(said.summary.ends_with("1 ordered pairs by CUDA IPC, 0 by descriptor"), "{}", said.summary);
}

#[test]
fn a_hang_or_a_broken_context_of_the_other_process_ends_it_all() {
    let trouble = Trouble { text: "x".into(), code: None, hang: true, sticky: false };
    assert!(matches!(stop("GPU 0", &trouble), Stop::All(f) if f.is(Code::P2pHang)));
    let trouble = Trouble { text: "x".into(), code: Some(700), hang: false, sticky: true };
    assert!(matches!(stop("GPU 0", &trouble), Stop::All(f) if f.is(Code::CudaSticky)));
    let trouble = Trouble { text: "x".into(), code: Some(1), hang: false, sticky: false };
    assert!(matches!(stop("GPU 0", &trouble), Stop::Pair(f) if f.is(Code::CudaError)));
}

#[test]
fn what_broke_off_is_no_pass() {
    let finding = Code::TestCrashed.finding(Severity::Error, "GPU 0 -> 1", "died");
    let told = Told { broken: vec![finding], ..Told::default() };
    assert_eq!(judge(&told).outcome(), Outcome::Error);
    assert_eq!(judge(&Told::default()).outcome(), Outcome::NotApplicable);
}

#[test]
fn what_is_said_survives_the_way_there() {
    let ask = Ask::Open { gpu: 3, ipc: Some(vec![7; 64]), bytes: 1 };
    assert_eq!(serde_json::from_slice::<Ask>(&serde_json::to_vec(&ask).unwrap()).unwrap(), ask);
    let counts = fault().traces.counts;
    let answer = Answer::Read(counts, vec![u32::MAX; 8]);
    assert_eq!(serde_json::from_slice::<Answer>(&serde_json::to_vec(&answer).unwrap()).unwrap(), answer);
}
