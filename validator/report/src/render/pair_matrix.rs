//! The result of every pair as a matrix: the measured speed if data arrives, otherwise the fault that was found.

use crate::Report;
use outcome::finding::{Code, FindingEntry, Severity};
use outcome::metric::Metric;
use outcome::platform::Pair;
use outcome::table::{PairRow, pair_rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Findings that make a pair slow.
const SLOW: &[Code] = &[Code::P2pSlow, Code::P2pStaged];

/// Two figures that differ by less are of one kind: copies by the copy engine and by the sample program.
const NEAR: f64 = 1.25;

/// The matrix; `None` if no pair was tried.
#[must_use]
pub fn pairs(report: &Report) -> Option<String> {
    let rows = report.tests.iter().flat_map(|test| pair_rows(&test.tables));
    let results: BTreeMap<Pair, PairRow> = rows.map(|row| (row.pair(), row)).collect();
    let gpus = report.gpus.len();
    if results.is_empty() {
        return None;
    }
    let cell = |pair: Pair| match results.get(&pair) {
        _ if pair.from == pair.to => "-".to_owned(),
        Some(row) if row.is_good() => speed(report, pair).unwrap_or_else(|| row.result.clone()),
        Some(row) => row.result.clone(),
        None => "untried".to_owned(),
    };
    let good = results.values().filter(|row| row.is_good()).count();
    let all = gpus * gpus.saturating_sub(1);
    let columns: String = (0..gpus).map(|n| format!("{n:>9}")).collect();
    let mut text = format!(
        "Pairs: {good} of {all} ok; from row to column, GB/s where data arrives\n   GPU{columns}\n"
    );
    for from in 0..gpus {
        let cells: String = (0..gpus)
            .map(|to| format!("{:>9}", cell(Pair::of(from, to))))
            .collect();
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{from:>6}{cells}");
    }
    Some(text)
}

/// The speed of a pair, marked if it is too low.
fn speed(report: &Report, pair: Pair) -> Option<String> {
    let matrix = report
        .tests
        .iter()
        .flat_map(|test| &test.matrices)
        .find(|m| m.metric() == Some(Metric::SAMPLE_UNI_ON))?;
    let value = (*matrix.values.get(pair.from.index())?.get(pair.to.index())?)?;
    let mut found = report
        .tests
        .iter()
        .flat_map(|test| &test.findings)
        .filter(|f| f.severity > Severity::Info);
    // A finding about another figure of the pair, such as reads or both directions, does not make this one slow.
    let this = |f: &FindingEntry| match (f.measured.as_f64(), f.expected.as_f64()) {
        (Some(measured), Some(least)) => value < least && value < measured * NEAR,
        _ => true,
    };
    let slow = found.any(|f| {
        f.about().named_pairs() == [pair] && SLOW.iter().any(|code| f.is(*code)) && this(f)
    });
    Some(if slow {
        slow_cell(value)
    } else {
        format!("{value:.2}")
    })
}

/// A speed that is too low: at most 8 characters up to 999 GB/s, so that a cell begins with a space.
fn slow_cell(value: f64) -> String {
    if value < 9.95 {
        format!("slow {value:.1}")
    } else {
        format!("slow {value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture::{gpu, report, test};
    use outcome::table::Table;
    use outcome::{Matrix, Outcome};
    use serde_json::json;

    #[test]
    fn good_pairs_have_their_speed_and_bad_ones_what_was_found() {
        let mut tried = test("p2p-integrity", Outcome::Fail, "", vec![]);
        let rows = [
            (0, 1, "ZEROS"),
            (0, 2, "ok"),
            (1, 0, "HANG"),
            (1, 2, "ok"),
            (2, 0, "ok"),
        ];
        let rows = rows.map(|(from, to, result)| PairRow::new(Pair::of(from, to), result));
        tried.tables = vec![Table::Pairs(rows.into())];
        let slow = Code::P2pSlow.finding(Severity::Warn, Pair::of(2, 0), "8 GB/s");
        let read = Code::P2pSlow.finding(Severity::Warn, Pair::of(0, 2), "8 GB/s");
        let read = read.values(json!(8.4), json!(11.0), Some("GB/s"));
        let mut measured = test("p2p-bandwidth", Outcome::Warn, "", vec![slow, read]);
        let labels: Vec<_> = (0..3).map(|n| n.to_string()).collect();
        let values = vec![
            vec![Some(900.0), None, Some(25.9)],
            vec![None, None, None],
            vec![Some(8.44), None, None],
        ];
        let name = Metric::SAMPLE_UNI_ON.name().to_owned();
        measured.matrices = vec![Matrix {
            name,
            unit: "GB/s".into(),
            rows: labels.clone(),
            columns: labels,
            values,
        }];
        let mut report = report(vec![tried, measured]);
        report.gpus = vec![gpu("a"), gpu("b"), gpu("c")];
        let expected = "\
Pairs: 3 of 6 ok; from row to column, GB/s where data arrives
   GPU        0        1        2
     0        -    ZEROS    25.90
     1     HANG        -       ok
     2 slow 8.4  untried        -
";
        assert_eq!(pairs(&report).unwrap(), expected);
        report.tests.clear();
        assert_eq!(pairs(&report), None);
    }

    #[test]
    fn a_slow_cell_has_a_space_on_both_sides_of_its_word() {
        let cells = [
            (0.04, "slow 0.0"),
            (9.94, "slow 9.9"),
            (9.96, "slow 10"),
            (18.27, "slow 18"),
            (342.6, "slow 343"),
        ];
        for (value, cell) in cells {
            assert_eq!((slow_cell(value).as_str(), cell.len() < 9), (cell, true));
        }
    }
}
