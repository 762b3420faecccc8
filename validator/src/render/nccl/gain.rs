//! The gain from P2P at each size, for a console of 80 columns.

use super::number::figure;
use crate::floors::gain::{Gain, percent};
use crate::gpu::Collective;
use crate::report::Report;
use crate::text::size::size;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A console's width.
const WIDTH: usize = 80;

/// The table. `off` and `on` are the proven transports of each arm, as the title shows them.
#[must_use]
pub fn gain_table(collective: Collective, off: &str, on: &str, gains: &[Gain]) -> String {
    let title = format!("{collective}, busbw in GB/s   off: {off}   on: {on}");
    let mut text =
        format!("{}\n{:>10}{:>11}{:>11}{:>10}\n", cut(&title), "size", "P2P off", "P2P on", "gain");
    for gain in gains {
        let size = size(gain.bytes);
        let (off, on) = (figure(gain.off_gb_s, 6), figure(gain.on_gb_s, 6));
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{size:>10}{off:>11}{on:>11}{:>10}", percent(gain.speedup));
    }
    text
}

/// The table of a report; `None` if not both arms were measured.
#[must_use]
pub fn gain_of(report: &Report) -> Option<String> {
    let test = report.tests.iter().find(|test| test.id == "nccl-allreduce")?;
    let rows = |name: &str| test.tables.iter().find(|table| table["name"] == name)?["rows"].as_array();
    let gains: Vec<_> = rows("nccl.gain")?.iter().filter_map(gain).collect();
    let via = |name: &str| {
        let all = rows(name).into_iter().flatten().filter_map(|row| row.get(2)?.as_str());
        all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
    };
    let (off, on) = (via("nccl.transport.off"), via("nccl.transport.p2p"));
    (!gains.is_empty()).then(|| gain_table(Collective::AllReduce, &off, &on, &gains))
}

/// A row of the report's table: size, times, bandwidths, speedup.
fn gain(row: &Value) -> Option<Gain> {
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

/// A line that fits the console.
fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    line.chars().take(WIDTH - 2).chain("..".chars()).collect()
}
