//! The table of the gains from peer-to-peer.

use super::number::figure;
use crate::Report;
use crate::gain::Gain;
use outcome::table::{Arm, Table};
use outcome::text::size;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The width of a console, columns.
const WIDTH: usize = 80;

/// The table of the gains from peer-to-peer; `off` and `on` are the proven transports without and with it.
#[must_use]
pub fn gain_table(collective: &str, off: &str, on: &str, gains: &[Gain]) -> String {
    let title = format!("{collective}, busbw in GB/s   off: {off}   on: {on}");
    let mut text = format!(
        "{}\n{:>10}{:>11}{:>11}{:>10}\n",
        truncate(&title),
        "size",
        "P2P off",
        "P2P on",
        "gain"
    );
    for gain in gains {
        let size = size(gain.bytes);
        let (off, on) = (figure(gain.off_gb_s, 6), figure(gain.on_gb_s, 6));
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{size:>10}{off:>11}{on:>11}  {:>8}", gain.text());
    }
    text
}

/// Every which size the console shows.
const EVERY: usize = 4;

/// The gains that a report contains, as a table of every fourth size; `None` unless both arms were measured.
#[must_use]
pub fn report_gain_table(report: &Report) -> Option<String> {
    let test = report
        .tests
        .iter()
        .find(|test| test.id == "nccl-allreduce")?;
    let tables: Vec<_> = test.tables.iter().map(Table::known).collect();
    let gains = tables.iter().find_map(|table| match table.as_ref() {
        Table::Gain(rows) => Some(rows.iter().filter_map(Gain::read).collect::<Vec<_>>()),
        _ => None,
    })?;
    let via = |of: Arm| {
        let rows = tables.iter().find_map(|table| match table.as_ref() {
            Table::Transports(arm, rows) if *arm == of => Some(rows),
            _ => None,
        });
        let all: BTreeSet<_> = rows
            .into_iter()
            .flatten()
            .map(|row| row.via.as_str())
            .collect();
        all.into_iter().collect::<Vec<_>>().join(", ")
    };
    let (off, on) = (via(Arm::Off), via(Arm::P2p));
    let gains = every_fourth(&gains);
    (!gains.is_empty()).then(|| gain_table("all_reduce", &off, &on, &gains))
}

/// Every fourth one, counted from the last: the largest size is the one that people look for. The JSON has all of them.
fn every_fourth<T: Copy>(all: &[T]) -> Vec<T> {
    let mut some: Vec<T> = all.iter().rev().step_by(EVERY).copied().collect();
    some.reverse();
    some
}

/// Truncates a line to the width of the console.
fn truncate(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    line.chars().take(WIDTH - 2).chain("..".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_size_is_shown_and_the_largest_is_among_them() {
        let sizes: Vec<u64> = (3..=27).collect();
        assert_eq!(every_fourth(&sizes), [3, 7, 11, 15, 19, 23, 27]);
        assert_eq!(every_fourth(&[1, 2]), [2]);
        assert_eq!(every_fourth::<u64>(&[]), [0; 0]);
    }
}
