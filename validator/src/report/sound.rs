//! Does a report agree with itself? Its verdict and its outcomes follow from what was found, so one where they
//! do not was not written by these tests, and nothing that it says can be believed. Pure.

use super::{Matrix, Report, TestEntry};
use crate::finding::Severity;
use crate::outcome::{Judgement, Outcome, Verdict};
use std::collections::BTreeSet;

/// What contradicts itself, in one line.
pub(super) fn contradiction(report: &Report) -> Option<String> {
    let mut ids = BTreeSet::new();
    for test in &report.tests {
        if let Some(why) = of_a_test(test) {
            return Some(format!("test {:?}: {why}", test.id));
        }
        if !ids.insert(&test.id) {
            return Some(format!("test {:?}: listed twice", test.id));
        }
    }
    let verdict = Verdict::of(&report.tests.iter().map(|t| t.outcome).collect::<Vec<_>>());
    if report.verdict != verdict {
        return Some(format!("verdict: read {}, its tests come to {verdict}", report.verdict));
    }
    let told = report.workload_env.get("FIRSTLIGHT_VERDICT");
    let other = told.filter(|told| **told != verdict.to_string())?;
    Some(format!("workload_env.FIRSTLIGHT_VERDICT: read {other:?}, its verdict is {verdict}"))
}

fn of_a_test(test: &TestEntry) -> Option<String> {
    if test.id.is_empty() || !test.id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Some("allowed in an id: letters, digits and -".to_owned());
    }
    let nothing = test.findings.iter().all(|f| f.severity == Severity::Info);
    let found = Judgement::of("", test.findings.clone()).outcome();
    if found != test.outcome && !(nothing && test.outcome == Outcome::NotApplicable) {
        return Some("its outcome does not follow from its findings".to_owned());
    }
    test.matrices.iter().find(|matrix| !is_whole(matrix)).map(|matrix| {
        let (rows, columns) = (matrix.rows.len(), matrix.columns.len());
        format!("matrix {:?} has not {rows} rows of {columns} values", matrix.name)
    })
}

fn is_whole(matrix: &Matrix) -> bool {
    matrix.values.len() == matrix.rows.len()
        && matrix.values.iter().all(|row| row.len() == matrix.columns.len())
}
