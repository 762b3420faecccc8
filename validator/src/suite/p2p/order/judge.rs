//! The judgement over the ping-pongs and counters. Pure.

use super::{Adding, Counted, Played, Results};
use crate::gpu::Round;
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::pair::{matrix, together};

/// Judges all pairs.
pub(super) fn judge(gpus: usize, rounds: u64, results: &Results) -> Judgement {
    let mut found: Vec<(Pair, Finding)> = results.played.iter().flat_map(|p| game(p, rounds)).collect();
    found.extend(results.counted.iter().filter_map(counter));
    let mut findings = together(found);
    findings.extend(results.broken.iter().cloned());
    if results.played.is_empty() && findings.iter().all(|f| f.severity == Severity::Info) {
        let why = "no two GPUs have access to each other's memory; see p2p-capability";
        return Judgement::not_applicable(why).with(findings);
    }
    let hop = |pair: Pair| {
        let same = |p: &&Played| p.pair == pair || p.pair == pair.back();
        results.played.iter().find(same).filter(|p| whole(p, rounds)).map(|p| p.hop_ns.round())
    };
    Judgement::summed_up(|| good(rounds, results), findings).showing(vec![matrix(
        "order.hop",
        "ns",
        gpus,
        hop,
    )])
}

fn good(rounds: u64, results: &Results) -> String {
    let hops = || results.played.iter().map(|p| p.hop_ns);
    let (least, most) = (hops().fold(f64::INFINITY, f64::min), hops().fold(0.0, f64::max));
    let counters = match (results.counted.is_empty(), results.unclaimed) {
        (true, _) => "atomics are not claimed".to_owned(),
        (false, 0) => "no atomic addition is lost".to_owned(),
        (false, n) => format!("no atomic addition is lost, atomics are not claimed for {n} ordered pairs"),
    };
    let pairs = match results.played.len() {
        1 => "1 pair".to_owned(),
        n => format!("{n} pairs"),
    };
    format!(
        "{pairs}: {rounds} flags each way arrive after their data, {least:.0} to {most:.0} ns per hop; {counters}"
    )
}

fn whole(played: &Played, rounds: u64) -> bool {
    played.sides.iter().all(|side| side.done == rounds && !side.timed_out)
}

/// The faults of one game: words that arrive after their flag in either direction, and why it stopped.
fn game(played: &Played, rounds: u64) -> Vec<(Pair, Finding)> {
    let there = played.pair;
    let [one, two] = &played.sides;
    let mut found: Vec<(Pair, Finding)> = [(there.back(), one), (there, two)]
        .into_iter()
        .filter_map(|(pair, side)| behind(pair, side))
        .collect();
    found.extend(stopped(there, one, two, rounds));
    found
}

/// Words that `pair.to` did not see although it saw their flag.
fn behind(pair: Pair, side: &Round) -> Option<(Pair, Finding)> {
    let first = side.first_bad?;
    let words = side.done.saturating_mul(32);
    let seen = format!(
        "{pair}: GPU {} saw {} of {words} words late, the first in round {first} of {}",
        pair.to, side.wrong, side.done
    );
    let finding =
        Code::P2pOrder.finding(Severity::Fail, "", "flags arrive before the data that was sent before them");
    Some((pair, finding.values(side.wrong, 0, Some("words")).seen(seen)))
}

/// Why a game ended early.
fn stopped(pair: Pair, one: &Round, two: &Round, rounds: u64) -> Option<(Pair, Finding)> {
    if one.done == rounds && two.done == rounds {
        return None;
    }
    let results = format!(
        "{pair}: GPU {} finished {} of {rounds} rounds, GPU {} {}",
        pair.from, one.done, pair.to, two.done
    );
    if !one.timed_out && !two.timed_out {
        let message = "a ping-pong ended early, but neither GPU reports that it gave up";
        return Some((pair, Code::P2pChecker.finding(Severity::Error, "", message).seen(results)));
    }
    // The second finishes a round when it has answered the first.
    let lost = if two.done > one.done { pair.back() } else { pair };
    let message = match one.done {
        0 if lost == pair => "no flag arrives",
        _ => "a flag does not arrive within 2 s",
    };
    Some((lost, Code::P2pHang.finding(Severity::Fail, "", message).seen(results)))
}

fn counter(counted: &Counted) -> Option<(Pair, Finding)> {
    let Counted { pair, how, counted, expected } = counted;
    if counted == expected {
        return None;
    }
    let how = match how {
        Adding::Add => "atomic additions",
        Adding::CompareAndSwap => "atomic compare-and-swaps",
    };
    let message = format!("{how} by both GPUs in the second GPU's memory are lost");
    let finding = Code::P2pAtomics.finding(Severity::Fail, "", message);
    let seen = format!("{pair}: {how} in GPU {}'s memory gave {counted}, expected {expected}", pair.to);
    Some((*pair, finding.values(*counted, *expected, Some("additions")).seen(seen)))
}
