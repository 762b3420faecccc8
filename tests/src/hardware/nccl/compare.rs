//! Compares our sweep with nccl-tests' sweep of the same collective: bus bandwidth at the largest size, time at the
//! smallest, and that no element is wrong. A missing figure counts as missed. The result is printed as tables: every size,
//! then a line for each figure that has a limit.

use super::{NcclRun, PLACEMENTS, ReferenceTable, SizeRow, Sweep};
use crate::hardware::compare::{LimitResult, limit_result};
use std::fmt::Write;

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureKind {
    /// Bus bandwidth, GB/s.
    Busbw,
    /// Time of one call, microseconds.
    Time,
}

/// A figure that has a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitedFigure {
    /// Its kind.
    pub kind: FigureKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// One of [`PLACEMENTS`].
    pub placement: &'static str,
    /// Ours; `None` if we have no such row.
    pub ours: Option<f64>,
    /// Theirs.
    pub theirs: f64,
}

/// One collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The collective.
    pub run: NcclRun,
    /// The figures that have limits.
    pub figures: Vec<LimitedFigure>,
    /// Our wrong elements; an error if we did not check elements that they checked.
    pub wrong: Result<u64, String>,
    /// Size by size: theirs and, if we have it, ours.
    pub rows: Vec<(SizeRow, Option<SizeRow>)>,
}

/// Compares ours with theirs.
///
/// # Errors
/// If their element types differ, or theirs has no size above 0.
pub fn compare(ours: &Sweep, theirs: &ReferenceTable) -> Result<Comparison, String> {
    let ReferenceTable {
        run,
        sweep: reference,
        ..
    } = theirs;
    if ours.data != reference.data {
        return Err(format!(
            "ours is of {}, theirs of {}",
            ours.data, reference.data
        ));
    }
    let (smallest, largest) = reference.ends().ok_or("theirs has no size above 0")?;
    let kinds = [(FigureKind::Busbw, largest), (FigureKind::Time, smallest)];
    let figures = kinds
        .into_iter()
        .flat_map(|(kind, bytes)| figures_at(kind, bytes, ours, reference))
        .collect();
    let rows = reference.rows.iter().filter(|row| row.bytes > 0);
    let rows: Vec<_> = rows
        .map(|row| (*row, ours.row(row.bytes).copied()))
        .collect();
    let wrong = wrong(ours, &rows);
    Ok(Comparison {
        run: *run,
        figures,
        wrong,
        rows,
    })
}

fn figures_at(kind: FigureKind, bytes: u64, ours: &Sweep, theirs: &Sweep) -> Vec<LimitedFigure> {
    let of = |row: &SizeRow, n: usize| match kind {
        FigureKind::Busbw => row.placements[n].busbw,
        FigureKind::Time => row.placements[n].us,
    };
    let figure = |(n, placement)| {
        let theirs = of(theirs.row(bytes)?, n);
        Some(LimitedFigure {
            kind,
            bytes,
            placement,
            ours: ours.row(bytes).map(|row| of(row, n)),
            theirs,
        })
    };
    PLACEMENTS
        .into_iter()
        .enumerate()
        .filter_map(figure)
        .collect()
}

/// The sum over all our rows, including those that they do not have.
fn wrong(ours: &Sweep, rows: &[(SizeRow, Option<SizeRow>)]) -> Result<u64, String> {
    for (theirs, ours) in rows {
        for (n, placement) in PLACEMENTS.iter().enumerate() {
            let checked = ours.is_none_or(|ours| ours.placements[n].wrong.is_some());
            if theirs.placements[n].wrong.is_some() && !checked {
                return Err(format!("{} B {placement} was not checked", theirs.bytes));
            }
        }
    }
    Ok(ours
        .rows
        .iter()
        .flat_map(|row| row.placements)
        .filter_map(|timed| timed.wrong)
        .sum())
}

impl LimitedFigure {
    /// How much worse ours may be, as a fraction: bandwidth 2 %, time 10 %.
    #[must_use]
    pub fn limit(&self) -> f64 {
        match self.kind {
            FigureKind::Busbw => 0.02,
            FigureKind::Time => 0.10,
        }
    }

    /// Ours / theirs.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| ours / self.theirs)
    }

    /// The result against its limit.
    #[must_use]
    pub fn limit_result(&self) -> LimitResult {
        // A time of 0 is invalid.
        let ratio = self.ratio().filter(|ratio| *ratio > 0.0);
        let worse = ratio.map(|ratio| {
            if self.kind == FigureKind::Time {
                ratio - 1.0
            } else {
                1.0 - ratio
            }
        });
        limit_result(worse, self.limit())
    }
}

impl Comparison {
    /// The number of figures with this result.
    #[must_use]
    pub fn count(&self, limit_result: LimitResult) -> usize {
        self.figures
            .iter()
            .filter(|figure| figure.limit_result() == limit_result)
            .count()
    }

    /// Whether nothing is wrong, nothing is unchecked, and every limit is kept.
    #[must_use]
    pub fn reached(&self) -> bool {
        self.wrong == Ok(0) && self.count(LimitResult::Missed) == 0
    }
}

/// Lists every size, the figures that have limits, and their sum; `unrun` collectives are missing.
#[must_use]
pub fn tables(comparisons: &[Comparison], unrun: usize) -> String {
    let mut text: String = comparisons.iter().map(|c| size_table(c) + "\n").collect();
    // Writing into a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "{:<14} {:<13} {:<8} {:>8} {:>8} {:>6} limit",
        "collective", "figure", "place", "ours", "theirs", "ratio"
    );
    text.extend(comparisons.iter().map(limit_lines));
    let count = |limit_result: LimitResult| {
        comparisons
            .iter()
            .map(|c| c.count(limit_result))
            .sum::<usize>()
    };
    let figures: usize = comparisons.iter().map(|c| c.figures.len()).sum();
    let right = comparisons.iter().filter(|c| c.wrong == Ok(0)).count();
    let _ = writeln!(
        text,
        "{} collectives, {figures} figures: {} not reached, {} better than the limit (+); {right} without a wrong \
         element; {unrun} not run",
        comparisons.len(),
        count(LimitResult::Missed),
        count(LimitResult::Better)
    );
    text
}

/// Lists the limits of one collective and whether they were kept.
fn limit_lines(comparison: &Comparison) -> String {
    let name = comparison.run.name();
    let mut text: String = comparison
        .figures
        .iter()
        .map(|figure| format!("{name:<14} {}\n", figure_line(figure)))
        .collect();
    let wrong = match &comparison.wrong {
        Ok(0) => format!("{:>17}{:22}reached", 0, ""),
        Ok(wrong) => format!("{wrong:>17}{:22}not reached", ""),
        Err(why) => format!(" not reached: {why}"),
    };
    let _ = writeln!(text, "{name:<14} wrong elements{wrong}");
    text
}

fn figure_line(figure: &LimitedFigure) -> String {
    let (what, unit) = match figure.kind {
        FigureKind::Busbw => ("busbw", "GB/s"),
        FigureKind::Time => ("time", "us"),
    };
    let label = format!("{what:<5} {}", size(figure.bytes));
    let word = match figure.limit_result() {
        LimitResult::Within => "reached",
        LimitResult::Better => "reached +",
        LimitResult::Missed => "not reached",
    };
    let (ours, ratio) = (number(figure.ours, 2), number(figure.ratio(), 3));
    let (placement, limit) = (
        figure.placement.split(' ').next().unwrap_or_default(),
        figure.limit() * 100.0,
    );
    format!(
        "{label:<13} {placement:<3} {unit:<4} {ours:>8} {:>8.2} {ratio:>6} {limit:>2.0} % {word}",
        figure.theirs
    )
}

/// Lists every size of one collective.
fn size_table(comparison: &Comparison) -> String {
    let mut text = format!(
        "{}, us: ours, theirs, ours / theirs\n",
        comparison.run.name()
    );
    let _ = writeln!(
        text,
        "{:>12}  {:^28}  {:^28}",
        "bytes", "out of place", "in place"
    );
    for (theirs, ours) in &comparison.rows {
        let placement = |n: usize| {
            let (ours, theirs) = (
                ours.map(|row| row.placements[n].us),
                theirs.placements[n].us,
            );
            let ratio = number(ours.map(|ours| ours / theirs), 3);
            format!("{:>10} {theirs:>10.2} {ratio:>6}", number(ours, 2))
        };
        let _ = writeln!(
            text,
            "{:>12}  {}  {}",
            theirs.bytes,
            placement(0),
            placement(1)
        );
    }
    text
}

fn number(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(
        || "none".to_owned(),
        |figure| format!("{figure:.decimals$}"),
    )
}

/// A size in nccl-tests' notation, if it is a whole number of units.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{bytes} B"),
        |(unit, name)| format!("{} {name}", bytes / unit),
    )
}
