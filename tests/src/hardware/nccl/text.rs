//! The tables that a person reads: every size, then a line for each figure that has a limit.

use super::compare::{Comparison, Held, What};
use crate::hardware::compare::Mark;
use std::fmt::Write;

/// Every size, the figures that have limits, and their sum; `unrun` collectives are missing.
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

/// What was reached of one collective's limits.
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

/// Every size of one collective.
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

/// Bytes as nccl-tests takes them, where they are whole.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}
