//! The verdict on several nodes, from the results of `firstlight nodes`. Fails closed, like the verdict on the machine.

use crate::child::End;
use contract::outcome::{Severity, Verdict};
use contract::schema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The result of the meeting; the key `nodes` in verdict.json.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Met {
    /// The verdict on all nodes.
    pub verdict: Verdict,
    /// The cause, when it is ERROR.
    pub cause: Option<String>,
    /// Codes of the findings, except harmless ones.
    pub codes: Vec<String>,
    /// The validator's exit status, when it had one.
    pub exit_status: Option<i32>,
    /// The names of the nodes, as far as this one knows them.
    pub nodes: Vec<String>,
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict)?;
        self.cause
            .as_ref()
            .map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

/// `firstlight.nodes/1`, as far as process 1 needs it.
#[derive(Deserialize)]
struct Report {
    schema: String,
    verdict: Verdict,
    nodes: Vec<Node>,
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
}

#[derive(Deserialize)]
struct Finding {
    code: String,
    severity: Severity,
}

impl Met {
    /// ERROR for a reason outside of a report.
    #[must_use]
    pub const fn failed(cause: String, exit_status: Option<i32>) -> Self {
        Self {
            verdict: Verdict::Error,
            cause: Some(cause),
            codes: Vec::new(),
            exit_status,
            nodes: Vec::new(),
        }
    }

    /// Accepts a verdict only if exit status and report agree.
    #[must_use]
    pub fn accept(end: End, reason: &str, report: Result<Vec<u8>, String>) -> Self {
        let End::Exited(status) = end else {
            return Self::failed(format!("firstlight nodes {end}"), None);
        };
        let Some(verdict) = Verdict::of_status(status) else {
            return Self::failed(format!("firstlight nodes {end}: {reason}"), Some(status));
        };
        let read = |bytes: Vec<u8>| {
            serde_json::from_slice::<Report>(&bytes).map_err(|e| format!("nodes.json: {e}"))
        };
        let report = match report.and_then(read) {
            Ok(report) => report,
            Err(cause) if reason.is_empty() => return Self::failed(cause, Some(status)),
            Err(cause) => return Self::failed(format!("{cause}: {reason}"), Some(status)),
        };
        if report.schema != schema::NODES || report.verdict != verdict {
            let cause = format!(
                "nodes.json has {} {}, the exit status is that of {verdict}",
                report.schema, report.verdict
            );
            return Self::failed(cause, Some(status));
        }
        if verdict.is_good() && report.nodes.len() < 2 {
            let cause = format!("nodes.json says {verdict} of {} nodes", report.nodes.len());
            return Self::failed(cause, Some(status));
        }
        let nodes = report.nodes.into_iter().map(|node| node.name).collect();
        let codes: BTreeSet<_> = report
            .findings
            .into_iter()
            .filter(|finding| finding.severity > Severity::Info)
            .map(|finding| finding.code)
            .collect();
        let codes: Vec<_> = codes.into_iter().collect();
        let cause = (verdict == Verdict::Error)
            .then(|| format!("firstlight nodes reached no verdict ({})", codes.join(", ")));
        Self {
            verdict,
            cause,
            codes,
            exit_status: Some(status),
            nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn report(verdict: &str) -> Result<Vec<u8>, String> {
        let finding =
            |code: &str, severity: &str| format!(r#"{{"code":"{code}","severity":"{severity}"}}"#);
        let findings = [
            finding("NODES-PATH", "fail"),
            finding("A", "info"),
            finding("NODES-BAD", "fail"),
        ]
        .join(",");
        Ok(format!(r#"{{"schema":"firstlight.nodes/1","verdict":"{verdict}","nodes":[{{"name":"a"}}],"findings":[{findings}]}}"#)
            .into_bytes())
    }

    #[test]
    fn a_verdict_counts_only_with_a_report_that_agrees() {
        let met = Met::accept(End::Exited(1), "", report("FAIL"));
        assert_eq!(
            (met.verdict, met.codes),
            (
                Verdict::Fail,
                vec!["NODES-BAD".to_owned(), "NODES-PATH".to_owned()]
            )
        );
        for (end, report, cause) in [
            (
                End::Exited(0),
                report("FAIL"),
                "nodes.json has firstlight.nodes/1 FAIL, the exit status is that of PASS",
            ),
            (
                End::Exited(0),
                report("PASS"),
                "nodes.json says PASS of 1 nodes",
            ),
            (
                End::Exited(0),
                Err("no such file".to_owned()),
                "no such file",
            ),
            (End::Exited(0), Ok(b"{".to_vec()), "nodes.json: "),
            (End::Exited(64), report("PASS"), "why"),
            (End::Signalled(9), report("PASS"), "signal 9"),
            (End::TimedOut(Duration::from_secs(3)), report("PASS"), "3"),
        ] {
            let met = Met::accept(end, "why", report);
            assert_eq!(met.verdict, Verdict::Error);
            assert!(
                met.cause.as_ref().is_some_and(|text| text.contains(cause)),
                "{met:?}"
            );
        }
    }
}
