//! The gain by P2P: the same collective with and without it, in alternating sweeps (A-B-A-B) so that drift
//! does not matter. At each size the median of an arm's sweeps counts; P2P is called slower only where every
//! sweep with it was slower than every sweep without.

use super::{Placement, Row, Timed};
use crate::stats;
use crate::text::size::size;

/// From this size on P2P must not be slower. Below, latency dominates, and host memory may be nearer (8 RTX
/// 4090: 0.93 at 128 KiB on a machine where P2P gains 43 %).
pub const LARGE: u64 = 4 << 20;

/// Below this part of the speed P2P counts as slower; above it is noise.
pub const SLOWER: f64 = 0.97;

/// One size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// Time of one call without P2P, microseconds: the median of the sweeps.
    pub off_us: f64,
    /// Time of one call with P2P, microseconds: the median of the sweeps.
    pub on_us: f64,
    /// Bus bandwidth without P2P, GB/s.
    pub off_gb_s: f64,
    /// Bus bandwidth with P2P, GB/s.
    pub on_gb_s: f64,
    /// The speedup by P2P as a factor.
    pub speedup: f64,
    /// Whether P2P is slower in every pairing of sweeps.
    pub slower: bool,
}

/// Why no comparison is possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGain {
    /// An arm has no sweep, or a sweep has no size.
    #[error("the arm {arm} P2P was not measured")]
    Empty {
        /// `with` or `without`.
        arm: &'static str,
    },
    /// The arms measured different sizes.
    #[error("{size}: not measured in every sweep of the arm {arm} P2P")]
    Missing {
        /// `with` or `without`.
        arm: &'static str,
        /// The size.
        size: String,
    },
    /// An invalid time.
    #[error("{size}: a time of {us} us in the arm {arm} P2P")]
    Time {
        /// `with` or `without`.
        arm: &'static str,
        /// The size.
        size: String,
        /// The measured time.
        us: String,
    },
}

/// The gain at each size that moves data, in the order of the first sweep. Sizes that round to the same
/// number of bytes are one, and the last row counts.
///
/// # Errors
/// See [`NoGain`].
pub fn gains(off: &[Vec<Row>], on: &[Vec<Row>], placement: Placement) -> Result<Vec<Gain>, NoGain> {
    let moving = |row: &&Row| row.bytes > 0;
    let first = off.first().filter(|rows| !rows.is_empty()).ok_or(NoGain::Empty { arm: WITHOUT })?;
    on.first().filter(|rows| !rows.is_empty()).ok_or(NoGain::Empty { arm: WITH })?;
    let all = on.iter().chain(off).flatten().filter(moving);
    for row in all {
        // All sweeps must have measured the same: an arm that failed at a size does not hide it.
        times(off, row.bytes, placement, WITHOUT)?;
        times(on, row.bytes, placement, WITH)?;
    }
    let mut rows: Vec<&Row> = first.iter().filter(moving).collect();
    rows.dedup_by_key(|row| row.bytes);
    rows.into_iter().map(|row| gain(off, on, row, placement)).collect()
}

const WITH: &str = "with";
const WITHOUT: &str = "without";

fn gain(off: &[Vec<Row>], on: &[Vec<Row>], row: &Row, placement: Placement) -> Result<Gain, NoGain> {
    let off = times(off, row.bytes, placement, WITHOUT)?;
    let on = times(on, row.bytes, placement, WITH)?;
    let (off_us, on_us) = (middle(&off, row, WITHOUT)?, middle(&on, row, WITH)?);
    let busbw = |us| row.busbw(&Timed { us, wrong: None });
    let slowest_off = off.iter().copied().fold(0.0, f64::max);
    let fastest_on = on.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Gain {
        bytes: row.bytes,
        off_us,
        on_us,
        off_gb_s: busbw(off_us),
        on_gb_s: busbw(on_us),
        speedup: off_us / on_us,
        slower: slowest_off / fastest_on < SLOWER,
    })
}

/// The times of one size, one for each sweep.
fn times(
    sweeps: &[Vec<Row>],
    bytes: u64,
    placement: Placement,
    arm: &'static str,
) -> Result<Vec<f64>, NoGain> {
    let missing = || NoGain::Missing { arm, size: size(bytes) };
    let one = |rows: &Vec<Row>| {
        let row = rows.iter().rfind(|row| row.bytes == bytes).ok_or_else(missing)?;
        let us = match placement {
            Placement::OutOfPlace => row.out_of_place.us,
            Placement::InPlace => row.in_place.us,
        };
        let bad = || NoGain::Time { arm, size: size(bytes), us: us.to_string() };
        (us.is_finite() && us > 0.0).then_some(us).ok_or_else(bad)
    };
    sweeps.iter().map(one).collect()
}

fn middle(times: &[f64], row: &Row, arm: &'static str) -> Result<f64, NoGain> {
    stats::median(times).map_err(|_| NoGain::Missing { arm, size: size(row.bytes) })
}

/// `P2P: +43 % at 128 MiB`, for the largest size.
#[must_use]
pub fn headline(gains: &[Gain]) -> Option<String> {
    let largest = gains.iter().max_by_key(|gain| gain.bytes)?;
    Some(format!("P2P: {} at {}", percent(largest.speedup), size(largest.bytes)))
}

/// The gain in percent: `+43 %`.
#[must_use]
pub fn percent(speedup: f64) -> String {
    // Adding zero turns -0 into 0.
    let percent = ((speedup - 1.0) * 100.0).round() + 0.0;
    format!("{percent:+.0} %")
}

/// Each size's speedup by its name in the report: `p2p_speedup_8`, `p2p_speedup_1M`.
#[must_use]
pub fn effects(gains: &[Gain]) -> Vec<(String, f64)> {
    let named = |gain: &Gain| {
        let size = size(gain.bytes);
        let unit = size.trim_end_matches('B').trim_end_matches('i').replace(' ', "");
        (format!("p2p_speedup_{unit}"), gain.speedup)
    };
    gains.iter().map(named).collect()
}

/// Large sizes at which P2P is slower.
#[must_use]
pub fn slower(gains: &[Gain]) -> Vec<Gain> {
    gains.iter().filter(|gain| gain.slower && gain.bytes >= LARGE).copied().collect()
}

#[cfg(test)]
mod tests;
