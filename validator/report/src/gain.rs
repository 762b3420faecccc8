//! The gain by peer-to-peer: the speed of a collective with and without it. `floors` in the validator computes it.

use outcome::table::GainRow;

/// From this size on P2P must not be slower. Below, latency dominates, and host memory may be nearer (8 RTX
/// 4090: 0.93 at 128 KiB on a machine where P2P gains 43 %).
pub const LARGE: u64 = 4 << 20;

/// The gain at one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// Time of one call without P2P, microseconds: the median of the sweeps, and of the communicators.
    pub off_us: f64,
    /// Time of one call with P2P, microseconds: the same.
    pub on_us: f64,
    /// Bus bandwidth without P2P, GB/s.
    pub off_gb_s: f64,
    /// Bus bandwidth with P2P, GB/s.
    pub on_gb_s: f64,
    /// The speedup by P2P as a factor.
    pub speedup: f64,
    /// Whether P2P is slower in every pairing of sweeps.
    pub slower: bool,
    /// How far the times of an arm's communicators differ, microseconds, both arms added up. `None` where each arm had one
    /// communicator.
    pub spread_us: Option<f64>,
}

impl Gain {
    /// From a row of a report's table; `None` if a figure is missing.
    #[must_use]
    pub fn read(row: &GainRow) -> Option<Self> {
        let GainRow {
            bytes,
            off_us,
            on_us,
            off_gb_s,
            on_gb_s,
            speedup,
            spread_us,
        } = *row;
        let whole = [off_us, on_us, off_gb_s, on_gb_s, speedup]
            .into_iter()
            .all(f64::is_finite);
        whole.then_some(Self {
            bytes,
            off_us,
            on_us,
            off_gb_s,
            on_gb_s,
            speedup,
            slower: false,
            spread_us,
        })
    }

    /// Whether the arms differ by more than the communicators of both do.
    #[must_use]
    pub fn is_difference(&self) -> bool {
        self.spread_us
            .is_none_or(|spread| (self.off_us - self.on_us).abs() > spread)
    }

    /// `+43 %`, or `no difference`.
    #[must_use]
    pub fn text(&self) -> String {
        if self.is_difference() {
            percent(self.speedup)
        } else {
            "no difference".to_owned()
        }
    }
}

/// The gain in percent: `+43 %`.
#[must_use]
pub fn percent(speedup: f64) -> String {
    // Adding zero turns -0 into 0.
    let percent = ((speedup - 1.0) * 100.0).round() + 0.0;
    format!("{percent:+.0} %")
}
