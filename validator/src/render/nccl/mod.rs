//! The output of a collective's run: nccl-tests' table byte for byte, its JSON, and the table of P2P gains.
//! Anything that parses nccl-tests' output can parse ours.

mod json;
mod table;

pub use json::{RunMetadata, json};
pub use table::{columns, head, row, tail};

use crate::nccl::{Row, Sweep};
use machine::pcie::model::Bdf;
use machine::{GpuId, Rank};

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
    row.root
        .map_or_else(|| "-1".to_owned(), |root| root.to_string())
}

/// Placements with wrong elements, which nccl-tests calls out of bounds.
fn wrong_placements(rows: &[Row]) -> usize {
    let timed = rows
        .iter()
        .flat_map(|row| [&row.out_of_place, &row.in_place]);
    timed
        .filter(|t| t.wrong.as_ref().is_some_and(|w| w.count > 0))
        .count()
}

/// The mean bus bandwidth of all rows and placements, GB/s.
#[expect(clippy::cast_precision_loss, reason = "rows are few")]
fn mean_busbw(rows: &[Row]) -> f64 {
    let all = rows
        .iter()
        .map(|row| row.busbw(&row.out_of_place) + row.busbw(&row.in_place));
    if rows.is_empty() {
        0.0
    } else {
        all.sum::<f64>() / (2 * rows.len()) as f64
    }
}

#[cfg(test)]
mod tests;
