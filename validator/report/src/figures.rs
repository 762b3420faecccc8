//! The figures of a report, by name: what can be compared with another run, and how far two runs of an unchanged
//! machine may differ. Pure. A cell that is empty, zero or not a number is no figure.

use super::{Report, TestEntry};
use crate::gain::LARGE;
use crate::stats::{BANDWIDTH, LATENCY, STAGED};
use outcome::Matrix;
use outcome::metric::{Clock, Metric};
use outcome::table::{AllReduceRow, BySizeRow, CallRow, Column, ProductsRow, Table, TogetherRow};
use std::collections::BTreeMap;

/// The unit of a matrix of 1 and 0, for yes and no.
pub(super) const YES_NO: &str = "1";

/// Figures of one kind: those of a matrix, or of a column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// Their unit.
    pub unit: String,
    /// How far two runs of an unchanged machine may differ, as a fraction of the figure.
    pub tolerance: f64,
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
        for matrix in test
            .matrices
            .iter()
            .filter(|m| is_larger_better(&m.unit).is_some() && !of_host_clock(m))
        {
            add_series(
                &mut all,
                format!("{}/{}", test.id, matrix.name),
                matrix_series(matrix),
            );
        }
        test.tables
            .iter()
            .for_each(|table| add_table_series(&mut all, test, table));
    }
    all
}

fn of_host_clock(matrix: &Matrix) -> bool {
    matches!(
        matrix.metric(),
        Some(Metric::SmallCopy {
            clock: Clock::Host,
            ..
        })
    )
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
/// of one figure may have ([`crate::stats`]), because either run may deviate by that much. `spread`: that scatter, of
/// speeds.
fn tolerance(unit: &str, spread: f64) -> f64 {
    match unit {
        YES_NO => 0.0,
        "us" | "ns" => 2.0 * LATENCY.spread,
        _ => 2.0 * spread,
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
            Some((
                format!("{row} -> {column}"),
                value.filter(|value| is_figure(*value, &matrix.unit))?,
            ))
        };
        matrix
            .columns
            .iter()
            .zip(values)
            .filter_map(cell)
            .collect::<Vec<_>>()
    };
    let cells = matrix
        .rows
        .iter()
        .zip(&matrix.values)
        .flat_map(row)
        .collect();
    // Some use host memory, or all links at the same time.
    let shared = matrix.metric().is_some_and(Metric::is_shared);
    let tolerance = tolerance(
        &matrix.unit,
        if shared {
            STAGED.spread
        } else {
            BANDWIDTH.spread
        },
    );
    Series {
        unit: matrix.unit.clone(),
        tolerance,
        of_pairs: true,
        cells,
    }
}

/// The series of one table, each from one of its columns.
struct TableSeries<'a> {
    all: &'a mut Figures,
    /// The test and the table: `p2p-allreduce/allreduce`.
    name: String,
    /// How much its figures scatter.
    spread: f64,
}

impl TableSeries<'_> {
    /// Adds the figures of a column, each by its row's key.
    fn add<'r, R: 'r>(
        &mut self,
        column: Column,
        rows: impl Iterator<Item = &'r R>,
        key: fn(&R) -> String,
        figure: fn(&R) -> Option<f64>,
    ) {
        let Column { heading, unit } = column;
        let cell = |row| {
            Some((
                key(row),
                figure(row).filter(|value| is_figure(*value, unit))?,
            ))
        };
        let cells = with_unique_keys(rows.filter_map(cell));
        let tolerance = tolerance(unit, self.spread);
        let series = Series {
            unit: unit.to_owned(),
            tolerance,
            of_pairs: false,
            cells,
        };
        add_series(self.all, format!("{}/{heading}", self.name), series);
    }
}

fn add_table_series(all: &mut Figures, test: &TestEntry, table: &Table) {
    let table = table.known();
    let spread = match table.as_ref() {
        // Small sizes are among them, and their speed depends on the latency.
        Table::BySize(_) => LATENCY.spread,
        table if table.is_shared() => STAGED.spread,
        _ => BANDWIDTH.spread,
    };
    let name = format!("{}/{}", test.id, table.name().unwrap_or_default());
    let mut series = TableSeries { all, name, spread };
    match table.as_ref() {
        Table::BySize(rows) => {
            let key = |row: &BySizeRow| format!("{} {}", row.pair, row.bytes);
            series.add(BySizeRow::COPY_ENGINE, rows.iter(), key, |row| {
                row.copy_engine
            });
            series.add(BySizeRow::KERNEL, rows.iter(), key, |row| row.kernel);
        }
        Table::Together(rows) => {
            series.add(
                TogetherRow::MEASURED,
                rows.iter(),
                |row| row.pattern.clone(),
                |row| row.measured,
            );
        }
        Table::AllReduce(rows) => {
            let key = |row: &AllReduceRow| format!("{} {} {}", row.gpus, row.bytes, row.kind);
            series.add(AllReduceRow::MEDIAN, rows.iter(), key, |row| row.median);
        }
        Table::Products(rows) => {
            series.add(
                ProductsRow::RATE,
                rows.iter(),
                |row| row.gpu.to_string(),
                |row| Some(row.rate),
            );
        }
        Table::Calls(_, rows) => {
            let key = |row: &CallRow| {
                format!(
                    "{} {} {} {}",
                    row.collective, row.bytes, row.data, row.redop
                )
            };
            let small = || rows.iter().filter(|row| row.bytes < LARGE);
            series.add(CallRow::OUT_OF_PLACE_TIME, small(), key, |row| {
                Some(row.out_of_place_us)
            });
            series.add(CallRow::IN_PLACE_TIME, small(), key, |row| {
                Some(row.in_place_us)
            });
            let large = || rows.iter().filter(|row| row.bytes >= LARGE);
            series.add(CallRow::OUT_OF_PLACE_BUSBW, large(), key, |row| {
                Some(row.out_of_place_busbw)
            });
            series.add(CallRow::IN_PLACE_BUSBW, large(), key, |row| {
                Some(row.in_place_busbw)
            });
        }
        _ => {}
    }
}

/// Numbers rows that have the same key, so that each is compared with its counterpart.
fn with_unique_keys(cells: impl Iterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let one = |(key, value): (String, f64)| {
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        (
            if *count > 1 {
                format!("{key} #{count}")
            } else {
                key
            },
            value,
        )
    };
    cells.map(one).collect()
}
