//! The findings for each kind of fault, and results that must not pass.

use super::judge::judge;
use super::results::{AccessState, PairResult};
use super::*;
use crate::schedule::Pair;
use crate::suite::shared::transfer::{Circumstance, Fault, FaultKind, Traces, findings};
use gpu::pattern::{Counts, DataFault, word};
use outcome::Outcome;
use outcome::finding::Reason;

const PAIR: Pair = Pair::of(0, 1);

fn transfer(engine: Engine, direction: Direction, bytes: u64) -> Transfer {
    Transfer {
        pair: PAIR,
        kind: TransferKind {
            engine,
            direction,
            memory: Memory::Plain,
        },
        bytes,
        shift: (0, 0),
    }
}

fn fault(transfer: Transfer, what: FaultKind) -> Fault {
    let words = transfer.bytes / 4;
    let counts = Counts {
        looked: words,
        wrong: words,
        zeros: words,
        ones: 0,
        sentinels: 0,
        first: Some(0),
        last: Some(words - 1),
    };
    let traces = Traces {
        counts,
        address: 0x7f00_0000_0000,
        first: 10,
        seed: 7,
        found: vec![0; 8],
        expected: None,
    };
    Fault {
        transfer,
        what,
        traces,
        times: Some((5, 5)),
        circumstance: Circumstance::Alone,
    }
}

fn tried(pair: Pair, access: AccessState, faults: Vec<Fault>) -> PairResult {
    PairResult {
        pair,
        access,
        faults,
        ended: None,
    }
}

fn both(access: &AccessState, faults: Vec<Fault>) -> Judgement {
    let back = Pair::of(1, 0);
    judge(
        &LevelPlan::of(Level::Standard),
        2,
        &[
            tried(PAIR, access.clone(), faults),
            tried(back, access.clone(), vec![]),
        ],
        vec![],
        &OverallResults::default(),
    )
}

#[test]
fn sizes_are_shown_in_the_usual_units() {
    let found = [4, 4096, 65_540, (2 << 20) - 4, 64 << 20, 3 << 30]
        .map(crate::suite::shared::transfer::size);
    assert_eq!(
        found,
        ["4 B", "4 KiB", "65540 B", "2 MiB - 4 B", "64 MiB", "3 GiB"]
    );
}

#[test]
fn levels_add_to_each_other() {
    let [quick, standard, full] = [Level::Quick, Level::Standard, Level::Full].map(LevelPlan::of);
    assert_eq!(
        (quick.transfers(), standard.transfers(), full.transfers()),
        (32, 40, 216)
    );
    for (less, more) in [(&quick, &standard), (&standard, &full)] {
        assert!(less.sizes.iter().all(|s| more.sizes.contains(s)));
    }
    for level in [&quick, &standard, &full] {
        assert_eq!(
            level.memories,
            [Memory::Plain, Memory::Small, Memory::Mapped]
        );
    }
    assert!(full.sizes.is_sorted() && full.sizes.iter().all(|s| s % 4 == 0));
}

#[test]
fn little_free_memory_leaves_out_large_sizes() {
    let plan = LevelPlan::of(Level::Standard).within(100 << 20);
    assert_eq!(plan.sizes, [4, 4096, (2 << 20) - 4]);
    let asked = LevelPlan::of(Level::Standard);
    assert!(
        plan.left_out(&asked)
            .unwrap()
            .message
            .ends_with("transfers of up to 64 MiB do not fit")
    );
    assert_eq!(asked.left_out(&asked), None);
    assert_eq!(LevelPlan::of(Level::Standard).within(0).sizes, [4, 4096]);
}

#[test]
fn source_and_target_are_apart_with_guards_around_them() {
    let plan = LevelPlan::of(Level::Full);
    let (layout, most) = (plan.layout(Memory::Plain), 64 << 20);
    let shift = plan.shifts.iter().map(|(a, b)| a.max(b)).max().unwrap();
    assert!(
        plan.layout(Memory::Small).bytes() < 1 << 20,
        "the driver takes it from a larger block"
    );
    assert!(layout.source() >= level_plan::GUARD);
    assert!(layout.source() + most + shift + level_plan::GUARD <= layout.target());
    assert!(layout.target() + most + shift + level_plan::GUARD <= layout.bytes());
}

#[test]
fn pairs_whose_data_all_arrives_pass_and_report_what_was_tried() {
    let said = both(&AccessState::On, vec![]);
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(
        said.summary,
        "2 of 2 ordered pairs: all 44 transfers of 4 B to 64 MiB arrive, and nothing else changes; faults are below 14 % per pair (95 %)"
    );
}

#[test]
fn a_pair_has_one_finding_for_each_direction_with_all_that_failed() {
    let faults = vec![
        fault(
            transfer(Engine::Copy, Direction::Write, 4096),
            FaultKind::Data(DataFault::Zeros),
        ),
        fault(
            transfer(Engine::Sm, Direction::Write, 4),
            FaultKind::Data(DataFault::Stale),
        ),
        fault(
            transfer(Engine::Copy, Direction::Read, 4),
            FaultKind::Data(DataFault::Ones),
        ),
    ];
    let said = both(&AccessState::On, faults);
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::Fail, 2));
    let first = &said.findings[0];
    assert!(first.is(Code::P2pWrongData));
    assert_eq!(
        first.message,
        "GPU 0 -> 1: copy engine write of 4 KiB arrives as zeros"
    );
    let expected: Vec<_> = (10..18).map(|i| format!("{:08x}", word(7, i))).collect();
    let line = format!(
        "GPU 0 -> 1: copy engine write of 4 KiB arrives as zeros; 1024 of 1024 words wrong (1024 zero, 0 unchanged), \
         first at byte 0 (0x7f0000000000): found {}, expected {}; 5 of 5 times",
        ["00000000"; 8].join(" "),
        expected.join(" ")
    );
    assert_eq!(first.evidence[0], line);
    assert!(first.evidence[1].contains("SM write of 4 B does not arrive"));
    assert!(
        said.findings[1]
            .message
            .contains("read of 4 B from the peer arrives as all ones")
    );
    assert_eq!(first.reason, Some(Reason::WritesDropped));
    assert_eq!(said.findings[1].reason, Some(Reason::Unanswered));
    let mut read = fault(
        transfer(Engine::Copy, Direction::Read, 64),
        FaultKind::Data(DataFault::Ones),
    );
    (read.traces.counts.zeros, read.traces.counts.ones) = (0, 16);
    let line = &both(&AccessState::On, vec![read]).findings[0].evidence[0];
    assert!(
        line.contains("(0 zero, 16 all ones, 0 unchanged)"),
        "{line}"
    );
}

#[test]
fn each_kind_of_fault_has_its_code_and_its_words() {
    use DataFault::{
        Flip, From, Garbage, Holes, Late, Mirror, Offset, OldRound, OtherGpu, Partial,
    };
    let write = transfer(Engine::Sm, Direction::Write, 4096);
    for (what, code, words) in [
        (
            FaultKind::Data(Mirror),
            Code::P2pWrongData,
            "although the writer reads it back",
        ),
        (
            FaultKind::Data(Late),
            Code::P2pWrongData,
            "only after the transfer was reported as complete",
        ),
        (
            FaultKind::Data(Offset(-4096)),
            Code::P2pWrongData,
            "arrives 4096 bytes before its place",
        ),
        (
            FaultKind::Data(Offset(64)),
            Code::P2pWrongData,
            "arrives 64 bytes after its place",
        ),
        (
            FaultKind::Data(From(4096)),
            Code::P2pWrongData,
            "delivers the data 4096 bytes after its source",
        ),
        (
            FaultKind::Data(Partial { from: 8, to: 16 }),
            Code::P2pWrongData,
            "bytes 8 to 16 are missing",
        ),
        (FaultKind::Data(Holes), Code::P2pWrongData, "with holes"),
        (
            FaultKind::Data(OldRound),
            Code::P2pWrongData,
            "data of an earlier transfer",
        ),
        (FaultKind::Data(Flip), Code::P2pWrongData, "flipped bits"),
        (
            FaultKind::Data(Garbage),
            Code::P2pWrongData,
            "no known pattern",
        ),
        (
            FaultKind::Data(OtherGpu(3.into())),
            Code::P2pStray,
            "arrives in GPU 3 instead",
        ),
        (
            FaultKind::Beside,
            Code::P2pStray,
            "changes memory beside its target",
        ),
        (FaultKind::Source, Code::P2pStray, "changes its source"),
        (
            FaultKind::Stray {
                gpu: 2.into(),
                sure: false,
            },
            Code::P2pStray,
            "writes change memory of GPU 2 that is not their target",
        ),
        (
            FaultKind::Stray {
                gpu: 2.into(),
                sure: true,
            },
            Code::P2pStray,
            "of 4 KiB changes memory of GPU 2 that is not",
        ),
        (
            FaultKind::Checker("x"),
            Code::P2pChecker,
            "SM write of 4 KiB: x",
        ),
    ] {
        let found = findings(PAIR, &[fault(write, what)]);
        assert!(found.len() == 1 && found[0].1.is(code), "{what:?}");
        assert!(found[0].1.message.contains(words), "{}", found[0].1.message);
    }
}

#[test]
fn many_pairs_with_one_fault_are_one_finding_with_limited_evidence() {
    let pairs: Vec<_> = Pair::all(16)
        .filter(|p| p.from != p.to)
        .map(|pair| {
            let transfer = Transfer {
                pair,
                ..transfer(Engine::Copy, Direction::Write, 4)
            };
            tried(
                pair,
                AccessState::On,
                vec![fault(transfer, FaultKind::Data(DataFault::Stale))],
            )
        })
        .collect();
    let said = judge(
        &LevelPlan::of(Level::Quick),
        240,
        &pairs,
        vec![],
        &OverallResults::default(),
    );
    assert_eq!(said.findings.len(), 1);
    assert!(
        said.summary.starts_with("240 pairs (GPU 0 -> 1, "),
        "{}",
        said.summary
    );
    assert_eq!(said.findings[0].evidence.len(), 25);
    assert_eq!(said.findings[0].evidence[24], "and 216 more");
}

#[test]
fn a_refusal_is_reported_and_left_to_capability_but_no_pair_tried_is_not_a_pass() {
    let refused = AccessState::Refused("217".into());
    let back = Pair::of(1, 0);
    let one = [
        tried(PAIR, AccessState::On, vec![]),
        tried(back, refused.clone(), vec![]),
    ];
    let said = judge(
        &LevelPlan::of(Level::Quick),
        2,
        &one,
        vec![],
        &OverallResults::default(),
    );
    assert_eq!(said.outcome(), Outcome::Pass);
    assert!(
        said.findings[0]
            .message
            .contains("GPU 1 -> 0: not tried: peer access is refused: 217")
    );
    assert!(said.summary.starts_with("1 of 2 ordered pairs"));
    assert_eq!(both(&refused, vec![]).outcome(), Outcome::Error);
}

#[test]
fn without_any_peer_access_nothing_applies_unless_even_staged_copies_are_wrong() {
    assert_eq!(
        both(&AccessState::No, vec![]).outcome(),
        Outcome::NotApplicable
    );
    let staged = fault(
        transfer(Engine::Staged, Direction::Write, 65_540),
        FaultKind::Data(DataFault::Garbage),
    );
    let said = both(&AccessState::No, vec![staged]);
    assert_eq!(said.outcome(), Outcome::Fail);
    assert_eq!(said.findings[0].reason, Some(Reason::HostPathBroken));
}

#[test]
fn a_hang_fails_and_pairs_not_reached_are_not_a_pass() {
    let mut hung = tried(PAIR, AccessState::On, vec![]);
    hung.ended = Some(Box::new(Code::P2pHang.finding(
        Severity::Fail,
        Pair::of(0, 1),
        "no end within 4.0 s",
    )));
    let said = judge(
        &LevelPlan::of(Level::Quick),
        2,
        &[hung],
        vec![],
        &OverallResults::default(),
    );
    assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::P2pHang));
    let said = judge(
        &LevelPlan::of(Level::Quick),
        2,
        &[tried(PAIR, AccessState::On, vec![])],
        vec![],
        &OverallResults::default(),
    );
    assert_eq!(said.outcome(), Outcome::Error);
}

#[test]
fn every_level_lets_the_kernels_move_16_bytes_at_a_time() {
    for level in [Level::Quick, Level::Standard, Level::Full] {
        let layout = LevelPlan::of(level).layout(Memory::Plain);
        assert!(
            [layout.source(), layout.target(), layout.bytes()]
                .iter()
                .all(|at| at.is_multiple_of(4096)),
            "{level}"
        );
    }
}
