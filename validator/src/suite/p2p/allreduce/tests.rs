//! Findings about the frameworks' all-reduces.

use super::judge::*;
use super::rank::Ran;
use crate::gpu::{Late, ROUNDS, Reduced};
use crate::outcome::Judgement;
use crate::outcome::Outcome;
use crate::outcome::finding::Code;

const BYTES: u64 = 4096;

fn right(looked: u64) -> Reduced {
    Reduced { looked, wrong: 0, zeros: 0, stale: 0, ones: 0, peers: 0, sample: None, first: 0 }
}

fn ran(found: [Reduced; 2]) -> Ran {
    let rounds = ROUNDS.iter().sum::<u32>();
    let times = vec![(0..rounds).map(|n| if n < ROUNDS[0] { 6_100 } else { 8_000 }).collect()];
    Ran { reduced: found, late: None, times }
}

fn looked() -> [Reduced; 2] {
    ROUNDS.map(|rounds| right(u64::from(rounds) * BYTES / 4))
}

/// Ranks of GPUs 4, 5 and so on.
fn of(ranks: Vec<Ran>) -> Reduction {
    let mut it = Reduction { gpus: (4..4 + ranks.len()).collect(), bytes: BYTES, ..Reduction::default() };
    it.take(1, ranks);
    it
}

fn said(reductions: Vec<Reduction>) -> Judgement {
    judge(&Results { reductions, broken: vec![] })
}

fn bad(kind: usize, wrong: Reduced) -> Ran {
    let mut both = looked();
    both[kind] = Reduced { looked: both[kind].looked, ..wrong };
    ran(both)
}

#[test]
fn right_sums_pass_and_show_the_time_of_the_rank_that_came_last() {
    let mut slow = ran(looked());
    slow.times[0].iter_mut().for_each(|ns| *ns += 90_000);
    let said = said(vec![of(vec![slow, ran(looked())])]);
    assert_eq!(said.outcome(), Outcome::Pass);
    assert_eq!(
        said.summary,
        "2 GPUs: 20 one-shot and 20 two-shot all-reduces in a graph are right; 4 KiB in 6.1 and 8.0 us"
    );
    assert_eq!(said.tables[0]["rows"][1], serde_json::json!(["4,5", BYTES, "two-shot", 20, 8.0]));
}

#[test]
fn a_stale_input_names_both_gpus_the_kind_and_the_words() {
    let wrong =
        Reduced { wrong: 9, stale: 9, peers: 1 << 2, first: 7, sample: Some([1, 7, 2, 3]), ..right(0) };
    let said = said(vec![of(vec![ran(looked()), bad(0, wrong), ran(looked())])]);
    let finding = &said.findings[0];
    assert!(said.outcome() == Outcome::Fail && finding.is(Code::P2pWrongData), "{said:?}");
    assert_eq!(
        said.summary,
        "GPU 6 -> 5: one-shot all-reduce of 4 KiB by kernels reads the data of the round before: 9 of 20480 words are wrong"
    );
    assert!(finding.evidence[0].ends_with("first word 7; in round 1 word 7 is 00000002, expected 00000003"));
    assert!(finding.remedy.contains("--disable-custom-all-reduce"));
}

#[test]
fn a_two_shot_sum_that_is_wrong_everywhere_was_made_wrong_and_else_it_was_fetched_wrong() {
    // 256 vectors, 128 for each rank: word 600 is summed up by rank 1.
    let made = Reduced { wrong: 5, zeros: 5, peers: 1, first: 600, ..right(0) };
    let said_of = |ranks| said(vec![of(ranks)]).summary;
    let line = said_of(vec![bad(1, made), bad(1, made)]);
    assert!(line.starts_with("GPU 4 -> 5: two-shot all-reduce of 4 KiB by kernels reads zeros"), "{line}");
    // Its own input is right where rank 0 sums up, so it is rank 1 that fetches this wrong.
    let both = Reduced { first: 0, ..made };
    let line = said_of(vec![bad(1, made), bad(1, both)]);
    assert!(line.starts_with("GPU 4 -> 5: two-shot all-reduce of 4 KiB by kernels reads zeros"), "{line}");
    let fetched = Reduced { wrong: 5, ones: 5, first: 600, ..right(0) };
    let line = said_of(vec![bad(1, fetched), ran(looked())]);
    assert!(line.starts_with("GPU 5 -> 4: two-shot all-reduce of 4 KiB by kernels reads all ones"), "{line}");
}

#[test]
fn the_flag_that_was_sent_and_did_not_come_is_blamed_and_not_those_that_were_never_sent() {
    let late = |step, peer| Ran { late: Some(Late { step, peer }), ..ran(looked().map(|_| right(0))) };
    // Rank 1 misses rank 0's flag; the others then wait for rank 1.
    let said = said(vec![of(vec![late(6, 1), late(4, 0), late(6, 1)])]);
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::Fail, 1));
    assert!(said.findings[0].is(Code::P2pHang));
    assert!(said.summary.starts_with("GPU 4 -> 5: in the all-reduce of 4 KiB"), "{}", said.summary);
    assert_eq!(said.findings[0].evidence[1], "GPU 5 gave up in round 1, step 2, waiting for GPU 4");
}

#[test]
fn what_was_not_checked_is_an_error() {
    let mut few = looked();
    few[1].looked -= 1;
    assert_eq!(said(vec![of(vec![ran(looked()), ran(few)])]).outcome(), Outcome::Error);
    let none = Reduction { gpus: vec![0, 1], bytes: BYTES, ..Reduction::default() };
    assert_eq!(said(vec![none]).outcome(), Outcome::Error);
    assert_eq!(judge(&Results::default()).outcome(), Outcome::Error);
}

#[test]
fn the_same_fault_at_several_sizes_is_one_finding() {
    let wrong = Reduced { wrong: 9, zeros: 9, peers: 1, first: 7, ..right(0) };
    let one = of(vec![ran(looked()), bad(0, wrong)]);
    let said = said(vec![one.clone(), one]);
    assert_eq!((said.findings.len(), said.findings[0].evidence.len()), (1, 2));
}
