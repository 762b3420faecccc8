//! The text exposition format 0.0.4, for node_exporter's textfile collector. Every metric is a gauge in base
//! units; values that the report lacks are absent, never 0.

pub mod family;

use super::words;
use crate::Report;
use family::Family;
use outcome::Matrix;
use outcome::finding::Severity;
use outcome::text::time;
use outcome::{Outcome, Verdict};
use std::collections::BTreeMap;

const VERDICTS: [Verdict; 4] = [
    Verdict::Pass,
    Verdict::Degraded,
    Verdict::Fail,
    Verdict::Error,
];
/// The outcomes by their JSON names.
const OUTCOMES: [(Outcome, &str); 5] = [
    (Outcome::Pass, "pass"),
    (Outcome::Warn, "warn"),
    (Outcome::Fail, "fail"),
    (Outcome::Error, "error"),
    (Outcome::NotApplicable, "not-applicable"),
];

/// Every metric of a report; `with_matrices`: also the values of each pair of GPUs, which are most of the series.
#[must_use]
pub fn families(report: &Report, with_matrices: bool) -> String {
    let mut all = run(report);
    all.extend(tests(report));
    all.push(findings(report));
    if with_matrices {
        all.extend(matrices(report));
    }
    all.push(effects(report));
    all.iter().map(Family::text).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds of this age are far below 2^53"
)]
fn run(report: &Report) -> Vec<Family> {
    let facts = words::facts(report);
    let facts: Vec<_> = facts
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let info = Family::single(
        "firstlight_info",
        "What was validated, as labels; always 1.",
        &facts,
        1.0,
    );

    let mut verdict = Family::new(
        "firstlight_verdict",
        "The verdict: 1 for the one that was given.",
    );
    let names = VERDICTS.map(|verdict| verdict.to_string());
    verdict.states(
        &[],
        "verdict",
        &names.each_ref().map(String::as_str),
        &report.verdict.to_string(),
    );

    let scope = Family::single(
        "firstlight_scope",
        "The scope of the verdict; always 1. A verdict whose scope is not machine says nothing about its GPUs.",
        &[("scope", &report.scope.to_string())],
        1.0,
    );

    let mut start = Family::new(
        "firstlight_start_time_seconds",
        "When the run began, seconds since 1970 UTC.",
    );
    if let Some(seconds) = time::since_1970(&report.started) {
        start.add(&[], seconds as f64);
    }
    let took = Family::single(
        "firstlight_duration_seconds",
        "How long the run took.",
        &[],
        report.seconds,
    );

    let mut boot = Family::new(
        "firstlight_boot_stage_duration_seconds",
        "How long a stage of the boot took.",
    );
    for stage in &report.boot {
        boot.add(&[("stage", &stage.stage)], stage.seconds);
    }

    let mut gpus = Family::new("firstlight_gpu_info", "One for each NVIDIA GPU; always 1.");
    for gpu in &report.gpus {
        let bdf = gpu.bdf.to_string();
        let labels = [
            ("name", &gpu.name),
            ("uuid", &gpu.uuid),
            ("vbios", &gpu.vbios),
        ];
        let labels = labels
            .iter()
            .filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        gpus.add(
            &[("bdf", bdf.as_str())]
                .into_iter()
                .chain(labels)
                .collect::<Vec<_>>(),
            1.0,
        );
    }
    vec![info, verdict, scope, start, took, boot, gpus]
}

fn tests(report: &Report) -> [Family; 2] {
    let mut outcomes = Family::new(
        "firstlight_test_outcome",
        "How a test ended: 1 for the outcome that it had.",
    );
    let mut seconds = Family::new("firstlight_test_duration_seconds", "How long a test took.");
    for test in &report.tests {
        let id = [("test", test.id.as_str())];
        let is = OUTCOMES
            .iter()
            .find(|(outcome, _)| *outcome == test.outcome)
            .map_or("", |(_, name)| name);
        outcomes.states(&id, "outcome", &OUTCOMES.map(|(_, name)| name), is);
        seconds.add(&id, test.seconds);
    }
    [outcomes, seconds]
}

fn findings(report: &Report) -> Family {
    let mut counts: BTreeMap<(Severity, &str), f64> = BTreeMap::new();
    for finding in report.tests.iter().flat_map(|t| &t.findings) {
        *counts.entry((finding.severity, &finding.code)).or_default() += 1.0;
    }
    let mut family = Family::new(
        "firstlight_findings",
        "How many findings have that severity and code.",
    );
    for ((severity, code), count) in counts {
        family.add(
            &[
                ("severity", &words::severity(severity).to_lowercase()),
                ("code", code),
            ],
            count,
        );
    }
    family
}

fn matrices(report: &Report) -> [Family; 4] {
    let mut rates = Family::new(
        "firstlight_matrix_bytes_per_second",
        "A matrix of speeds; row: from, column: to.",
    );
    let mut times = Family::new(
        "firstlight_matrix_seconds",
        "A matrix of times; row: from, column: to.",
    );
    let mut ratios = Family::new(
        "firstlight_matrix_ratio",
        "A matrix without a unit; of connectivity: 1 where the row's GPU may reach the column's, else 0.",
    );
    let mut others = Family::new(
        "firstlight_matrix_value",
        "A matrix in the unit that its label names, as reported.",
    );
    for test in &report.tests {
        for matrix in &test.matrices {
            for (row, column, value) in cells(matrix) {
                let place = [
                    ("test", test.id.as_str()),
                    ("matrix", &matrix.name),
                    ("row", &row),
                    ("column", &column),
                ];
                match matrix.unit.as_str() {
                    "GB/s" => rates.add(&place, value * 1e9),
                    "s" => times.add(&place, value),
                    // A division rounds once; 1e-6 itself is rounded already.
                    "us" => times.add(&place, value / 1e6),
                    "ns" => times.add(&place, value / 1e9),
                    "1" => ratios.add(&place, value),
                    unit => others.add(&[&place[..], &[("unit", unit)]].concat(), value),
                }
            }
        }
    }
    [rates, times, ratios, others]
}

/// The existing values, with the labels of their row and column, or their indices if there are none.
fn cells(matrix: &Matrix) -> impl Iterator<Item = (String, String, f64)> {
    let name =
        |labels: &[String], n: usize| labels.get(n).cloned().unwrap_or_else(|| n.to_string());
    matrix
        .values
        .iter()
        .enumerate()
        .flat_map(move |(row, values)| {
            let cell = move |(column, value): (usize, &Option<f64>)| {
                Some((
                    name(&matrix.rows, row),
                    name(&matrix.columns, column),
                    (*value)?,
                ))
            };
            values.iter().enumerate().filter_map(cell)
        })
}

fn effects(report: &Report) -> Family {
    let mut family = Family::new(
        "firstlight_effect_ratio",
        "Effect of switching something on, as a ratio: 1 is no change.",
    );
    for (name, ratio) in &report.effects {
        if let Some(ratio) = ratio {
            family.add(&[("effect", name)], *ratio);
        }
    }
    family
}

#[cfg(test)]
mod tests;
