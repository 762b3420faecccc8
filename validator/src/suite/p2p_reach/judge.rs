//! What all sweeps come to. Pure.

use super::super::p2p_integrity::{Kind, Way, size};
use super::super::pair::together;
use super::sweep::{Amiss, Missed};
use crate::finding::{Code, Finding, Severity};
use crate::outcome::Judgement;
use crate::schedule::Pair;
use std::fmt;

/// One sweep of a peer over an owner's buffer.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) pair: Pair,
    pub(super) kind: Kind,
    pub(super) places: usize,
    pub(super) missed: Vec<Missed>,
}

/// How much of an owner's memory was gone over, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reached {
    pub(super) owner: usize,
    pub(super) bytes: u64,
    pub(super) total: u64,
}

/// All that was tried.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) reached: Vec<Reached>,
    pub(super) swept: Vec<Swept>,
    /// What could not be tried or broke off.
    pub(super) broken: Vec<Finding>,
}

/// Lines of evidence of one sweep.
const LINES: usize = 6;
/// Less of a GPU's memory than this is named: others use it.
const MUCH: f64 = 0.9;

/// Judges all pairs.
pub(super) fn judge(told: &Told) -> Judgement {
    let mut findings = together(told.swept.iter().filter_map(sweep).collect());
    findings.extend(told.broken.iter().cloned());
    if told.swept.is_empty() && findings.iter().all(|f| f.severity == Severity::Info) {
        let why = "no pair has peer access; see p2p-capability";
        return Judgement::not_applicable(why).with(findings);
    }
    let worst = findings.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = worst.map_or_else(|| good(told), |worst| worst.message.clone());
    Judgement::of(summary, findings)
}

fn good(told: &Told) -> String {
    let mut pairs: Vec<Pair> = told.swept.iter().map(|s| s.pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let places = told.swept.iter().map(|s| s.places).min().unwrap_or_default();
    let least = told.reached.iter().map(|r| r.bytes).min().unwrap_or_default();
    let less: Vec<_> = told.reached.iter().filter(|r| part(r) < MUCH).map(less).collect();
    let less = if less.is_empty() { String::new() } else { format!("; others use {}", less.join(", ")) };
    format!("{} ordered pairs: {places} places across {:.1} GiB are reached{less}", pairs.len(), gib(least))
}

fn less(reached: &Reached) -> String {
    format!("GPU {}: {:.1} of {:.1} GiB gone over", reached.owner, gib(reached.bytes), gib(reached.total))
}

/// What one sweep missed, as one finding.
fn sweep(swept: &Swept) -> Option<(Pair, Finding)> {
    let first = swept.missed.first()?;
    let Swept { kind, places, missed, .. } = swept;
    let unchecked = missed.iter().all(|m| m.what == Amiss::Unchecked);
    let (code, severity) = match first.what {
        _ if unchecked => (Code::P2pChecker, Severity::Error),
        Amiss::Beside => (Code::P2pStray, Severity::Fail),
        _ => (Code::P2pWrongData, Severity::Fail),
    };
    let message = format!(
        "{kind}s miss {} of {places} places, the first at {}: {}",
        missed.len(),
        size(first.at),
        Words(first.what, kind.way)
    );
    let more = missed.len().saturating_sub(LINES);
    let more = (more > 0).then(|| format!("{}, {kind}s: and {more} more places", swept.pair));
    let lines = missed.iter().take(LINES).map(|m| line(swept, m)).chain(more).collect();
    let finding = code.finding(severity, "", message).values(missed.len(), 0, Some("places")).seen_all(lines);
    let aliases = missed.iter().any(|m| matches!(m.what, Amiss::Alias(_)));
    let finding = if aliases {
        finding.because("two offsets lead to the same memory: the window through which peers reach it is smaller than it, or is moved")
    } else {
        finding
    };
    Some((swept.pair, finding))
}

fn line(swept: &Swept, missed: &Missed) -> String {
    let hex = |words: &[u32]| words.iter().map(|w| format!("{w:08x}")).collect::<Vec<_>>().join(" ");
    let words = Words(missed.what, swept.kind.way);
    let sample = match missed.found.as_slice() {
        [] => String::new(),
        found => format!(": found {}, expected {}", hex(found), hex(&missed.expected)),
    };
    format!(
        "{}, {} at {} ({} wrong words, the first at {:#x}): {words}{sample}",
        swept.pair,
        swept.kind,
        size(missed.at),
        missed.words,
        missed.first
    )
}

/// In words what is wrong at a place.
struct Words(Amiss, Way);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Amiss::Zeros, _) => f.write_str("zeros arrive"),
            (Amiss::Stale, _) => f.write_str("nothing arrives"),
            (Amiss::Alias(at), Way::Write) => write!(f, "what was written to {at:#x} is there"),
            (Amiss::Alias(at), Way::Read) => write!(f, "what lies at {at:#x} is read"),
            (Amiss::Other, _) => f.write_str("wrong data arrives"),
            (Amiss::Beside, _) => f.write_str("memory beside it changes"),
            (Amiss::Unchecked, _) => f.write_str("the check did not look at every word"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people, with one decimal")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn part(reached: &Reached) -> f64 {
    gib(reached.bytes) / gib(reached.total.max(1))
}
