//! The judgement over all pairs' transfers. Pure.

use super::level_plan::LevelPlan;
use super::results::{AccessState, AllPairsRun, OverallResults, PairResult};
use super::tried_table::{self, checked_transfers};
use crate::schedule::Pair;
use crate::suite::shared::held_memory::{MemoryShare, coverage};
use crate::suite::shared::pair::merge_pairs;
use crate::suite::shared::transfer::{findings, ruled_out, size};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};

/// Lines of evidence that one finding keeps.
const LINES: usize = 24;

/// Judges all pairs; `pairs` is their number, `tried` those that the test reached.
pub(super) fn judge(
    plan: &LevelPlan,
    pairs: usize,
    tried: &[PairResult],
    more: Vec<Finding>,
    overall: &OverallResults,
) -> Judgement {
    let all_pairs = overall.all_pairs.as_ref();
    let watched = &overall.watched;
    let mut found: Vec<(Pair, Finding)> = tried
        .iter()
        .flat_map(|t| findings(t.pair, &t.faults))
        .collect();
    found.extend(tried.iter().filter_map(not_tried));
    let mut all = merge_pairs(found);
    all.extend(more);
    all.extend(tried.iter().filter_map(|t| t.ended.as_deref().cloned()));
    let on = tried.iter().filter(|t| t.access == AccessState::On).count();
    let claimed = tried.iter().any(|t| t.access != AccessState::No);
    if tried.len() < pairs && all.iter().all(|f| f.severity < Severity::Fail) {
        let message = format!("{} of {pairs} pairs were reached", tried.len());
        all.push(Code::P2pChecker.finding(Severity::Error, Subject::Machine, message));
    }
    if claimed && on == 0 {
        let message = "CUDA reports peer access, but no pair could be tried";
        all.push(Code::P2pRefused.finding(Severity::Error, Subject::Machine, message));
    }
    all.iter_mut().for_each(shorten);
    if !claimed {
        let why = "CUDA reports that no pair has peer access; see p2p-capability";
        return Judgement::not_applicable(why)
            .with(
                all.into_iter()
                    .filter(|f| f.severity > Severity::Info)
                    .collect(),
            )
            .with_tables(vec![tried_table::pairs_table(tried)]);
    }
    Judgement::summed_up(|| summary(plan, (pairs, on), all_pairs, watched), all).with_tables(vec![
        tried_table::transfers_table(plan, all_pairs),
        tried_table::pairs_table(tried),
    ])
}

fn summary(
    plan: &LevelPlan,
    (pairs, on): (usize, usize),
    all_pairs: Option<&AllPairsRun>,
    watched: &[MemoryShare],
) -> String {
    let checked = checked_transfers(plan, all_pairs);
    let transfers: u64 = checked.iter().sum();
    let odd = all_pairs
        .into_iter()
        .flat_map(|c| c.copy.iter().chain(&c.kernel));
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

fn not_tried(tried: &PairResult) -> Option<(Pair, Finding)> {
    let finding = match &tried.access {
        AccessState::On => return None,
        AccessState::No => Code::P2pUnsupported.finding(
            Severity::Info,
            Subject::Machine,
            "not tried: CUDA reports no peer access",
        ),
        AccessState::Refused(why) => Code::P2pRefused.finding(
            Severity::Info,
            Subject::Machine,
            format!("not tried: peer access is refused: {why}"),
        ),
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
