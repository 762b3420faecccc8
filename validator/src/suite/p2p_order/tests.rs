//! Games and counters that go wrong, and what is said of them.

use super::judge::judge;
use super::*;
use crate::outcome::Outcome;

const PAIR: Pair = Pair { from: 0, to: 1 };

fn side(done: u64) -> Round {
    Round { wrong: 0, first_bad: None, done, timed_out: done < ROUNDS, cycles: 1 }
}

fn played(one: Round, two: Round) -> Told {
    Told { played: vec![Played { pair: PAIR, sides: [one, two], hop_ns: 702.4 }], ..Told::default() }
}

fn said(told: &Told) -> Judgement {
    judge(2, ROUNDS, told)
}

#[test]
fn a_game_played_to_its_end_passes_and_shows_its_hops() {
    let mut told = played(side(ROUNDS), side(ROUNDS));
    let judgement = said(&told);
    assert_eq!(judgement.outcome(), Outcome::Pass);
    assert_eq!(
        judgement.summary,
        "1 pair: 100000 flags each way follow their data, 702 to 702 ns a hop; atomics are not claimed"
    );
    assert_eq!(judgement.matrices[0].values, [[None, Some(702.0)], [Some(702.0), None]]);
    told.counted = vec![Counted { pair: PAIR, how: Adding::Add, counted: 9, expected: 9 }];
    assert!(said(&told).summary.ends_with("atomics lose nothing"));
}

#[test]
fn words_behind_their_flag_name_the_direction_that_is_to_blame() {
    let bad = Round { wrong: 3, first_bad: Some(77), ..side(ROUNDS) };
    let judgement = said(&played(bad, side(ROUNDS)));
    let finding = &judgement.findings[0];
    assert!(judgement.outcome() == Outcome::Fail && finding.is(Code::P2pOrder));
    assert!(finding.message.starts_with("GPU 1 -> 0: flags arrive before"), "{}", finding.message);
    assert!(finding.evidence[0].contains("saw 3 of 3200000 words late, the first in round 77"));
    assert!(said(&played(side(ROUNDS), bad)).summary.starts_with("GPU 0 -> 1: "));
}

#[test]
fn a_flag_that_does_not_arrive_names_the_direction_and_leaves_no_figure() {
    for (one, two, words) in [
        (side(0), side(0), "GPU 0 -> 1: no flag arrives"),
        (side(0), side(1), "GPU 1 -> 0: a flag does not arrive"),
        (side(41), side(41), "GPU 0 -> 1: a flag does not arrive"),
        (side(41), side(42), "GPU 1 -> 0: a flag does not arrive"),
    ] {
        let judgement = said(&played(one, two));
        assert!(judgement.findings[0].is(Code::P2pHang) && judgement.outcome() == Outcome::Fail);
        assert!(judgement.summary.starts_with(words), "{}", judgement.summary);
        assert_eq!(judgement.matrices[0].values[0][1], None);
    }
}

#[test]
fn a_kernel_that_never_ran_is_an_error_and_no_pass() {
    let none = Round { timed_out: false, ..side(0) };
    assert_eq!(said(&played(none, none)).outcome(), Outcome::Error);
}

#[test]
fn lost_additions_fail_with_both_numbers() {
    let mut told = played(side(ROUNDS), side(ROUNDS));
    told.counted = vec![Counted { pair: PAIR, how: Adding::CompareAndSwap, counted: 7, expected: 9 }];
    let judgement = said(&told);
    assert!(judgement.outcome() == Outcome::Fail && judgement.findings[0].is(Code::P2pAtomics));
    assert!(judgement.findings[0].evidence[0].contains("came to 7, expected 9"));
}

#[test]
fn what_broke_off_is_no_pass_and_nothing_to_play_is_said() {
    let mut told = played(side(ROUNDS), side(ROUNDS));
    told.broken.push(Code::CudaError.finding(Severity::Error, "GPU 0 -> 1", "2"));
    assert_eq!(said(&told).outcome(), Outcome::Error);
    assert_eq!(said(&Told::default()).outcome(), Outcome::NotApplicable);
}
