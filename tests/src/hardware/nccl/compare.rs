//! Compares our sweep with nccl-tests' sweep of the same collective: bus bandwidth at the largest size, time at the
//! smallest, and that no element is wrong. A missing figure counts as missed. The result is printed as tables: every size,
//! then a line for each figure that has a limit.

use super::{Asked, PLACES, Row, Sweep, Theirs};
use crate::hardware::compare::{Mark, mark};
use std::fmt::Write;

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Bus bandwidth, GB/s.
    Busbw,
    /// Time of one call, microseconds.
    Time,
}

/// A figure that has a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// Its kind.
    pub what: What,
    /// Its size in bytes.
    pub bytes: u64,
    /// One of [`PLACES`].
    pub place: &'static str,
    /// Ours; `None` if we have no such row.
    pub ours: Option<f64>,
    /// Theirs.
    pub theirs: f64,
}

/// One collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The collective.
    pub asked: Asked,
    /// The figures that have limits.
    pub held: Vec<Held>,
    /// Our wrong elements; an error if we did not check elements that they checked.
    pub wrong: Result<u64, String>,
    /// Size by size: theirs and, if we have it, ours.
    pub rows: Vec<(Row, Option<Row>)>,
}

/// Compares ours with theirs.
///
/// # Errors
/// If their element types differ, or theirs has no size above 0.
pub fn compare(ours: &Sweep, theirs: &Theirs) -> Result<Comparison, String> {
    let Theirs { asked, sweep: peer, .. } = theirs;
    if ours.data != peer.data {
        return Err(format!("ours is of {}, theirs of {}", ours.data, peer.data));
    }
    let (smallest, largest) = peer.ends().ok_or("theirs has no size above 0")?;
    let held = [(What::Busbw, largest), (What::Time, smallest)];
    let held = held.into_iter().flat_map(|(what, bytes)| at(what, bytes, ours, peer)).collect();
    let rows = peer.rows.iter().filter(|row| row.bytes > 0);
    let rows: Vec<_> = rows.map(|row| (*row, ours.row(row.bytes).copied())).collect();
    let wrong = wrong(ours, &rows);
    Ok(Comparison { asked: *asked, held, wrong, rows })
}

fn at(what: What, bytes: u64, ours: &Sweep, theirs: &Sweep) -> Vec<Held> {
    let of = |row: &Row, n: usize| match what {
        What::Busbw => row.places[n].busbw,
        What::Time => row.places[n].us,
    };
    let held = |(n, place)| {
        let theirs = of(theirs.row(bytes)?, n);
        Some(Held { what, bytes, place, ours: ours.row(bytes).map(|row| of(row, n)), theirs })
    };
    PLACES.into_iter().enumerate().filter_map(held).collect()
}

/// The sum over all our rows, including those that they do not have.
fn wrong(ours: &Sweep, rows: &[(Row, Option<Row>)]) -> Result<u64, String> {
    for (theirs, ours) in rows {
        for (n, place) in PLACES.iter().enumerate() {
            let checked = ours.is_none_or(|ours| ours.places[n].wrong.is_some());
            if theirs.places[n].wrong.is_some() && !checked {
                return Err(format!("{} B {place} was not checked", theirs.bytes));
            }
        }
    }
    Ok(ours.rows.iter().flat_map(|row| row.places).filter_map(|timed| timed.wrong).sum())
}

impl Held {
    /// How much worse ours may be, as a fraction: bandwidth 2 %, time 10 %.
    #[must_use]
    pub fn limit(&self) -> f64 {
        match self.what {
            What::Busbw => 0.02,
            What::Time => 0.10,
        }
    }

    /// Ours / theirs.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| ours / self.theirs)
    }

    /// The result against its limit.
    #[must_use]
    pub fn mark(&self) -> Mark {
        // A time of 0 is invalid.
        let ratio = self.ratio().filter(|ratio| *ratio > 0.0);
        let worse = ratio.map(|ratio| if self.what == What::Time { ratio - 1.0 } else { 1.0 - ratio });
        mark(worse, self.limit())
    }
}

impl Comparison {
    /// The number of figures with this result.
    #[must_use]
    pub fn count(&self, mark: Mark) -> usize {
        self.held.iter().filter(|held| held.mark() == mark).count()
    }

    /// Whether nothing is wrong, nothing is unchecked, and every limit is kept.
    #[must_use]
    pub fn reached(&self) -> bool {
        self.wrong == Ok(0) && self.count(Mark::Miss) == 0
    }
}

/// Lists every size, the figures that have limits, and their sum; `unrun` collectives are missing.
#[must_use]
pub fn all(comparisons: &[Comparison], unrun: usize) -> String {
    let mut text: String = comparisons.iter().map(|c| sizes(c) + "\n").collect();
    // Writing into a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "{:<14} {:<13} {:<8} {:>8} {:>8} {:>6} limit",
        "collective", "figure", "place", "ours", "theirs", "ratio"
    );
    text.extend(comparisons.iter().map(held));
    let count = |mark: Mark| comparisons.iter().map(|c| c.count(mark)).sum::<usize>();
    let figures: usize = comparisons.iter().map(|c| c.held.len()).sum();
    let right = comparisons.iter().filter(|c| c.wrong == Ok(0)).count();
    let _ = writeln!(
        text,
        "{} collectives, {figures} figures: {} not reached, {} better than the limit (+); {right} without a wrong \
         element; {unrun} not run",
        comparisons.len(),
        count(Mark::Miss),
        count(Mark::Over)
    );
    text
}

/// Lists the limits of one collective and whether they were kept.
fn held(comparison: &Comparison) -> String {
    let name = comparison.asked.name();
    let mut text: String =
        comparison.held.iter().map(|held| format!("{name:<14} {}\n", figure(held))).collect();
    let wrong = match &comparison.wrong {
        Ok(0) => format!("{:>17}{:22}reached", 0, ""),
        Ok(wrong) => format!("{wrong:>17}{:22}not reached", ""),
        Err(why) => format!(" not reached: {why}"),
    };
    let _ = writeln!(text, "{name:<14} wrong elements{wrong}");
    text
}

fn figure(held: &Held) -> String {
    let (what, unit) = match held.what {
        What::Busbw => ("busbw", "GB/s"),
        What::Time => ("time", "us"),
    };
    let label = format!("{what:<5} {}", size(held.bytes));
    let word = match held.mark() {
        Mark::Fine => "reached",
        Mark::Over => "reached +",
        Mark::Miss => "not reached",
    };
    let (ours, ratio) = (number(held.ours, 2), number(held.ratio(), 3));
    let (place, limit) = (held.place.split(' ').next().unwrap_or_default(), held.limit() * 100.0);
    format!(
        "{label:<13} {place:<3} {unit:<4} {ours:>8} {:>8.2} {ratio:>6} {limit:>2.0} % {word}",
        held.theirs
    )
}

/// Lists every size of one collective.
fn sizes(comparison: &Comparison) -> String {
    let mut text = format!("{}, us: ours, theirs, ours / theirs\n", comparison.asked.name());
    let _ = writeln!(text, "{:>12}  {:^28}  {:^28}", "bytes", "out of place", "in place");
    for (theirs, ours) in &comparison.rows {
        let place = |n: usize| {
            let (ours, theirs) = (ours.map(|row| row.places[n].us), theirs.places[n].us);
            let ratio = number(ours.map(|ours| ours / theirs), 3);
            format!("{:>10} {theirs:>10.2} {ratio:>6}", number(ours, 2))
        };
        let _ = writeln!(text, "{:>12}  {}  {}", theirs.bytes, place(0), place(1));
    }
    text
}

fn number(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "none".to_owned(), |figure| format!("{figure:.decimals$}"))
}

/// A size in nccl-tests' notation, if it is a whole number of units.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}
