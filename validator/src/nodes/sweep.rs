//! All sizes of a collective over all nodes.

use super::arm::Groups;
use super::watcher::Watcher;
use crate::gpu::Collective;
use crate::machine::Rank;
use crate::nccl::ranks::RowAsk;
use crate::nccl::{Row, Sweep};
use std::time::{Duration, Instant};

/// A size follows only if it will not take longer than this, and the largest that memory allows no longer than that.
const SLOWEST: Duration = Duration::from_secs(4);
const LARGEST: Duration = Duration::from_secs(8);

/// All sizes from 8 B on, as long as a size takes no more than seconds; then the largest that memory allows.
pub(super) fn sweep(
    groups: &mut Groups<'_>,
    collective: Collective,
    rows: &mut Vec<Row>,
    watcher: &mut dyn Watcher,
) {
    let sweep = Sweep { iterations: 5, ..Sweep::standard(collective) };
    if let Some(group) = groups.groups.first().filter(|group| group.stop.is_none()) {
        watcher.head(groups.cluster(), group, &sweep);
    }
    let begun = rows.len();
    let Ok(sizes) = sweep.sizes() else { return };
    let mut last = Duration::ZERO;
    let mut reached = 0;
    for bytes in sizes {
        if last * 2 > SLOWEST {
            break;
        }
        let started = Instant::now();
        let Some(row) = one(groups, &RowAsk::of(&sweep, bytes, Rank::FIRST)) else { return };
        last = started.elapsed();
        watcher.row(&row);
        (reached, _) = (bytes, rows.push(row));
    }
    let room = groups.groups.first().map_or(0, |group| group.room);
    // One timed call and one before it, where the sweep makes five and one.
    let per_byte = last.as_secs_f64() / 3.0 / as_f64(reached.max(1));
    let mut bytes = prev_power_of_two(room);
    while bytes > reached && per_byte * as_f64(bytes) > LARGEST.as_secs_f64() {
        bytes /= 2;
    }
    if bytes > reached {
        let largest = RowAsk { iterations: 1, ..RowAsk::of(&sweep, bytes, Rank::FIRST) };
        let Some(row) = one(groups, &largest) else { return };
        watcher.row(&row);
        rows.push(row);
    }
    watcher.tail(collective, rows.get(begun..).unwrap_or_default());
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a buffer are exact in 53 bits")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

fn prev_power_of_two(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// A row of the only communicator.
pub(super) fn one(groups: &mut Groups<'_>, ask: &RowAsk) -> Option<Row> {
    groups.row(ask).pop().flatten()
}
