//! The answer to the first question of every reader, in one line: does peer-to-peer work on this machine? Where another
//! cause is to be repaired first, the line names that too.

use super::Cause;
use crate::outcome::Outcome;
use crate::outcome::cause::{AGAINST, SLOW};
use crate::outcome::finding::{Code, Severity};
use crate::outcome::scope::Scope;
use crate::report::{Report, TestEntry};

/// The tests without which nothing is known about peer-to-peer.
const PROOF: [&str; 2] = ["p2p-capability", "p2p-integrity"];
/// The matrix of which GPU reaches which, 1 or 0.
const ACCESS: &str = "p2p.connectivity";
/// The matrix of the speeds between all GPUs.
const SPEEDS: &str = "sample.uni.on";

/// What the tests say about peer-to-peer.
enum Word {
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
    let word = word(report);
    let why = match word {
        Word::Yes => None,
        Word::Slow => reason(causes, SLOW),
        Word::Partly => reason(causes, &[Code::PeersGrouped]),
        Word::No => reason(causes, AGAINST),
        Word::Unknown | Word::NotTested(_) | Word::None(_) => None,
    };
    let why = why.or_else(|| causes.first().filter(|_| matches!(word, Word::Unknown | Word::No)));
    let gpus = report.gpus.len();
    let all = gpus * gpus.saturating_sub(1);
    let told = match (&word, why) {
        (Word::Yes, _) => match reached(report).unwrap_or(all) {
            reached if reached < all => format!("P2P: PARTLY, {reached} of {all} pairs{}", speeds(report)),
            _ => format!("P2P: YES, {all} of {all} pairs{}", speeds(report)),
        },
        (Word::Slow, why) => format!("P2P: YES but SLOW{}", because(report, why, all)),
        (Word::Partly, why) => format!("P2P: PARTLY{}", because(report, why, all)),
        (Word::No, why) => format!("P2P: NO{}", because(report, why, all)),
        (Word::Unknown, why) => format!("P2P: UNKNOWN{}", because(report, why, 0)),
        (Word::NotTested(why), _) => format!("P2P: NOT TESTED, {why}"),
        (Word::None(why), _) => format!("P2P: NONE, {why}"),
    };
    let first = causes.first().filter(|first| why != Some(*first));
    told + &first.map(|first| format!("; first: {}", one(report, first))).unwrap_or_default()
}

fn word(report: &Report) -> Word {
    if report.scope == Scope::Fabric {
        return Word::NotTested("the scope is the fabric".to_owned());
    }
    match report.gpus.len() {
        0 if report.fabric.is_none() => return Word::Unknown,
        0 => return Word::None("there is no GPU".to_owned()),
        1 => return Word::None("there is one GPU".to_owned()),
        _ => {}
    }
    let peer = |test: &&TestEntry| test.id.starts_with("p2p-");
    let tests: Vec<_> = report.tests.iter().filter(peer).collect();
    let found = |severity: Severity, codes: &[Code]| {
        let mut all = tests.iter().flat_map(|test| &test.findings).filter(|f| f.severity >= severity);
        all.any(|finding| codes.iter().any(|code| finding.is(*code)))
    };
    if found(Severity::Fail, AGAINST) {
        return Word::No;
    }
    let ended = |id: &str| tests.iter().find(|test| test.id == id).map(|test| test.outcome);
    let proof = PROOF.map(ended);
    if proof == [None, None] {
        let only = matches!(report.scope, Scope::Only(_));
        return if only { Word::NotTested("its tests were not chosen".to_owned()) } else { Word::Unknown };
    }
    let good = |outcome| matches!(outcome, Some(Outcome::Pass | Outcome::Warn | Outcome::Fail));
    if !proof.into_iter().all(good) || tests.iter().any(|test| test.outcome == Outcome::Error) {
        return Word::Unknown;
    }
    if found(Severity::Warn, &[Code::PeersGrouped]) {
        return Word::Partly;
    }
    if found(Severity::Warn, SLOW) { Word::Slow } else { Word::Yes }
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

/// The speeds between different GPUs, where they were measured.
fn speeds(report: &Report) -> String {
    let all = cells(report, SPEEDS).unwrap_or_default();
    let (least, most) = (all.iter().copied().reduce(f64::min), all.iter().copied().reduce(f64::max));
    least.zip(most).map(|(least, most)| format!(", {least:.1} to {most:.1} GB/s")).unwrap_or_default()
}
