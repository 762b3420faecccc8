//! The answer to the first question of every reader, in one line: does peer-to-peer work on this machine? If another
//! cause must be repaired first, the line also names that cause.

use super::Cause;
use crate::outcome::Outcome;
use crate::outcome::cause::{AGAINST, SLOW};
use crate::outcome::finding::{Code, Severity};
use crate::outcome::scope::Scope;
use crate::report::{Report, TestEntry};

/// The tests without which nothing is known about peer-to-peer.
const PROOF: [&str; 2] = ["p2p-capability", "p2p-integrity"];
/// The matrix of peer access between GPUs, 1 or 0.
const ACCESS: &str = "p2p.connectivity";
/// The matrix of the speeds between all GPUs.
const SPEEDS: &str = "sample.uni.on";

/// The state of peer-to-peer according to the tests.
enum State {
    Yes,
    Slow,
    Partly,
    No,
    Unknown,
    NotTested(String),
    None(String),
}

/// `P2P: NO, the stock driver refuses it, 12 of 12 pairs`
pub(in crate::report) fn answer(report: &Report, causes: &[Cause]) -> String {
    let state = state(report);
    let why = match state {
        State::Yes => None,
        State::Slow => reason(causes, SLOW),
        State::Partly => reason(causes, &[Code::PeersGrouped]),
        State::No => reason(causes, AGAINST),
        State::Unknown | State::NotTested(_) | State::None(_) => None,
    };
    let why = why.or_else(|| causes.first().filter(|_| matches!(state, State::Unknown | State::No)));
    let gpus = report.gpus.len();
    let all = gpus * gpus.saturating_sub(1);
    let line = match (&state, why) {
        (State::Yes, _) => match reached(report).unwrap_or(all) {
            reached if reached < all => format!("P2P: PARTLY, {reached} of {all} pairs{}", speeds(report)),
            _ => format!("P2P: YES, {all} of {all} pairs{}", speeds(report)),
        },
        (State::Slow, why) => format!("P2P: YES but SLOW{}", because(report, why, all)),
        (State::Partly, why) => format!("P2P: PARTLY{}", because(report, why, all)),
        (State::No, why) => format!("P2P: NO{}", because(report, why, all)),
        (State::Unknown, why) => format!("P2P: UNKNOWN{}", because(report, why, 0)),
        (State::NotTested(why), _) => format!("P2P: NOT TESTED, {why}"),
        (State::None(why), _) => format!("P2P: NONE, {why}"),
    };
    let first = causes.first().filter(|first| why != Some(*first));
    line + &first.map(|first| format!("; first: {}", one(report, first))).unwrap_or_default()
}

fn state(report: &Report) -> State {
    if report.scope == Scope::Fabric {
        return State::NotTested("the scope is the fabric".to_owned());
    }
    match report.gpus.len() {
        0 if report.fabric.is_none() => return State::Unknown,
        0 => return State::None("there is no GPU".to_owned()),
        1 => return State::None("there is one GPU".to_owned()),
        _ => {}
    }
    let peer = |test: &&TestEntry| test.id.starts_with("p2p-");
    let tests: Vec<_> = report.tests.iter().filter(peer).collect();
    let found = |severity: Severity, codes: &[Code]| {
        let mut all = tests.iter().flat_map(|test| &test.findings).filter(|f| f.severity >= severity);
        all.any(|finding| codes.iter().any(|code| finding.is(*code)))
    };
    if found(Severity::Fail, AGAINST) {
        return State::No;
    }
    let ended = |id: &str| tests.iter().find(|test| test.id == id).map(|test| test.outcome);
    let proof = PROOF.map(ended);
    if proof == [None, None] {
        let only = matches!(report.scope, Scope::Only(_));
        return if only { State::NotTested("its tests were not chosen".to_owned()) } else { State::Unknown };
    }
    let good = |outcome| matches!(outcome, Some(Outcome::Pass | Outcome::Warn | Outcome::Fail));
    if !proof.into_iter().all(good) || tests.iter().any(|test| test.outcome == Outcome::Error) {
        return State::Unknown;
    }
    if found(Severity::Warn, &[Code::PeersGrouped]) {
        return State::Partly;
    }
    if found(Severity::Warn, SLOW) { State::Slow } else { State::Yes }
}

/// The first cause that is one of `codes`, or explains one.
fn reason<'a>(causes: &'a [Cause], codes: &[Code]) -> Option<&'a Cause> {
    let is = |code: &str| codes.iter().any(|one| one.entry().code == code);
    causes.iter().find(|cause| is(&cause.code) || cause.symptoms.iter().any(|s| is(&s.code)))
}

fn because(report: &Report, why: Option<&Cause>, all: usize) -> String {
    let Some(why) = why else { return String::new() };
    let pairs = why.pairs.filter(|_| all > 0).map(|pairs| format!(", {} of {all} pairs", pairs.min(all)));
    format!(", {}{}", one(report, why), pairs.unwrap_or_default())
}

/// `GPU 1: its PCIe link uses too few lanes`; a subject of many GPUs, or of the machine, is left out.
fn one(report: &Report, cause: &Cause) -> String {
    let Cause { subject, says, .. } = cause;
    let gpu = report.gpus.iter().position(|gpu| gpu.bdf.to_string() == *subject);
    match gpu {
        Some(number) => format!("GPU {number} ({subject}): {says}"),
        None if subject.len() <= 16 && subject != "machine" => format!("{subject}: {says}"),
        None => says.clone(),
    }
}

/// The values of a matrix for different GPUs; `None` if there is no such matrix.
fn cells(report: &Report, name: &str) -> Option<Vec<f64>> {
    let matrix = report.tests.iter().flat_map(|test| &test.matrices).find(|matrix| matrix.name == name)?;
    let rows = matrix.values.iter().enumerate();
    let all =
        rows.flat_map(|(row, values)| values.iter().enumerate().map(move |(n, value)| (row != n, *value)));
    Some(all.filter_map(|(apart, value)| value.filter(|_| apart)).collect())
}

/// How many ordered pairs have peer access; `None` if that was not tested.
fn reached(report: &Report) -> Option<usize> {
    Some(cells(report, ACCESS)?.into_iter().filter(|value| *value > 0.0).count())
}

/// The range of the speeds between different GPUs; empty if they were not measured.
fn speeds(report: &Report) -> String {
    let all = cells(report, SPEEDS).unwrap_or_default();
    let (least, most) = (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max));
    least.zip(most).map(|(least, most)| format!(", {least:.1} to {most:.1} GB/s")).unwrap_or_default()
}
