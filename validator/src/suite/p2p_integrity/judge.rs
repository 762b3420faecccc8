//! What all pairs' transfers come to. Pure.

use super::super::pair::together;
use super::cell::{Plan, size};
use super::fault::{Fault, findings};
use crate::finding::{Code, Finding, Severity};
use crate::outcome::Judgement;
use crate::schedule::Pair;

/// Whether a pair could be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// CUDA says that there is none.
    No,
    /// CUDA says that there is, and refuses it: its words.
    Refused(String),
    /// It was switched on.
    On,
}

/// What came of one pair.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) pair: Pair,
    pub(super) access: Access,
    pub(super) faults: Vec<Fault>,
    /// What ended its transfers early.
    pub(super) ended: Option<Box<Finding>>,
}

/// Lines of evidence that one finding keeps.
const LINES: usize = 24;

/// Judges all pairs; `pairs` is how many there are, `tried` those that were come to.
pub(super) fn judge(plan: &Plan, pairs: usize, tried: &[Tried], more: Vec<Finding>) -> Judgement {
    let mut found: Vec<(Pair, Finding)> = tried.iter().flat_map(|t| findings(t.pair, &t.faults)).collect();
    found.extend(tried.iter().filter_map(not_tried));
    let mut all = together(found);
    all.extend(more);
    all.extend(tried.iter().filter_map(|t| t.ended.as_deref().cloned()));
    let on = tried.iter().filter(|t| t.access == Access::On).count();
    let claimed = tried.iter().any(|t| t.access != Access::No);
    if tried.len() < pairs && all.iter().all(|f| f.severity < Severity::Fail) {
        let message = format!("{} of {pairs} pairs were come to", tried.len());
        all.push(Code::P2pChecker.finding(Severity::Error, "machine", message));
    }
    if claimed && on == 0 {
        let message = "CUDA says that there is peer access, and no pair could be tried";
        all.push(Code::P2pRefused.finding(Severity::Error, "machine", message));
    }
    all.iter_mut().for_each(shorten);
    if !claimed {
        let why = "CUDA says that no pair has peer access; see p2p-capability";
        return Judgement::not_applicable(why)
            .with(all.into_iter().filter(|f| f.severity > Severity::Info).collect());
    }
    let worst = all.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = worst.map_or_else(|| good(plan, pairs, on), |worst| worst.message.clone());
    Judgement::of(summary, all)
}

fn good(plan: &Plan, pairs: usize, on: usize) -> String {
    let [least, .., most] = plan.sizes.as_slice() else { return String::new() };
    let transfers = plan.transfers();
    let (least, most) = (size(*least), size(*most));
    format!(
        "{on} of {pairs} ordered pairs: all {transfers} transfers of {least} to {most} arrive, and nothing else"
    )
}

fn not_tried(tried: &Tried) -> Option<(Pair, Finding)> {
    let finding = match &tried.access {
        Access::On => return None,
        Access::No => Code::P2pUnsupported.finding(Severity::Info, "", "not tried: CUDA says no peer access"),
        Access::Refused(why) => {
            Code::P2pRefused.finding(Severity::Info, "", format!("not tried: peer access is refused: {why}"))
        }
    };
    Some((tried.pair, finding))
}

fn shorten(finding: &mut Finding) {
    let more = finding.evidence.len().saturating_sub(LINES);
    if more > 0 {
        finding.evidence.truncate(LINES);
        finding.evidence.push(format!("and {more} more"));
    }
}
