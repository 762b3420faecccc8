//! Findings about transfers between processes.

use super::judge::judge;
use super::*;
use crate::schedule::Pair;
use crate::suite::shared::transfer::{
    Circumstance, Direction, Engine, FaultKind, Memory, Traces, Transfer, TransferKind,
};
use gpu::pattern::{Counts, DataFault};
use machine::GpuId;
use outcome::Outcome;

const PAIR: Pair = Pair::of(0, 1);

fn results() -> Results {
    Results {
        tried: vec![(PAIR, ShareMethod::Ipc), (PAIR, ShareMethod::Descriptor)],
        ..Results::default()
    }
}

fn fault() -> Fault {
    let kind = TransferKind {
        engine: Engine::Copy,
        direction: Direction::Write,
        memory: Memory::Plain,
    };
    let counts = Counts {
        looked: 1024,
        wrong: 1024,
        zeros: 1024,
        ones: 0,
        sentinels: 0,
        first: Some(0),
        last: Some(1023),
    };
    let traces = Traces {
        counts,
        address: 0x7000,
        first: 0,
        seed: 1,
        found: vec![0],
        expected: None,
    };
    let transfer = Transfer {
        pair: PAIR,
        kind,
        bytes: 4096,
        shift: (0, 0),
    };
    Fault {
        transfer,
        what: FaultKind::Data(DataFault::Zeros),
        traces,
        times: None,
        circumstance: Circumstance::Alone,
    }
}

#[test]
fn data_that_arrives_by_both_mechanisms_passes() {
    let said = judge(&results());
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(
        said.summary,
        "data arrives between two processes: 1 ordered pairs by CUDA IPC, 1 by descriptor"
    );
}

#[test]
fn wrong_data_names_the_mechanism() {
    let results = Results {
        faults: vec![(ShareMethod::Ipc, fault())],
        ..results()
    };
    let said = judge(&results);
    assert!(said.outcome() == Outcome::Fail && said.findings.len() == 1);
    assert_eq!(
        said.summary,
        "GPU 0 -> 1: between processes, by CUDA IPC: copy engine write of 4 KiB arrives as zeros"
    );
}

#[test]
fn an_unsupported_mechanism_warns_and_is_not_a_crash() {
    let trouble = Trouble {
        text: "cuIpcGetMemHandle returned 801".into(),
        code: Some(801),
        hang: false,
        sticky: false,
    };
    let Stop::Unsupported(why) = stop(GpuId::new(0), &trouble) else {
        panic!("801 is not a fault")
    };
    let mut results = Results {
        unsupported: vec![(ShareMethod::Ipc, why)],
        ..results()
    };
    let said = judge(&results);
    assert_eq!(said.outcome(), Outcome::Warn);
    assert!(
        said.summary
            .starts_with("CUDA IPC cannot be used between processes on this machine"),
        "{}",
        said.summary
    );
    results.tried.clear();
    assert_eq!(
        judge(&results).outcome(),
        Outcome::Warn,
        "nothing tried is not a pass"
    );
    results.unsupported = vec![(
        ShareMethod::Descriptor,
        "cuMemGetAllocationGranularity returned 801".into(),
    )];
    assert_eq!(judge(&results).outcome(), Outcome::Warn);
    results.tried = vec![(PAIR, ShareMethod::Ipc)];
    let said = judge(&results);
    assert_eq!(
        (said.outcome(), said.findings.len()),
        (Outcome::Pass, 1),
        "programs have CUDA IPC"
    );
    assert!(
        said.summary
            .ends_with("1 ordered pairs by CUDA IPC, 0 by descriptor"),
        "{}",
        said.summary
    );
}

#[test]
fn a_hang_or_a_lost_context_of_the_other_process_ends_all_pairs() {
    let trouble = Trouble {
        text: "x".into(),
        code: None,
        hang: true,
        sticky: false,
    };
    assert!(matches!(stop(GpuId::new(0), &trouble), Stop::All(f) if f.is(Code::P2pHang)));
    let trouble = Trouble {
        text: "x".into(),
        code: Some(700),
        hang: false,
        sticky: true,
    };
    assert!(matches!(stop(GpuId::new(0), &trouble), Stop::All(f) if f.is(Code::CudaSticky)));
    let trouble = Trouble {
        text: "x".into(),
        code: Some(1),
        hang: false,
        sticky: false,
    };
    assert!(matches!(stop(GpuId::new(0), &trouble), Stop::Pair(f) if f.is(Code::CudaError)));
}

#[test]
fn an_aborted_test_is_not_a_pass() {
    let finding = Code::TestCrashed.finding(Severity::Error, Pair::of(0, 1), "died");
    let results = Results {
        broken: vec![finding],
        ..Results::default()
    };
    assert_eq!(judge(&results).outcome(), Outcome::Error);
    assert_eq!(judge(&Results::default()).outcome(), Outcome::NotApplicable);
}

#[test]
fn messages_survive_serialization() {
    let ask = Ask::Open {
        gpu: 3.into(),
        ipc: Some(vec![7; 64]),
        bytes: 1,
    };
    assert_eq!(
        serde_json::from_slice::<Ask>(&serde_json::to_vec(&ask).unwrap()).unwrap(),
        ask
    );
    let counts = fault().traces.counts;
    let answer = Answer::Read(counts, vec![u32::MAX; 8]);
    assert_eq!(
        serde_json::from_slice::<Answer>(&serde_json::to_vec(&answer).unwrap()).unwrap(),
        answer
    );
}
