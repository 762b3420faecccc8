//! The judgement over all pairs' transfers. Pure.

use super::level_plan::Plan;
use super::results::{Access, All, Crowd, Tried};
use super::tried_table::{self, checked};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::pair::together;
use crate::suite::shared::plot::{Share, coverage};
use crate::suite::shared::transfer::{findings, ruled_out, size};

/// Lines of evidence that one finding keeps.
const LINES: usize = 24;

/// Judges all pairs; `pairs` is their number, `tried` those that the test reached.
pub(super) fn judge(
    plan: &Plan,
    pairs: usize,
    tried: &[Tried],
    more: Vec<Finding>,
    beside: &All,
) -> Judgement {
    let crowd = beside.crowd.as_ref();
    let watched = &beside.watched;
    let mut found: Vec<(Pair, Finding)> = tried.iter().flat_map(|t| findings(t.pair, &t.faults)).collect();
    found.extend(tried.iter().filter_map(not_tried));
    let mut all = together(found);
    all.extend(more);
    all.extend(tried.iter().filter_map(|t| t.ended.as_deref().cloned()));
    let on = tried.iter().filter(|t| t.access == Access::On).count();
    let claimed = tried.iter().any(|t| t.access != Access::No);
    if tried.len() < pairs && all.iter().all(|f| f.severity < Severity::Fail) {
        let message = format!("{} of {pairs} pairs were reached", tried.len());
        all.push(Code::P2pChecker.finding(Severity::Error, "machine", message));
    }
    if claimed && on == 0 {
        let message = "CUDA reports peer access, but no pair could be tried";
        all.push(Code::P2pRefused.finding(Severity::Error, "machine", message));
    }
    all.iter_mut().for_each(shorten);
    if !claimed {
        let why = "CUDA reports that no pair has peer access; see p2p-capability";
        return Judgement::not_applicable(why)
            .with(all.into_iter().filter(|f| f.severity > Severity::Info).collect())
            .with_tables(vec![tried_table::pairs(tried)]);
    }
    Judgement::summed_up(|| good(plan, (pairs, on), crowd, watched), all)
        .with_tables(vec![tried_table::tried(plan, crowd), tried_table::pairs(tried)])
}

fn good(plan: &Plan, (pairs, on): (usize, usize), crowd: Option<&Crowd>, watched: &[Share]) -> String {
    let checked = checked(plan, crowd);
    let transfers: u64 = checked.iter().sum();
    let odd = crowd.into_iter().flat_map(|c| c.copy.iter().chain(&c.kernel));
    let sizes = || plan.sizes.iter();
    let least = size(odd.chain(sizes()).min().copied().unwrap_or_default());
    let most = size(sizes().max().copied().unwrap_or_default());
    let nothing = if watched.is_empty() {
        "nothing else changes".to_owned()
    } else {
        format!("nothing else changes in {}", coverage(watched))
    };
    let rate = ruled_out(checked.into_iter().min().unwrap_or_default());
    format!(
        "{on} of {pairs} ordered pairs: all {transfers} transfers of {least} to {most} arrive, and {nothing}; \
         faults are below {rate} per pair (95 %)"
    )
}

fn not_tried(tried: &Tried) -> Option<(Pair, Finding)> {
    let finding = match &tried.access {
        Access::On => return None,
        Access::No => {
            Code::P2pUnsupported.finding(Severity::Info, "", "not tried: CUDA reports no peer access")
        }
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
