//! Findings that speed tests share: data that did not arrive, figures that vary, and many findings of one
//! kind merged into one.

use super::flow::Flow;
use super::grid::Grid;
use crate::floors::noise;
use crate::schedule::Pair;
use crate::suite::shared::transfer::{ones, unanswered};
use gpu::CheckCounts;
use gpu::pattern::Counts;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity};
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;
use report::stats::RepeatPolicy;

/// How many findings of one kind are listed one by one.
const MOST_LISTED: usize = 4;

/// Two measurements that differ by more than this fraction are reported.
const REPEAT_DIFFERENCE: f64 = 0.1;

/// `P2P-WRONG-DATA`: the wrong data of a timed transfer.
pub(in crate::suite) fn wrong_data(flow: &Flow, checked: &CheckCounts) -> Finding {
    let words = flow.bytes / 4;
    let CheckCounts {
        looked,
        wrong,
        zeros,
        sentinels,
        first,
        ..
    } = checked;
    let all_ones = ones(checked.ones);
    let what = if *looked == words {
        format!(
            "{wrong} of {words} words are wrong ({zeros} are 0, {all_ones}{sentinels} were never written)"
        )
    } else {
        format!("{looked} of {words} words could be checked, {wrong} of them wrong")
    };
    let first = first.map_or(String::new(), |word| {
        format!("; the first at byte {}", word * 4)
    });
    let message = format!("{flow}: {what}{first}, so no speed is reported");
    let finding = Code::P2pWrongData.finding(Severity::Fail, flow.pair, message);
    let finding = finding.values(*wrong, 0, Some("words"));
    if Counts::from(*checked).are_ones() {
        unanswered(finding)
    } else {
        finding
    }
}

/// Figures that stayed noisy, by the policy of their metric; figures of a metric without one may vary.
fn noisy_cells(
    grid: &Grid,
    policy: impl Fn(Metric) -> Option<RepeatPolicy>,
) -> impl Iterator<Item = (Metric, Pair, Finding)> {
    let noise = move |metric, pair, figure| {
        Some((metric, pair, noise(pair, metric, &policy(metric)?, figure)?))
    };
    grid.measured()
        .filter_map(move |(metric, pair, figure)| noise(metric, pair, figure))
}

/// The findings about them.
pub(in crate::suite) fn noisy(
    grid: &Grid,
    policy: impl Fn(Metric) -> Option<RepeatPolicy>,
) -> impl Iterator<Item = Finding> {
    noisy_cells(grid, policy).map(|(.., finding)| finding)
}

/// Those that scatter so far that no verdict may be based on them: they are measured again before they are judged.
pub(in crate::suite) fn doubtful(
    grid: &Grid,
    policy: impl Fn(Metric) -> Option<RepeatPolicy>,
) -> impl Iterator<Item = (Metric, Pair)> {
    let doubtful =
        noisy_cells(grid, policy).filter(|(.., finding)| finding.severity > Severity::Info);
    doubtful.map(|(metric, pair, _)| (metric, pair))
}

/// Findings about figures whose second measurement differs from the first.
pub(in crate::suite) fn repeat_differences(grid: &Grid) -> impl Iterator<Item = Finding> {
    let differ =
        |first: f64, again: f64| (first - again).abs() > first.min(again) * REPEAT_DIFFERENCE;
    grid.repeated().filter(move |(.., first, again)| differ(*first, *again)).map(move |(metric, pair, first, again)| {
        let (name, unit) = (name_in_sentence(metric.name()), metric.unit());
        let message = format!(
            "{pair}: {name}: {first:.2} {unit} at first and {again:.2} {unit} when measured again, expected the same"
        );
        Code::P2pNoisy.finding(Severity::Info, pair, message)
    })
}

/// Reduces each kind with many findings to its first finding, with the others as its evidence: 64 GPUs have
/// 4032 pairs.
pub(in crate::suite) fn limit_each_kind(
    findings: impl IntoIterator<Item = Finding>,
) -> Vec<Finding> {
    let mut kinds: Vec<Vec<Finding>> = Vec::new();
    for finding in findings {
        let alike = |kind: &&mut Vec<Finding>| {
            kind.first()
                .is_some_and(|f| f.code == finding.code && f.severity == finding.severity)
        };
        match kinds.iter_mut().find(alike) {
            Some(kind) => kind.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    kinds
        .into_iter()
        .flat_map(|kind| {
            if kind.len() > MOST_LISTED {
                merge_into_first(kind)
            } else {
                kind
            }
        })
        .collect()
}

/// The test's judgement: its summary is the first of the worst findings, or else `fine`.
pub(in crate::suite) fn judged(
    fine: String,
    findings: impl IntoIterator<Item = Finding>,
) -> Judgement {
    Judgement::summed_up(|| fine, limit_each_kind(findings))
}

fn merge_into_first(kind: Vec<Finding>) -> Vec<Finding> {
    let others = kind.len().saturating_sub(1);
    let mut all = kind.into_iter();
    let Some(first) = all.next() else {
        return Vec::new();
    };
    let (mut lines, mut represents, mut lacks) = (Vec::new(), first.represents, first.lacks);
    for other in all {
        lines.push(other.message.to_string());
        represents.push(other.subject);
        lacks = lacks.or(other.lacks);
    }
    let message = format!("{}; and {others} more of this kind", first.message).into();
    vec![
        Finding {
            message,
            represents,
            lacks,
            ..first
        }
        .seen_all(lines),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::flow::CopyMethod;
    use super::*;
    use machine::GpuId;
    use outcome::finding::Subject;

    const FLOW: Flow = Flow::write(Pair::of(0, 1), CopyMethod::Ce, 64, 2);

    #[test]
    fn wrong_data_is_reported_with_what_was_found_in_its_place() {
        let checked = CheckCounts {
            looked: 16,
            wrong: 3,
            zeros: 2,
            ones: 0,
            sentinels: 1,
            first: Some(5),
            last: Some(9),
        };
        let finding = wrong_data(&FLOW, &checked);
        assert_eq!(
            finding.message,
            "GPU 0 -> 1: copy engine writes 2 x 64 bytes: 3 of 16 words are wrong (2 are 0, 1 were never \
             written); the first at byte 20, so no speed is reported"
        );
        assert_eq!(finding.severity, Severity::Fail);
    }

    #[test]
    fn an_incomplete_check_is_not_a_pass() {
        let checked = CheckCounts {
            looked: 0,
            wrong: 0,
            zeros: 0,
            ones: 0,
            sentinels: 0,
            first: None,
            last: None,
        };
        assert!(
            wrong_data(&FLOW, &checked)
                .message
                .contains("0 of 16 words could be checked")
        );
    }

    #[test]
    fn many_of_a_kind_become_one() {
        let slow = |n: usize| {
            Code::P2pSlow.finding(Severity::Fail, GpuId::new(n), format!("GPU {n} is slow"))
        };
        assert_eq!(limit_each_kind((0..4).map(slow)).len(), 4);
        let said = limit_each_kind((0..9).map(slow).chain([Code::P2pLatency.finding(
            Severity::Warn,
            FLOW.pair,
            "y",
        )]));
        assert_eq!(said.len(), 2);
        let slow = said.iter().find(|f| f.is(Code::P2pSlow)).unwrap();
        assert_eq!(slow.message, "GPU 0 is slow; and 8 more of this kind");
        assert_eq!(slow.evidence.len(), 8);
        assert_eq!(
            slow.represents,
            (1..9)
                .map(|n| GpuId::new(n).into())
                .collect::<Vec<Subject>>()
        );
    }

    #[test]
    fn the_first_of_the_worst_is_the_summary() {
        let found = |severity, text: &str| Code::P2pSlow.finding(severity, FLOW.pair, text);
        let all = [
            found(Severity::Warn, "a"),
            found(Severity::Fail, "b"),
            found(Severity::Fail, "c"),
        ];
        assert_eq!(judged("fine".to_owned(), all).summary, "b");
        assert_eq!(
            judged("fine".to_owned(), [found(Severity::Info, "a")]).summary,
            "fine"
        );
    }
}
