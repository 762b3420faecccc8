//! The judgement over the ping-pongs and counters. Pure.

use super::{AtomicOperation, CounterResult, Game, PairPingpong, Results, SharedCounter};
use crate::schedule::Pair;
use crate::suite::shared::pair::{matrix, merge_pairs};
use crate::suite::shared::transfer::{Memory, size};
use gpu::{Payload, PingpongResult};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;

/// Judges all pairs.
pub(super) fn judge(gpus: usize, results: &Results) -> Judgement {
    let mut found: Vec<(Pair, Finding)> =
        results.pingpongs.iter().flat_map(game_findings).collect();
    found.extend(results.counted.iter().filter_map(lost_additions));
    let mut findings = merge_pairs(found);
    findings.extend(results.shared.iter().filter_map(lost_shared_additions));
    let others = [&results.slow_hops, &results.broken];
    findings.extend(
        others
            .into_iter()
            .flatten()
            .chain(&results.unmapped)
            .cloned(),
    );
    if results.pingpongs.is_empty() && findings.iter().all(|f| f.severity == Severity::Info) {
        let why = "no two GPUs have access to each other's memory; see p2p-capability";
        return Judgement::not_applicable(why).with(findings);
    }
    let hop = |pair: Pair| {
        let same = |p: &&PairPingpong| p.pair == pair || p.pair == pair.back();
        timed(results)
            .find(same)
            .filter(|p| is_complete(p))
            .map(|p| p.hop_ns.round())
    };
    Judgement::summed_up(|| summary(results), findings).showing(vec![matrix(
        Metric::HOP,
        gpus,
        hop,
    )])
}

/// The games whose time is judged.
fn timed(results: &Results) -> impl Iterator<Item = &PairPingpong> {
    results.pingpongs.iter().filter(|p| p.game == Game::TIMED)
}

fn summary(results: &Results) -> String {
    let hops = || timed(results).map(|p| p.hop_ns);
    let (least, most) = (
        hops().fold(f64::INFINITY, f64::min),
        hops().fold(0.0, f64::max),
    );
    let counters = match (results.counted.is_empty(), results.unclaimed) {
        (true, _) => "atomics are not claimed".to_owned(),
        (false, 0) => "no atomic addition is lost".to_owned(),
        (false, n) => {
            format!("no atomic addition is lost, atomics are not claimed for {n} ordered pairs")
        }
    };
    let pairs = match timed(results).count() {
        1 => "1 pair".to_owned(),
        n => format!("{n} pairs"),
    };
    let rounds = |of: &dyn Fn(&Game) -> bool| {
        let games = results
            .pingpongs
            .iter()
            .map(|p| p.game)
            .filter(|game| of(game));
        games.map(|game| game.rounds).max()
    };
    let wide = rounds(&|game| game.payload == Payload::Wide && game.memory == Memory::Plain);
    let wide = wide.map_or_else(String::new, |n| {
        format!(
            ", {n} of them after {} under load",
            size(Payload::Wide.words() * 4)
        )
    });
    let mapped = rounds(&|game| game.memory == Memory::Mapped);
    let mapped = mapped.map_or_else(String::new, |n| format!(", {n} in mapped memory"));
    let rounds = Game::TIMED.rounds;
    format!(
        "{pairs}: {rounds} flags each way arrive after their data{wide}{mapped}, {least:.0} to {most:.0} ns per hop; {counters}"
    )
}

fn is_complete(pingpong: &PairPingpong) -> bool {
    pingpong
        .sides
        .iter()
        .all(|side| side.done == pingpong.game.rounds && !side.timed_out)
}

/// Whether all flags of a game arrived, each after its data.
pub(super) fn is_right(pingpong: &PairPingpong) -> bool {
    is_complete(pingpong) && pingpong.sides.iter().all(|side| side.first_bad.is_none())
}

/// What distinguishes a game from the first one, for messages.
fn circumstances(game: Game) -> String {
    let wide = match game.payload {
        Payload::Narrow => String::new(),
        Payload::Wide => {
            format!(
                ", {} of it, while copy engines write over the same path",
                size(game.payload.words() * 4)
            )
        }
    };
    format!("{wide}{}", in_memory(game.memory))
}

fn in_memory(memory: Memory) -> &'static str {
    if memory == Memory::Mapped {
        ", mapped memory"
    } else {
        ""
    }
}

/// The faults of one game: words that arrive after their flag in either direction, and why it stopped.
fn game_findings(pingpong: &PairPingpong) -> Vec<(Pair, Finding)> {
    let there = pingpong.pair;
    let [one, two] = &pingpong.sides;
    let mut found: Vec<(Pair, Finding)> = [(there.back(), one), (there, two)]
        .into_iter()
        .filter_map(|(pair, side)| late_words(pair, pingpong.game, side))
        .collect();
    found.extend(stopped(there, pingpong.game, one, two));
    found
}

/// Words that `pair.to` did not see although it saw their flag.
fn late_words(pair: Pair, game: Game, side: &PingpongResult) -> Option<(Pair, Finding)> {
    let first = side.first_bad?;
    let words = side.done.saturating_mul(game.payload.words());
    let seen = format!(
        "{pair}: GPU {} saw {} of {words} words late, the first in round {first} of {}",
        pair.to, side.wrong, side.done
    );
    let finding = Code::P2pOrder.finding(
        Severity::Fail,
        Subject::Machine,
        format!(
            "flags arrive before the data that was sent before them{}",
            circumstances(game)
        ),
    );
    Some((
        pair,
        finding.values(side.wrong, 0, Some("words")).seen(seen),
    ))
}

/// Why a game ended early.
fn stopped(
    pair: Pair,
    game: Game,
    one: &PingpongResult,
    two: &PingpongResult,
) -> Option<(Pair, Finding)> {
    let rounds = game.rounds;
    if one.done == rounds && two.done == rounds {
        return None;
    }
    let results = format!(
        "{pair}: GPU {} finished {} of {rounds} rounds, GPU {} {}",
        pair.from, one.done, pair.to, two.done
    );
    if !one.timed_out && !two.timed_out {
        let message = "a ping-pong ended early, but neither GPU reports that it gave up";
        return Some((
            pair,
            Code::P2pChecker
                .finding(Severity::Error, Subject::Machine, message)
                .seen(results),
        ));
    }
    // The second finishes a round when it has answered the first.
    let lost = if two.done > one.done {
        pair.back()
    } else {
        pair
    };
    let message = match one.done {
        0 if lost == pair => "no flag arrives",
        _ => "a flag does not arrive within 2 s",
    };
    let message = format!("{message}{}", circumstances(game));
    Some((
        lost,
        Code::P2pHang
            .finding(Severity::Fail, Subject::Machine, message)
            .seen(results),
    ))
}

fn lost_additions(counted: &CounterResult) -> Option<(Pair, Finding)> {
    let CounterResult {
        pair,
        memory,
        operation,
        counted,
        expected,
    } = counted;
    if counted == expected {
        return None;
    }
    let operation = match operation {
        AtomicOperation::Add => "atomic additions",
        AtomicOperation::CompareAndSwap => "atomic compare-and-swaps",
    };
    let message = format!(
        "{operation} by both GPUs in the second GPU's memory are lost{}",
        in_memory(*memory)
    );
    let finding = Code::P2pAtomics.finding(Severity::Fail, Subject::Machine, message);
    let seen = format!(
        "{pair}: {operation} in GPU {}'s memory gave {counted}, expected {expected}",
        pair.to
    );
    Some((
        *pair,
        finding
            .values(*counted, *expected, Some("additions"))
            .seen(seen),
    ))
}

fn lost_shared_additions(counter: &SharedCounter) -> Option<Finding> {
    let SharedCounter {
        owner,
        gpus,
        counted,
        expected,
    } = counter;
    if counted == expected {
        return None;
    }
    let message =
        format!("atomic additions by {gpus} GPUs at once in the memory of GPU {owner} are lost");
    let finding = Code::P2pAtomics.finding(Severity::Fail, *owner, message);
    let seen = format!("GPU {owner}: additions by {gpus} GPUs gave {counted}, expected {expected}");
    Some(
        finding
            .values(*counted, *expected, Some("additions"))
            .seen(seen),
    )
}
