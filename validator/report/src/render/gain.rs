//! The table of the gains from peer-to-peer.

use super::number::figure;
use crate::Report;
use crate::gain::Gain;
use outcome::text::size;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The width of a console, columns.
const WIDTH: usize = 80;

/// The table of the gains from peer-to-peer; `off` and `on` are the proven transports without and with it.
#[must_use]
pub fn gain_table(collective: &str, off: &str, on: &str, gains: &[Gain]) -> String {
    let title = format!("{collective}, busbw in GB/s   off: {off}   on: {on}");
    let mut text = format!("{}\n{:>10}{:>11}{:>11}{:>10}\n", truncate(&title), "size", "P2P off", "P2P on", "gain");
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
    let test = report.tests.iter().find(|test| test.id == "nccl-allreduce")?;
    let rows = |name: &str| test.tables.iter().find(|table| table["name"] == name)?["rows"].as_array();
    let gains: Vec<_> = rows("nccl.gain")?.iter().filter_map(parse_gain).collect();
    let via = |name: &str| {
        let all = rows(name).into_iter().flatten().filter_map(|row| row.get(2)?.as_str());
        all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let (off, on) = (via("nccl.transport.off"), via("nccl.transport.p2p"));
    let gains = every_fourth(&gains);
    (!gains.is_empty()).then(|| gain_table("all_reduce", &off, &on, &gains))
}

/// Every fourth one, counted from the last: the largest size is the one that people look for. The JSON has all of them.
fn every_fourth<T: Copy>(all: &[T]) -> Vec<T> {
    let mut some: Vec<T> = all.iter().rev().step_by(EVERY).copied().collect();
    some.reverse();
    some
}

/// A row of the report's table: size, times, bandwidths, speedup, and in newer reports the spread.
fn parse_gain(row: &Value) -> Option<Gain> {
    let figure = |n: usize| row.get(n)?.as_f64();
    Some(Gain {
        bytes: row.get(0)?.as_u64()?,
        off_us: figure(1)?,
        on_us: figure(2)?,
        off_gb_s: figure(3)?,
        on_gb_s: figure(4)?,
        speedup: figure(5)?,
        slower: false,
        spread_us: figure(6),
    })
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
