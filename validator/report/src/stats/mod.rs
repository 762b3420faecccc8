//! From clock readings to a figure: units (from bytes and milliseconds, as CUDA events report them, to GB/s, microseconds,
//! nanoseconds), the median of samples, their scatter, and how often a noisy figure is measured again. Pure; the caller takes
//! the samples. No figure is ever zero, negative or NaN: a clock with such a reading has not measured anything.

mod repeat;

pub use repeat::{BANDWIDTH, LATENCY, Measured, RepeatPolicy, STAGED, median};

/// Why there is no figure.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// The clock stood still, ran backwards or gave no reading.
    #[error("the clock reports that {what} took {ms} ms, which is impossible")]
    Time {
        /// What was timed.
        what: &'static str,
        /// The reading, milliseconds.
        ms: f64,
    },
    /// Nothing was moved, so there is no speed.
    #[error("{what} of 0 bytes or operations has no figure")]
    Nothing {
        /// What was measured.
        what: &'static str,
    },
    /// A sample that is not a positive, finite number.
    #[error("a sample of {value} is not a valid figure")]
    Sample {
        /// The sample.
        value: f64,
    },
    /// No sample was taken.
    #[error("no sample was taken")]
    None,
}

/// Bandwidth in GB/s (10^9 bytes a second): `bytes` in all, `ms` for all of them.
///
/// # Errors
/// The time is not a positive, finite number, or nothing was moved.
pub fn gb_s(bytes: u64, ms: f64) -> Result<f64, Unusable> {
    let what = "a copy";
    per(what, ms, bytes).map(|(ms, bytes)| bytes / ms / 1e6)
}

/// Microseconds per operation: `ms` for `count` operations.
///
/// # Errors
/// As [`gb_s`].
pub fn us(ms: f64, count: u64) -> Result<f64, Unusable> {
    per("a small copy", ms, count).map(|(ms, count)| ms * 1e3 / count)
}

/// Nanoseconds per load: `ms` for `loads` dependent loads.
///
/// # Errors
/// As [`gb_s`].
pub fn ns_per_load(ms: f64, loads: u64) -> Result<f64, Unusable> {
    per("a chain of loads", ms, loads).map(|(ms, loads)| ms * 1e6 / loads)
}

/// The shortest accepted time, a nanosecond; CUDA events have a resolution of half a microsecond.
const SHORTEST_MS: f64 = 1e-6;

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 bytes are 9 PB; no test moves that much"
)]
fn per(what: &'static str, ms: f64, of: u64) -> Result<(f64, f64), Unusable> {
    if !(ms.is_finite() && ms >= SHORTEST_MS) {
        return Err(Unusable::Time { what, ms });
    }
    if of == 0 {
        return Err(Unusable::Nothing { what });
    }
    Ok((ms, of as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CUDA's sample: 5 copies of 160 MB in 2.04 ms are 392 GB/s.
    #[test]
    fn bytes_and_milliseconds_become_gb_s() {
        assert!((gb_s(5 * 160_000_000, 2.04).unwrap() - 392.157).abs() < 0.001);
        assert_eq!(gb_s(1_000_000_000, 1000.0), Ok(1.0));
    }

    #[test]
    fn small_times_are_divided_by_the_count() {
        assert_eq!(us(0.25, 100), Ok(2.5));
        assert_eq!(ns_per_load(800.0, 1_000_000), Ok(800.0));
    }

    #[test]
    fn a_clock_with_invalid_readings_measures_nothing() {
        for ms in [
            0.0,
            -0.0,
            1e-300,
            -1.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ] {
            assert!(matches!(gb_s(1, ms), Err(Unusable::Time { .. })), "{ms}");
            assert!(matches!(us(ms, 1), Err(Unusable::Time { .. })), "{ms}");
            assert!(
                matches!(ns_per_load(ms, 1), Err(Unusable::Time { .. })),
                "{ms}"
            );
        }
        assert!(matches!(gb_s(0, 1.0), Err(Unusable::Nothing { .. })));
    }
}
