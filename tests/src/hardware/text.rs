//! The tables for human readers: what was reached, and ours compared with theirs.

use super::compare::{Comparison, LimitResult};
use super::ours::Test;
use super::{OwnReport, Reference};
use std::fmt::Write;

/// The maximum number of GPUs for which times are promised.
const LIMIT_GPUS: usize = 4;

/// The total duration of some tests.
struct TestTime {
    what: &'static str,
    /// Seconds.
    took: f64,
    /// Seconds; `None` if nothing is promised: with more than four GPUs, or at level full.
    limit: Option<f64>,
}

impl TestTime {
    fn is_kept(&self) -> Option<bool> {
        self.limit.map(|limit| self.took <= limit)
    }
}

/// The tests that use GPUs without NCCL, those of NCCL, and all. The limits are at level quick 5 s, none, 8 s; at standard
/// 12 s, 15 s, 25 s.
fn test_times(ours: &OwnReport) -> [TestTime; 3] {
    let limits = match ours.level.as_str() {
        "quick" => [Some(5.0), None, Some(8.0)],
        "standard" => [Some(12.0), Some(15.0), Some(25.0)],
        _ => [None; 3],
    };
    let [gpus, nccl, all] = limits.map(|limit| limit.filter(|_| ours.gpus <= LIMIT_GPUS));
    [
        TestTime {
            what: "with GPUs",
            took: ours.seconds_of(Test::is_gpus),
            limit: gpus,
        },
        TestTime {
            what: "NCCL",
            took: ours.seconds_of(Test::is_nccl),
            limit: nccl,
        },
        TestTime {
            what: "all",
            took: ours.seconds,
            limit: all,
        },
    ]
}

/// Whether the promised times were kept; `None` if none is promised.
#[must_use]
pub fn in_time(ours: &OwnReport) -> Option<bool> {
    let kept: Vec<_> = test_times(ours)
        .iter()
        .filter_map(TestTime::is_kept)
        .collect();
    kept.first()?;
    Some(kept.into_iter().all(|kept| kept))
}

/// Lists tests with their times, and matrices with their smallest, median and largest figure.
#[must_use]
pub fn report_table(ours: &OwnReport) -> String {
    let mut text = format!("{:<16} {:<15} {:>9}\n", "test", "outcome", "seconds");
    // Writing into a String cannot fail, here and below.
    for test in &ours.tests {
        let _ = writeln!(
            text,
            "{:<16} {:<15} {:>9.3}",
            test.id, test.outcome, test.seconds
        );
    }
    for time in test_times(ours) {
        let held = time.limit.map_or_else(String::new, |limit| {
            format!(
                "   limit {limit} s  {}",
                if time.is_kept() == Some(true) {
                    "ok"
                } else {
                    "MISS"
                }
            )
        });
        let verdict = if time.what == "all" {
            ours.verdict.as_str()
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{:<16} {verdict:<15} {:>9.3}{held}",
            time.what, time.took
        );
    }
    let _ = writeln!(text);
    let _ = writeln!(
        text,
        "{:<24} {:>6} {:>10} {:>10} {:>10}",
        "matrix", "cells", "min", "median", "max"
    );
    for grid in &ours.grids {
        let cells = grid.cells().filter(|(_, value)| value.is_some()).count();
        let _ = match grid.range() {
            Some([low, middle, high]) => {
                writeln!(
                    text,
                    "{:<24} {cells:>6} {low:>10.2} {middle:>10.2} {high:>10.2}",
                    grid.name
                )
            }
            None => writeln!(text, "{:<24} {cells:>6} {:>10}", grid.name, "none"),
        };
    }
    text
}

/// Lists the matrices of a reference: a line each, then the ratios cell by cell.
#[must_use]
pub fn comparison_table(reference: &Reference, comparisons: &[Comparison]) -> String {
    let mut text = format!("against {}: ours / theirs\n", reference.path.display());
    let _ = writeln!(
        text,
        "{:<23} {:>6} {:>6} {:>6} {:>5}       worst: ours, theirs",
        "matrix", "min", "median", "max", "limit"
    );
    for comparison in comparisons {
        let _ = writeln!(text, "{}", summary(comparison));
    }
    for comparison in comparisons {
        let _ = write!(
            text,
            "\n{}, ours / theirs\n{}",
            comparison.name,
            ratios(comparison)
        );
    }
    text
}

fn summary(comparison: &Comparison) -> String {
    let word = match (
        comparison.count(LimitResult::Missed),
        comparison.count(LimitResult::Better),
    ) {
        (0, 0) => "ok  ",
        (0, _) => "over",
        _ => "MISS",
    };
    let range = comparison.range().map_or_else(
        || format!("{:>6} {:>6} {:>6}", "-", "-", "-"),
        |[low, middle, high]| format!("{low:>6.3} {middle:>6.3} {high:>6.3}"),
    );
    let worst = comparison
        .worst()
        .map_or_else(String::new, |((row, column), cell)| {
            let ours = cell
                .ours
                .map_or_else(|| "none".to_owned(), |ours| format!("{ours:.2}"));
            format!("{row},{column}: {ours}, {:.2}", cell.theirs)
        });
    format!(
        "{:<23} {range} {:>3.0} % {word} {worst}",
        comparison.name,
        comparison.limit * 100.0
    )
}

fn ratios(comparison: &Comparison) -> String {
    let mut text = String::new();
    for row in &comparison.cells {
        let cell = |cell: &Option<_>| match cell {
            None => format!("{:>8}", "N/A"),
            Some(cell) => {
                let sign = match comparison.limit_result(cell) {
                    LimitResult::Within => ' ',
                    LimitResult::Better => '+',
                    LimitResult::Missed => '!',
                };
                let ratio = cell
                    .ratio()
                    .map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.3}"));
                format!("{ratio:>7}{sign}")
            }
        };
        let cells: String = row.iter().map(cell).collect();
        let _ = writeln!(text, "{}", cells.trim_end());
    }
    text
}
