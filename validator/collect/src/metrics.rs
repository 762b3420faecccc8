//! The text exposition format for Prometheus: the newest report of each node, and what was received and refused since
//! the program began.

use crate::intake::VERDICTS;
use crate::query::StoredReport;
use crate::refusal::RefusalReason;
use report::render::prometheus::family::Family;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the program began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Reports that were stored.
    pub(crate) new: AtomicU64,
    /// Reports that were already stored.
    pub(crate) known: AtomicU64,
    refused: [AtomicU64; RefusalReason::ALL.len()],
}

impl Counters {
    /// Counts a refusal.
    pub(crate) fn refuse(&self, why: RefusalReason) {
        let at = RefusalReason::ALL.iter().position(|one| *one == why);
        at.and_then(|at| self.refused.get(at)).map(|count| count.fetch_add(1, Ordering::Relaxed));
    }
}

/// All metrics; `now`: seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "counts and seconds are far below 2^53")]
pub(crate) fn text(nodes: &[StoredReport], reports: u32, counters: &Counters, now: i64) -> String {
    let name = |what: &'static str, help: &'static str| Family::new(what, help);
    let mut verdict = name("firstlight_node_verdict", "The verdict of the node's newest report: 1 for the one it has.");
    let mut received = name(
        "firstlight_node_received_timestamp_seconds",
        "When the node's newest report was received, seconds since 1970 UTC.",
    );
    let mut age = name("firstlight_node_report_age_seconds", "How old the node's newest report is.");
    let mut pair = name(
        "firstlight_node_slowest_pair_bytes_per_second",
        "Bandwidth of the slowest pair of GPUs in the node's newest report.",
    );
    let mut busbw = name(
        "firstlight_node_allreduce_bytes_per_second",
        "NCCL's best bus bandwidth of all_reduce in the node's newest report.",
    );
    let mut took = name("firstlight_node_duration_seconds", "How long the run of the node's newest report took.");
    let all = VERDICTS.map(|verdict| verdict.to_string());
    for row in nodes {
        let labels = [("node", row.node.as_str()), ("host", row.host.as_str())];
        verdict.states(&labels, "verdict", &all.each_ref().map(String::as_str), &row.verdict);
        received.add(&labels, row.received as f64);
        age.add(&labels, now.saturating_sub(row.received).max(0) as f64);
        let [slowest, sums, seconds] = row.figures;
        slowest.into_iter().for_each(|gb_s| pair.add(&labels, gb_s * 1e9));
        sums.into_iter().for_each(|gb_s| busbw.add(&labels, gb_s * 1e9));
        seconds.into_iter().for_each(|s| took.add(&labels, s));
    }
    let stored = Family::single("firstlight_collect_reports", "Stored reports.", &[], f64::from(reports));
    let mut taken = name("firstlight_collect_received_total", "Reports that were received.").into_counter();
    let mut refused = name("firstlight_collect_refused_total", "Requests that were refused.").into_counter();
    for (word, count) in [("new", &counters.new), ("known", &counters.known)] {
        taken.add(&[("report", word)], count.load(Ordering::Relaxed) as f64);
    }
    for (why, count) in RefusalReason::ALL.iter().zip(&counters.refused) {
        refused.add(&[("reason", why.status_and_word().1)], count.load(Ordering::Relaxed) as f64);
    }
    [verdict, received, age, pair, busbw, took, stored, taken, refused].iter().map(Family::text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A released line never changes: a metric that means something else gets another name.
    const HELP: [(&str, &str); 9] = [
        ("firstlight_node_verdict", "The verdict of the node's newest report: 1 for the one it has."),
        (
            "firstlight_node_received_timestamp_seconds",
            "When the node's newest report was received, seconds since 1970 UTC.",
        ),
        ("firstlight_node_report_age_seconds", "How old the node's newest report is."),
        (
            "firstlight_node_slowest_pair_bytes_per_second",
            "Bandwidth of the slowest pair of GPUs in the node's newest report.",
        ),
        (
            "firstlight_node_allreduce_bytes_per_second",
            "NCCL's best bus bandwidth of all_reduce in the node's newest report.",
        ),
        ("firstlight_node_duration_seconds", "How long the run of the node's newest report took."),
        ("firstlight_collect_reports", "Stored reports."),
        ("firstlight_collect_received_total", "Reports that were received."),
        ("firstlight_collect_refused_total", "Requests that were refused."),
    ];

    #[test]
    fn the_help_of_a_metric_is_the_same_in_every_version() {
        let node = StoredReport {
            digest: "0a".into(),
            node: "a1".into(),
            received: 0,
            host: "node7".into(),
            started: None,
            verdict: "PASS".into(),
            scope: "machine".into(),
            codes: String::new(),
            says: String::new(),
            gpus: String::new(),
            level: "quick".into(),
            figures: [Some(1.0); 3],
            signed: true,
        };
        let text = text(&[node], 1, &Counters::default(), 60);
        let help: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
        assert_eq!(help, HELP);
    }
}
