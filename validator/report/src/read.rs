//! Reads a report from its file, strictly: another schema, a missing or duplicate key, too many values, and
//! contradictions are errors; `json` checks all but the last. An incomplete report must not be shown as a complete one. Also generates the JSON Schema of a report from the types that are written.

use super::json::{Refused, document};
use super::{Report, SCHEMA, TestEntry, earlier};
use outcome::scope::Scope;
use outcome::{self, Matrix, Outcome, Verdict};
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;
use std::collections::BTreeSet;

/// Why a file is not a report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON with another schema.
    #[error("schema is {0}, allowed: \"{SCHEMA}\"")]
    Schema(String),
    /// A report with something missing, unknown or of the wrong type.
    #[error("not a valid {SCHEMA}: {0}")]
    Shape(String),
    /// A complete report that contradicts itself.
    #[error("contradicts itself: {0}")]
    Contradiction(String),
}

/// The keys of a report. Those of a later version are skipped.
const KEYS: [&str; 22] = [
    "schema",
    "verdict",
    "answer",
    "causes",
    "scope",
    "covers",
    "level",
    "root",
    "started",
    "seconds",
    "boot",
    "appliance",
    "machine",
    "next_step",
    "driver",
    "known_problems",
    "gpus",
    "fabric",
    "tests",
    "effects",
    "workload_env",
    "workload_reasons",
];

/// Reads a report.
///
/// # Errors
/// See [`ReportError`].
pub fn from_json(bytes: &[u8]) -> Result<Report, ReportError> {
    let mut report: Report = document(bytes, SCHEMA, &KEYS).map_err(|refused| match refused {
        Refused::NotJson(why) => ReportError::NotJson(why),
        Refused::Schema(read) => ReportError::Schema(read),
        Refused::Shape(why) => ReportError::Shape(why),
    })?;
    earlier::complete(&mut report);
    // Causes and answer follow from the findings: they are computed again, not taken from the file.
    report.explain();
    contradiction(&report).map_or(Ok(report), |why| Err(ReportError::Contradiction(why)))
}

/// The schema, draft 2020-12. Keys that it does not name are allowed: later versions of the same format add some.
#[must_use]
pub fn schema() -> Value {
    // The schema of the written form, in which a key that is always present is required.
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(bound_numbers));
    let mut schema = settings.into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.to_value()
}

/// Replaces Rust's number types, which schemars writes as `format`, by limits: `format` has no such words in JSON Schema, and
/// strict validators refuse a schema with one that they do not know.
fn bound_numbers(schema: &mut Schema) {
    let (least, most) = match schema.get("format").and_then(Value::as_str) {
        Some("double" | "float") => (None, None),
        Some("uint8") => (Some(0), Some(u64::from(u8::MAX))),
        Some("uint16") => (Some(0), Some(u64::from(u16::MAX))),
        Some("uint32") => (Some(0), Some(u64::from(u32::MAX))),
        Some("uint64" | "uint") => (Some(0), Some(u64::MAX)),
        _ => return,
    };
    schema.remove("format");
    for (name, limit) in [("minimum", least), ("maximum", most)] {
        if let Some(limit) = limit {
            schema.insert(name.to_owned(), limit.into());
        }
    }
}

// Checks that a report is consistent: its verdict follows from its outcomes, and no outcome is better than
// its findings. An inconsistent report is refused. Pure.

/// The first contradiction, in one line; `None` if there is none.
pub(super) fn contradiction(report: &Report) -> Option<String> {
    let mut ids = BTreeSet::new();
    for test in &report.tests {
        if let Some(why) = test_contradiction(test) {
            return Some(format!("test {:?}: {why}", test.id));
        }
        if !ids.insert(&test.id) {
            return Some(format!("test {:?}: listed twice", test.id));
        }
    }
    let verdict = outcome::verdict(&report.tests.iter().map(|t| t.outcome).collect::<Vec<_>>());
    if report.verdict != verdict {
        return Some(format!(
            "verdict is {}, but its tests give {verdict}",
            report.verdict
        ));
    }
    let differs = |name: &str, what: &str, is: &str| {
        let other = report.workload_env.get(name).filter(|value| *value != is)?;
        Some(format!(
            "workload_env.{name}: read {other:?}, its {what} is {is}"
        ))
    };
    differs("FIRSTLIGHT_VERDICT", "verdict", &verdict.to_string())
        .or_else(|| differs("FIRSTLIGHT_SCOPE", "scope", &report.scope.to_string()))
        .or_else(|| unproven_claim(report))
}

/// The contradiction of a good verdict on a machine whose GPUs no test has used.
fn unproven_claim(report: &Report) -> Option<String> {
    let good = matches!(report.verdict, Verdict::Pass | Verdict::Degraded);
    let used = |t: &TestEntry| t.id == GPUS_ARE_USED && t.outcome != Outcome::NotApplicable;
    let of_gpus = matches!(report.scope, Scope::Machine | Scope::Gpus(_));
    let claims = good && of_gpus && !report.gpus.is_empty();
    (claims && !report.tests.iter().any(used)).then(|| {
        format!(
            "verdict is {} for the machine, but no test ran on its GPUs",
            report.verdict
        )
    })
}

/// The test that starts CUDA on every GPU; no other can run without it.
const GPUS_ARE_USED: &str = "cuda";

fn test_contradiction(test: &TestEntry) -> Option<String> {
    if test.id.is_empty()
        || !test
            .id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Some("allowed in an id: letters, digits and -".to_owned());
    }
    let found = outcome::of_severities(test.findings.iter().map(|finding| finding.severity));
    if badness(found) > badness(test.outcome) {
        return Some("its outcome is better than its findings".to_owned());
    }
    test.matrices
        .iter()
        .find(|matrix| !has_valid_shape(matrix))
        .map(|matrix| {
            let (rows, columns) = (matrix.rows.len(), matrix.columns.len());
            format!(
                "matrix {:?} does not have {rows} rows of {columns} values",
                matrix.name
            )
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

fn has_valid_shape(matrix: &Matrix) -> bool {
    matrix.values.len() == matrix.rows.len()
        && matrix
            .values
            .iter()
            .all(|row| row.len() == matrix.columns.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_whose_values_are_counted_are_those_of_the_schema() {
        let schema = schema();
        let of_schema: BTreeSet<_> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(of_schema, BTreeSet::from(KEYS));
    }
}
