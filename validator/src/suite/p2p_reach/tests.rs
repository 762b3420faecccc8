//! What people are told of places that are missed.

use super::judge::judge;
use super::sweep::{Amiss, Missed};
use super::*;

const PAIR: Pair = Pair { from: 0, to: 1 };

fn missed(at: u64, what: Amiss) -> Missed {
    Missed { at, words: 9, first: at, what, found: vec![1], expected: vec![2] }
}

fn told(way: Way, missed: Vec<Missed>) -> Told {
    let kind = Kind { engine: Engine::Sm, way, memory: Memory::Plain };
    let swept = vec![Swept { pair: PAIR, kind, places: 17, missed }];
    let reached = vec![Reached { owner: 1, bytes: 22 << 30, total: 24 << 30 }];
    Told { reached, swept, broken: vec![] }
}

#[test]
fn all_places_reached_pass_and_memory_of_others_is_said() {
    let mut all = told(Way::Write, vec![]);
    let said = judge(&all);
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(said.summary, "1 ordered pairs: 17 places across 22.0 GiB are reached");
    all.reached[0].bytes = 10 << 30;
    let expected = "17 places across 10.0 GiB are reached; others use GPU 1: 10.0 of 24.0 GiB gone over";
    assert!(judge(&all).summary.ends_with(expected), "{}", judge(&all).summary);
}

#[test]
fn the_first_place_that_is_missed_is_named() {
    let said = judge(&told(Way::Write, vec![missed(256 << 20, Amiss::Stale), missed(1 << 30, Amiss::Zeros)]));
    assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::P2pWrongData));
    assert_eq!(
        said.summary,
        "GPU 0 -> 1: SM writes miss 2 of 17 places, the first at 256 MiB: nothing arrives"
    );
    assert_eq!(
        said.findings[0].evidence[0],
        "GPU 0 -> 1, SM write at 256 MiB (9 wrong words, the first at 0x10000000): nothing arrives: found 00000001, expected 00000002"
    );
}

#[test]
fn offsets_that_lead_to_the_same_memory_say_so() {
    let said = judge(&told(Way::Write, vec![missed(0, Amiss::Alias(256 << 20))]));
    assert!(said.summary.ends_with("the first at 0 B: what was written to 0x10000000 is there"));
    assert!(said.findings[0].cause.contains("two offsets lead to the same memory"));
    let said = judge(&told(Way::Read, vec![missed(256 << 20, Amiss::Alias(0))]));
    assert!(said.summary.ends_with("what lies at 0x0 is read"), "{}", said.summary);
}

#[test]
fn bands_beside_a_place_and_checks_that_did_not_run_have_their_own_codes() {
    let said = judge(&told(Way::Write, vec![missed(0, Amiss::Beside)]));
    assert!(said.findings[0].is(Code::P2pStray) && said.outcome() == Outcome::Fail);
    let said = judge(&told(Way::Write, vec![missed(0, Amiss::Unchecked)]));
    assert!(said.findings[0].is(Code::P2pChecker) && said.outcome() == Outcome::Error);
}

#[test]
fn nothing_tried_is_no_pass() {
    assert_eq!(judge(&Told::default()).outcome(), Outcome::NotApplicable);
    let mut broken = Told::default();
    broken.broken.push(Code::CudaError.finding(Severity::Error, "GPU 0", "2"));
    assert_eq!(judge(&broken).outcome(), Outcome::Error);
}
