//! The answer to the first question of every reader, in one line: does peer-to-peer work on this machine? If another
//! cause must be repaired first, the line also names that cause.

use super::Cause;
use crate::{Report, TestEntry};
use outcome::finding::{Code, P2pEffect, Severity, Subject};
use outcome::metric::Metric;
use outcome::platform::Pair;
use outcome::scope::Scope;
use outcome::test::{self, Properties};
use outcome::{Matrix, Outcome};
use std::collections::BTreeSet;

/// The matrix of peer access between GPUs, 1 or 0.
const ACCESS: Metric = Metric::ACCESS;
/// The matrices of the speeds between all GPUs: the first that was measured. The summary of p2p-bandwidth has the same.
const SPEEDS: [Metric; 2] = [Metric::CE_WRITE, Metric::SAMPLE_UNI_ON];

/// The state of peer-to-peer according to the tests.
enum P2pState {
    Yes,
    Slow,
    Partly,
    No,
    Unknown,
    NotTested(String),
    None(String),
}

/// `P2P: NO, the stock driver refuses it, 12 of 12 pairs`
pub(crate) fn answer(report: &Report, causes: &[Cause]) -> String {
    let state = state(report);
    let why = match state {
        P2pState::Yes => None,
        P2pState::Slow => find_cause(causes, |code| code.row().p2p == P2pEffect::Slow),
        P2pState::Partly => find_cause(causes, |code| code == Code::PeersGrouped),
        P2pState::No => find_cause(causes, |code| code.row().p2p == P2pEffect::Broken),
        P2pState::Unknown | P2pState::NotTested(_) | P2pState::None(_) => None,
    };
    let why = why.or_else(|| {
        causes
            .first()
            .filter(|_| matches!(state, P2pState::Unknown | P2pState::No))
    });
    let gpus = report.gpus.len();
    let all = gpus * gpus.saturating_sub(1);
    let line = match (&state, why) {
        (P2pState::Yes, _) => match pairs_with_access(report).unwrap_or(all) {
            reached if reached < all => {
                format!(
                    "P2P: PARTLY, {reached} of {all} pairs{}",
                    speed_range(report)
                )
            }
            _ => format!("P2P: YES, {all} of {all} pairs{}", speed_range(report)),
        },
        (P2pState::Slow, why) => format!("P2P: YES but SLOW{}", reason_text(report, why, all)),
        (P2pState::Partly, why) => format!("P2P: PARTLY{}", reason_text(report, why, all)),
        (P2pState::No, why) => format!("P2P: NO{}", reason_text(report, why, all)),
        (P2pState::Unknown, why) => format!("P2P: UNKNOWN{}", reason_text(report, why, 0)),
        (P2pState::NotTested(why), _) => format!("P2P: NOT TESTED, {why}"),
        (P2pState::None(why), _) => format!("P2P: NONE, {why}"),
    };
    let said =
        |first: &Cause| matches!(state, P2pState::None(_)) && first.code == Code::GpuNone.as_str();
    let first = causes
        .first()
        .filter(|first| why != Some(*first) && !said(first));
    line + &first
        .map(|first| format!("; first: {}", cause_text(report, first)))
        .unwrap_or_default()
}

fn state(report: &Report) -> P2pState {
    if report.scope == Scope::Fabric {
        return P2pState::NotTested("the scope is the fabric".to_owned());
    }
    match report.gpus.len() {
        0 if report.fabric.is_none() => return P2pState::Unknown,
        0 => return P2pState::None("there is no GPU".to_owned()),
        1 => return P2pState::None("there is one GPU".to_owned()),
        _ => {}
    }
    let uses_peers = |test: &&TestEntry| test.properties().is_some_and(Properties::uses_peers);
    let tests: Vec<_> = report.tests.iter().filter(uses_peers).collect();
    let found = |severity: Severity, is: fn(Code) -> bool| {
        let mut all = tests
            .iter()
            .flat_map(|test| &test.findings)
            .filter(|f| f.severity >= severity);
        all.any(|finding| finding.known().is_some_and(is))
    };
    if found(Severity::Fail, |code| code.row().p2p == P2pEffect::Broken) {
        return P2pState::No;
    }
    let ended = |proof: &&Properties| {
        tests
            .iter()
            .find(|test| test.id == proof.id)
            .map(|test| test.outcome)
    };
    let proof: Vec<_> = test::ALL
        .iter()
        .copied()
        .filter(|test| test.proves_peers)
        .map(|test| ended(&test))
        .collect();
    if proof.iter().all(Option::is_none) {
        let only = matches!(report.scope, Scope::Only(_));
        return if only {
            P2pState::NotTested("its tests were not chosen".to_owned())
        } else {
            P2pState::Unknown
        };
    }
    let good = |outcome| matches!(outcome, Some(Outcome::Pass | Outcome::Warn | Outcome::Fail));
    if !proof.into_iter().all(good) || tests.iter().any(|test| test.outcome == Outcome::Error) {
        return P2pState::Unknown;
    }
    if found(Severity::Warn, |code| code == Code::PeersGrouped) {
        return P2pState::Partly;
    }
    if found(Severity::Warn, |code| code.row().p2p == P2pEffect::Slow) {
        P2pState::Slow
    } else {
        P2pState::Yes
    }
}

/// The first cause that is of such a code, or explains one.
fn find_cause(causes: &[Cause], is: impl Fn(Code) -> bool) -> Option<&Cause> {
    let named = |code: &str| Code::named(code).is_some_and(&is);
    causes
        .iter()
        .find(|cause| named(&cause.code) || cause.symptoms.iter().any(|s| named(&s.code)))
}

fn reason_text(report: &Report, why: Option<&Cause>, all: usize) -> String {
    let Some(why) = why else { return String::new() };
    let pairs = why
        .pairs
        .filter(|_| all > 0)
        .map(|pairs| format!(", {} of {all} pairs", pairs.min(all)));
    let worst = worst_pair(report, why)
        .filter(|_| pairs.is_some())
        .unwrap_or_default();
    format!(
        ", {}{}{worst}",
        cause_text(report, why),
        pairs.unwrap_or_default()
    )
}

/// `: GPU 0 -> 1 at 8.4 GB/s and 1 more`: the slowest of the pairs that a cause names, or the first of them; `None` if they
/// are all pairs, or the answer has it as the only subject.
fn worst_pair(report: &Report, cause: &Cause) -> Option<String> {
    let named: BTreeSet<Pair> = cause
        .about
        .iter()
        .flat_map(Subject::named_pairs)
        .copied()
        .collect();
    let all = report.tests.iter().flat_map(|test| &test.matrices);
    let speeds: Vec<_> = SPEEDS
        .iter()
        .filter_map(|metric| all.clone().find(|m| m.metric() == Some(*metric)))
        .collect();
    let speed = |pair: &Pair| {
        let of = |matrix: &&Matrix| *matrix.values.get(pair.from.index())?.get(pair.to.index())?;
        speeds.iter().find_map(of)
    };
    let slower = |one: &&Pair, other: &&Pair| {
        let of = |pair: &Pair| speed(pair).unwrap_or(f64::INFINITY);
        of(one).total_cmp(&of(other))
    };
    let gpus = report.gpus.len();
    let some = cause.about.len() > 1 && named.len() < gpus * gpus.saturating_sub(1);
    let worst = named.iter().min_by(slower).filter(|_| some)?;
    let at = speed(worst)
        .map(|gb_s| format!(" at {gb_s:.1} GB/s"))
        .unwrap_or_default();
    let more = if named.len() > 1 {
        format!(" and {} more", named.len() - 1)
    } else {
        String::new()
    };
    Some(format!(": {worst}{at}{more}"))
}

/// `GPU 1: its PCIe link uses too few lanes`; a subject of many GPUs, or of the machine, is left out.
fn cause_text(report: &Report, cause: &Cause) -> String {
    let Cause {
        subject,
        says,
        about,
        ..
    } = cause;
    let [only] = &about[..] else {
        return says.to_string();
    };
    let number = only
        .address()
        .and_then(|at| report.gpus.iter().position(|gpu| gpu.bdf == at));
    match number {
        Some(number) => format!("GPU {number} ({subject}): {says}"),
        // Its subject is what the verdict covers.
        None if cause.code == Code::ScopeUnproven.as_str() => says.to_string(),
        // The clause about NVIDIA's driver as a whole names it.
        None if *only == Subject::part("nvidia") => says.to_string(),
        None if *only != Subject::Machine && subject.len() <= MAX_SUBJECT => {
            format!("{subject}: {says}")
        }
        None => says.to_string(),
    }
}

/// The most characters of a subject that the answer's line names.
const MAX_SUBJECT: usize = 16;

/// The values of a matrix between different GPUs; `None` if there is no such matrix.
fn off_diagonal(report: &Report, metric: Metric) -> Option<Vec<f64>> {
    let matrix = report
        .tests
        .iter()
        .flat_map(|test| &test.matrices)
        .find(|matrix| matrix.metric() == Some(metric))?;
    let rows = matrix.values.iter().enumerate();
    let all = rows.flat_map(|(row, values)| {
        values
            .iter()
            .enumerate()
            .map(move |(n, value)| (row != n, *value))
    });
    Some(
        all.filter_map(|(apart, value)| value.filter(|_| apart))
            .collect(),
    )
}

/// How many ordered pairs have peer access; `None` if that was not tested.
fn pairs_with_access(report: &Report) -> Option<usize> {
    Some(
        off_diagonal(report, ACCESS)?
            .into_iter()
            .filter(|value| *value > 0.0)
            .count(),
    )
}

/// The range of the speeds between different GPUs; empty if they were not measured.
fn speed_range(report: &Report) -> String {
    let all = SPEEDS
        .iter()
        .find_map(|metric| off_diagonal(report, *metric))
        .unwrap_or_default();
    let (least, most) = (
        all.iter().copied().reduce(f64::min),
        all.iter().copied().reduce(f64::max),
    );
    least
        .zip(most)
        .map(|(least, most)| format!(", {least:.1} to {most:.1} GB/s"))
        .unwrap_or_default()
}
