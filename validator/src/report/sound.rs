//! Checks that a report is consistent: its verdict follows from its outcomes, and no outcome is better than
//! its findings. An inconsistent report is refused. Pure.

use super::{Report, TestEntry};
use crate::outcome::Matrix;
use crate::outcome::scope::Scope;
use crate::outcome::{self, Judgement, Outcome, Verdict};
use std::collections::BTreeSet;

/// The contradiction, in one line.
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
    let verdict = outcome::verdict(&report.tests.iter().map(|t| t.outcome).collect::<Vec<_>>());
    if report.verdict != verdict {
        return Some(format!("verdict is {}, but its tests give {verdict}", report.verdict));
    }
    let told = |name: &str, what: &str, is: &str| {
        let other = report.workload_env.get(name).filter(|told| *told != is)?;
        Some(format!("workload_env.{name}: read {other:?}, its {what} is {is}"))
    };
    told("FIRSTLIGHT_VERDICT", "verdict", &verdict.to_string())
        .or_else(|| told("FIRSTLIGHT_SCOPE", "scope", &report.scope.to_string()))
        .or_else(|| unproven(report))
}

/// A good verdict on a machine whose GPUs no test has used.
fn unproven(report: &Report) -> Option<String> {
    let good = matches!(report.verdict, Verdict::Pass | Verdict::Degraded);
    let used = |t: &TestEntry| t.id == GPUS_ARE_USED && t.outcome != Outcome::NotApplicable;
    let of_gpus = matches!(report.scope, Scope::Machine | Scope::Gpus(_));
    let claims = good && of_gpus && !report.gpus.is_empty();
    (claims && !report.tests.iter().any(used))
        .then(|| format!("verdict is {} for the machine, but no test ran on its GPUs", report.verdict))
}

/// The test that starts CUDA on every GPU; no other can run without it.
const GPUS_ARE_USED: &str = "cuda";

fn of_a_test(test: &TestEntry) -> Option<String> {
    if test.id.is_empty() || !test.id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Some("allowed in an id: letters, digits and -".to_owned());
    }
    let found = Judgement::of("", test.findings.clone()).outcome();
    if badness(found) > badness(test.outcome) {
        return Some("its outcome is better than its findings".to_owned());
    }
    test.matrices.iter().find(|matrix| !is_whole(matrix)).map(|matrix| {
        let (rows, columns) = (matrix.rows.len(), matrix.columns.len());
        format!("matrix {:?} does not have {rows} rows of {columns} values", matrix.name)
    })
}

/// How bad an outcome is: it may be worse than its findings, but never better.
const fn badness(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Pass | Outcome::NotApplicable => 0,
        Outcome::Warn => 1,
        Outcome::Fail | Outcome::Error => 2,
    }
}

fn is_whole(matrix: &Matrix) -> bool {
    matrix.values.len() == matrix.rows.len()
        && matrix.values.iter().all(|row| row.len() == matrix.columns.len())
}
