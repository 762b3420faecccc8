//! The text exposition format for Prometheus: the newest report of each node, and what was received and refused since
//! the program began.

use crate::intake::VERDICTS;
use crate::query::StoredReport;
use crate::refusal::RefusalReason;
use flate2::Compression;
use flate2::write::GzEncoder;
use report::render::prometheus::family::Family;
use std::io::{self, Write};
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
        at.and_then(|at| self.refused.get(at))
            .map(|count| count.fetch_add(1, Ordering::Relaxed));
    }
}

/// Where the lines go: one metric is built at a time, since a fleet has many lines.
enum Lines {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Lines {
    fn add(&mut self, family: &Family) -> io::Result<()> {
        let text = family.text();
        match self {
            Self::Plain(to) => to.write_all(text.as_bytes()),
            Self::Gzip(to) => to.write_all(text.as_bytes()),
        }
    }
}

/// All metrics, compressed if `gzip`; `now`: seconds since 1970.
///
/// # Errors
/// The compressor's error.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and seconds are far below 2^53"
)]
pub(crate) fn text(
    nodes: &[StoredReport],
    reports: u32,
    counters: &Counters,
    now: i64,
    gzip: bool,
) -> io::Result<Vec<u8>> {
    let mut lines = match gzip {
        true => Lines::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
        false => Lines::Plain(Vec::new()),
    };
    let all = VERDICTS.map(|verdict| verdict.to_string());
    let verdict_help = "The verdict of the node's newest report: 1 for the one it has.";
    let mut verdict = Family::new("firstlight_node_verdict", verdict_help);
    for row in nodes {
        let labels = [("node", row.node.as_str()), ("host", row.host.as_str())];
        verdict.states(
            &labels,
            "verdict",
            &all.each_ref().map(String::as_str),
            &row.verdict,
        );
    }
    lines.add(&verdict)?;
    drop(verdict);
    let figures: [(&'static str, &'static str, Figure); 6] = [
        (
            "firstlight_node_received_timestamp_seconds",
            "When the node's newest report was received, seconds since 1970 UTC.",
            |row, _| Some(row.received as f64),
        ),
        (
            "firstlight_node_report_age_seconds",
            "How old the node's newest report is.",
            |row, now| Some(now.saturating_sub(row.received).max(0) as f64),
        ),
        (
            "firstlight_node_slowest_pair_bytes_per_second",
            "Bandwidth of the slowest pair of GPUs in the node's newest report.",
            |row, _| row.figures[0].map(|gb_s| gb_s * 1e9),
        ),
        (
            "firstlight_node_allreduce_bytes_per_second",
            "NCCL's best bus bandwidth of all_reduce in the node's newest report.",
            |row, _| row.figures[1].map(|gb_s| gb_s * 1e9),
        ),
        (
            "firstlight_node_duration_seconds",
            "How long the run of the node's newest report took.",
            |row, _| row.figures[2],
        ),
        (
            "firstlight_node_verdict_is_late",
            "Whether the node's verdict is of a worse report of an earlier run, which arrived after the newest one.",
            |row, _| Some(f64::from(u8::from(row.late))),
        ),
    ];
    for (name, help, figure) in figures {
        let mut family = Family::new(name, help);
        for row in nodes {
            let labels = [("node", row.node.as_str()), ("host", row.host.as_str())];
            figure(row, now)
                .into_iter()
                .for_each(|value| family.add(&labels, value));
        }
        lines.add(&family)?;
    }
    lines.add(&Family::single(
        "firstlight_collect_reports",
        "Stored reports.",
        &[],
        f64::from(reports),
    ))?;
    let name = |what: &'static str, help: &'static str| Family::new(what, help).into_counter();
    let mut taken = name(
        "firstlight_collect_received_total",
        "Reports that were received.",
    );
    let mut refused = name(
        "firstlight_collect_refused_total",
        "Requests that were refused.",
    );
    for (word, count) in [("new", &counters.new), ("known", &counters.known)] {
        taken.add(&[("report", word)], count.load(Ordering::Relaxed) as f64);
    }
    for (why, count) in RefusalReason::ALL.iter().zip(&counters.refused) {
        refused.add(
            &[("reason", why.status_and_word().1)],
            count.load(Ordering::Relaxed) as f64,
        );
    }
    lines.add(&taken)?;
    lines.add(&refused)?;
    match lines {
        Lines::Plain(text) => Ok(text),
        Lines::Gzip(to) => to.finish(),
    }
}

/// A figure of a node's newest report; the second parameter is the time now.
type Figure = fn(&StoredReport, i64) -> Option<f64>;

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    /// A released line never changes: a metric that means something else gets another name.
    const HELP: [(&str, &str); 10] = [
        (
            "firstlight_node_verdict",
            "The verdict of the node's newest report: 1 for the one it has.",
        ),
        (
            "firstlight_node_received_timestamp_seconds",
            "When the node's newest report was received, seconds since 1970 UTC.",
        ),
        (
            "firstlight_node_report_age_seconds",
            "How old the node's newest report is.",
        ),
        (
            "firstlight_node_slowest_pair_bytes_per_second",
            "Bandwidth of the slowest pair of GPUs in the node's newest report.",
        ),
        (
            "firstlight_node_allreduce_bytes_per_second",
            "NCCL's best bus bandwidth of all_reduce in the node's newest report.",
        ),
        (
            "firstlight_node_duration_seconds",
            "How long the run of the node's newest report took.",
        ),
        (
            "firstlight_node_verdict_is_late",
            "Whether the node's verdict is of a worse report of an earlier run, which arrived after the newest one.",
        ),
        ("firstlight_collect_reports", "Stored reports."),
        (
            "firstlight_collect_received_total",
            "Reports that were received.",
        ),
        (
            "firstlight_collect_refused_total",
            "Requests that were refused.",
        ),
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
            late: false,
        };
        let made = |gzip| {
            super::text(
                std::slice::from_ref(&node),
                1,
                &Counters::default(),
                60,
                gzip,
            )
            .unwrap()
        };
        let text = String::from_utf8(made(false)).unwrap();
        let mut unpacked = String::new();
        GzDecoder::new(made(true).as_slice())
            .read_to_string(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, text);
        let help: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '))
            .collect();
        assert_eq!(help, HELP);
    }
}
