//! The figures of a report, by name: what can be compared with another run, and how far two runs of an unchanged
//! machine may differ. Pure. A cell that is empty, zero or not a number is no figure.

use super::{Report, TestEntry};
use crate::gain::LARGE;
use crate::stats::{BANDWIDTH, LATENCY, STAGED};
use outcome::Matrix;
use outcome::metric::{Clock, Metric};
use serde_json::Value;
use std::collections::BTreeMap;

/// The unit of a matrix of 1 and 0, for yes and no.
pub(super) const YES_NO: &str = "1";

/// Figures of one kind: those of a matrix, or of a column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// Their unit.
    pub unit: String,
    /// Whether the places are pairs of GPUs, and not sizes.
    pub of_pairs: bool,
    /// Each by its place (`0 -> 1`, `all_reduce 8388608 float sum`), in the report's order.
    pub cells: Vec<(String, f64)>,
}

/// All series by test and name: `p2p-bandwidth/ce.write`, `nccl-allreduce/nccl.all_reduce/out-of-place busbw`.
pub(super) type Figures = BTreeMap<String, Series>;

/// All figures of a report. Times of the host (`.cpu`) are left out, because they follow the host's load.
pub(super) fn figures(report: &Report) -> Figures {
    let mut all = Figures::new();
    for test in &report.tests {
        for matrix in test.matrices.iter().filter(|m| is_larger_better(&m.unit).is_some() && !of_host_clock(m)) {
            add_series(&mut all, format!("{}/{}", test.id, matrix.name), matrix_series(matrix));
        }
        test.tables.iter().for_each(|table| add_table_series(&mut all, test, table));
    }
    all
}

fn of_host_clock(matrix: &Matrix) -> bool {
    matches!(matrix.metric(), Some(Metric::SmallCopy { clock: Clock::Host, .. }))
}

/// Whether a larger value is better for this unit; `None` for a unit that is not compared.
pub(super) fn is_larger_better(unit: &str) -> Option<bool> {
    match unit {
        "GB/s" | "10^12/s" | YES_NO => Some(true),
        "us" | "ns" => Some(false),
        _ => None,
    }
}

/// How far two runs of an unchanged machine may differ, as a fraction of the figure: twice the scatter that the samples
/// of one figure may have ([`crate::stats`]), because either run may deviate by that much.
pub(super) fn tolerance(series: &str, unit: &str) -> f64 {
    let name = series.split_once('/').map_or(series, |(_, name)| name);
    // These use host memory, or all links at the same time.
    let table = name.split_once('/').map_or(name, |(table, _)| table);
    let shared = Metric::named(name).is_some_and(Metric::is_shared)
        || table.starts_with("nccl.")
        || ["together", "products"].contains(&table);
    match unit {
        YES_NO => 0.0,
        "us" | "ns" => 2.0 * LATENCY.spread,
        // Small sizes are among them, and their speed depends on the latency.
        _ if name.starts_with("bandwidth.by-size") => 2.0 * LATENCY.spread,
        _ if shared => 2.0 * STAGED.spread,
        _ => 2.0 * BANDWIDTH.spread,
    }
}

/// Whether `new` is worse than `old` by more than `tolerance`. With both exchanged it says whether `new` is better.
pub(super) fn is_worse(new: f64, old: f64, tolerance: f64, more: bool) -> bool {
    let (low, high) = if more { (new, old) } else { (old, new) };
    low * (1.0 + tolerance) < high
}

/// Whether a value can be a figure of that unit.
pub(super) fn is_figure(value: f64, unit: &str) -> bool {
    value.is_finite() && (value > 0.0 || (unit == YES_NO && value == 0.0))
}

fn add_series(all: &mut Figures, name: String, series: Series) {
    if series.cells.is_empty() {
        return;
    }
    match all.get_mut(&name) {
        Some(known) => known.cells.extend(series.cells),
        None => {
            all.insert(name, series);
        }
    }
}

fn matrix_series(matrix: &Matrix) -> Series {
    let row = |(row, values): (&String, &Vec<Option<f64>>)| {
        let cell = |(column, value): (&String, &Option<f64>)| {
            Some((format!("{row} -> {column}"), value.filter(|value| is_figure(*value, &matrix.unit))?))
        };
        matrix.columns.iter().zip(values).filter_map(cell).collect::<Vec<_>>()
    };
    let cells = matrix.rows.iter().zip(&matrix.values).flat_map(row).collect();
    Series { unit: matrix.unit.clone(), of_pairs: true, cells }
}

/// Tables with figures: the headings of the columns that identify a figure, and of the columns with the figures.
const TABLES: &[(&str, &[&str], &[&str])] = &[
    ("bandwidth.by-size", &["pair", "size"], &["ce.write", "sm.write"]),
    ("together", &["pattern"], &["measured"]),
    ("allreduce", &["GPUs", "size", "all-reduce"], &["median"]),
    ("products", &["GPU"], &["rate"]),
];
/// The same for the tables of NCCL: sizes below [`LARGE`] have times, the others speeds.
const NCCL: (&[&str], &[&str], &[&str]) = (
    &["collective", "size", "type", "redop"],
    &["out-of-place time", "in-place time"],
    &["out-of-place busbw", "in-place busbw"],
);

fn add_table_series(all: &mut Figures, test: &TestEntry, table: &Value) {
    let (Some(name), Some(columns)) = (table["name"].as_str(), table["columns"].as_array()) else { return };
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let place = |heading: &str| columns.iter().position(|c| c["heading"].as_str() == Some(heading));
    let mut take = |keys: &[&str], headings: &[&str], of: &dyn Fn(&Value) -> bool| {
        let keys: Option<Vec<_>> = keys.iter().map(|key| place(key)).collect();
        let Some(keys) = keys else { return };
        for heading in headings {
            let Some(at) = place(heading) else { continue };
            let unit = columns.get(at).and_then(|c| c["unit"].as_str()).unwrap_or_default();
            let cell = |row: &Value| {
                let key: Vec<_> = keys.iter().filter_map(|key| key_text(row.get(*key)?)).collect();
                let value = row.get(at)?.as_f64().filter(|value| is_figure(*value, unit))?;
                Some((key.join(" "), value))
            };
            let cells = with_unique_keys(rows.iter().filter(|row| of(row)).filter_map(cell));
            if is_larger_better(unit).is_some() {
                let series = Series { unit: unit.to_owned(), of_pairs: false, cells };
                add_series(all, format!("{}/{name}/{heading}", test.id), series);
            }
        }
    };
    if name.starts_with("nccl.") {
        let Some(size) = place("size") else { return };
        let large = |row: &Value| row.get(size).and_then(Value::as_u64).is_some_and(|bytes| bytes >= LARGE);
        take(NCCL.0, NCCL.1, &|row| !large(row));
        take(NCCL.0, NCCL.2, &large);
    } else if let Some((_, keys, headings)) = TABLES.iter().find(|(known, ..)| *known == name) {
        take(keys, headings, &|_| true);
    }
}

fn key_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| Some(value.as_u64()?.to_string()))
}

/// Numbers rows that have the same key, so that each is compared with its counterpart.
fn with_unique_keys(cells: impl Iterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let one = |(key, value): (String, f64)| {
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        (if *count > 1 { format!("{key} #{count}") } else { key }, value)
    };
    cells.map(one).collect()
}
