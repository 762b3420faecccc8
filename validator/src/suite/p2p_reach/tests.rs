//! What people are told of pages that are missed and of memory that changed.

use super::super::plot::{Changed, Share};
use super::super::transfer::{Engine, Kind, Way};
use super::judge::{Amiss, Missed, Swept, judge};
use super::*;
use crate::gpu::Span;
use crate::pattern::Counts;

const PAIR: Pair = Pair { from: 0, to: 1 };

fn counts(wrong: u64) -> Counts {
    let first = (wrong > 0).then_some(128);
    Counts { looked: 11_000, wrong, zeros: 0, sentinels: wrong, first, last: first }
}

fn told(way: Way, amiss: Option<Amiss>) -> Told {
    let kind = Kind { engine: Engine::Sm, way, memory: Memory::Plain };
    let missed = amiss.map(|what| Missed { at: 256 << 20, what, found: vec![1], expected: vec![2] });
    let counts = counts(if missed.is_some() { 2 } else { 0 });
    let swept = vec![Swept { pair: PAIR, kind, pages: 11_000, page: 2 << 20, counts, missed }];
    let shares = vec![Share { gpu: 1, bytes: 22 << 30, total: 24 << 30 }];
    Told { shares, swept, pairs: vec![PAIR], at_once: 1, ..Told::default() }
}

#[test]
fn all_pages_reached_pass_and_memory_of_others_is_said() {
    let mut all = told(Way::Write, None);
    let said = judge(&all);
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(
        said.summary,
        "1 ordered pairs reach 91.6 % of 24.0 GiB: every 2 MiB page by itself (11000), copies up to 0.00 GiB, \
         and nothing else changes"
    );
    let row = &said.tables[0]["rows"][0];
    assert_eq!(
        (&row[0], &row[5], &row[7]),
        (&"a tag in every 2 MiB page, 1 peers at once".into(), &11_000.into(), &"0.03 %".into())
    );
    all.shares[0].bytes = 10 << 30;
    assert!(judge(&all).summary.ends_with("others use GPU 1: 10.0 of 24.0 GiB gone over"));
}

#[test]
fn the_first_page_that_is_missed_is_named() {
    let said = judge(&told(Way::Write, Some(Amiss::Stale)));
    assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::P2pWrongData));
    assert_eq!(
        said.summary,
        "GPU 0 -> 1: SM writes miss 2 of 11000 pages of 2 MiB, the first at 256 MiB: nothing arrives"
    );
    assert!(said.findings[0].evidence[0].ends_with("found 00000001, expected 00000002"));
}

#[test]
fn addresses_that_lead_to_the_same_memory_say_so() {
    let said = judge(&told(Way::Write, Some(Amiss::Alias(256 << 20))));
    assert!(said.summary.ends_with("what was written to 0x10000000 is there"));
    assert!(said.findings[0].cause.contains("two addresses lead to the same memory"));
    let said = judge(&told(Way::Read, Some(Amiss::Alias(0))));
    assert!(said.summary.ends_with("what lies at 0x0 is read"), "{}", said.summary);
    let said = judge(&told(Way::Write, Some(Amiss::Foreign(Pair::new(2, 3)))));
    assert!(said.summary.ends_with("what GPU 2 -> 3 wrote is there"), "{}", said.summary);
}

#[test]
fn what_changed_without_being_written_to_is_a_stray_and_unlooked_pages_are_an_error() {
    let mut stray = told(Way::Write, None);
    let span = Span { address: 0x7000_0000, bytes: 4096 };
    stray.strays = vec![Changed { gpu: 2, span, first: 0, seed: 1, counts: counts(2), found: vec![9] }];
    let said = judge(&stray);
    assert!(said.findings[0].is(Code::P2pStray) && said.outcome() == Outcome::Fail);
    let mut unlooked = told(Way::Write, None);
    unlooked.swept[0].counts.looked = 0;
    let said = judge(&unlooked);
    assert!(said.findings[0].is(Code::P2pChecker) && said.outcome() == Outcome::Error);
}

#[test]
fn nothing_tried_is_no_pass() {
    assert_eq!(judge(&Told::default()).outcome(), Outcome::NotApplicable);
    let mut broken = Told::default();
    broken.broken.push(Code::CudaError.finding(Severity::Error, "GPU 0", "2"));
    assert_eq!(judge(&broken).outcome(), Outcome::Error);
}
