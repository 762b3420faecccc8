//! The output of a collective's run: nccl-tests' table byte for byte, its JSON, and the table of P2P gains.
//! Anything that parses nccl-tests' output can parse ours.

mod json;
mod number;
mod table;

pub use json::{RunMetadata, json};
pub use table::{columns, head, row, tail};

use crate::floors::gain::{Gain, percent};
use crate::gpu::Collective;
use crate::machine::pcie::model::Bdf;
use crate::machine::{GpuId, Rank};
use crate::nccl::{Row, Sweep};
use crate::report::Report;
use crate::text::size;
use number::figure;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The GPU of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The rank.
    pub rank: Rank,
    /// Its process id.
    pub pid: u32,
    /// The host's name.
    pub host: String,
    /// The GPU's CUDA ordinal.
    pub ordinal: GpuId,
    /// Its address.
    pub bdf: Bdf,
    /// The model.
    pub name: String,
}

/// What the header of the table shows about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInfo<'a> {
    /// firstlight's version.
    pub version: &'a str,
    /// NCCL's version: 22907 for 2.29.7.
    pub library: u32,
    /// The run over sizes.
    pub sweep: &'a Sweep,
    /// GPUs of each process: all of them, or 1.
    pub gpus: usize,
    /// Every rank.
    pub devices: &'a [Device],
}

/// The reduction's column.
fn redop(row: &Row) -> &'static str {
    row.op.map_or("none", |op| op.name())
}

/// The root's column: -1 if there is none.
fn root(row: &Row) -> String {
    row.root.map_or_else(|| "-1".to_owned(), |root| root.to_string())
}

/// Placements with wrong elements, which nccl-tests calls out of bounds.
fn wrong_placements(rows: &[Row]) -> usize {
    let timed = rows.iter().flat_map(|row| [&row.out_of_place, &row.in_place]);
    timed.filter(|t| t.wrong.as_ref().is_some_and(|w| w.count > 0)).count()
}

/// The mean bus bandwidth of all rows and placements, GB/s.
#[expect(clippy::cast_precision_loss, reason = "rows are few")]
fn mean_busbw(rows: &[Row]) -> f64 {
    let all = rows.iter().map(|row| row.busbw(&row.out_of_place) + row.busbw(&row.in_place));
    if rows.is_empty() { 0.0 } else { all.sum::<f64>() / (2 * rows.len()) as f64 }
}

/// The width of a console, columns.
const WIDTH: usize = 80;

/// The table of the gains from peer-to-peer; `off` and `on` are the proven transports without and with it.
#[must_use]
pub fn gain_table(collective: Collective, off: &str, on: &str, gains: &[Gain]) -> String {
    let title = format!("{collective}, busbw in GB/s   off: {off}   on: {on}");
    let mut text = format!("{}\n{:>10}{:>11}{:>11}{:>10}\n", truncate(&title), "size", "P2P off", "P2P on", "gain");
    for gain in gains {
        let size = size(gain.bytes);
        let (off, on) = (figure(gain.off_gb_s, 6), figure(gain.on_gb_s, 6));
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{size:>10}{off:>11}{on:>11}{:>10}", percent(gain.speedup));
    }
    text
}

/// The gains that a report contains, as a table; `None` unless both arms were measured.
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
    (!gains.is_empty()).then(|| gain_table(Collective::AllReduce, &off, &on, &gains))
}

/// A row of the report's table: size, times, bandwidths, speedup.
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
mod tests;
