//! Bandwidth by size: a copy takes a fixed time plus a time for each byte. One size that takes far longer
//! than the others suggest is a fault that the largest size does not show.

use super::rounded;
use crate::schedule::Pair;
use outcome::finding::{Code, Finding, Severity};
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;

/// The lowest accepted fraction of what the smallest and the largest size predict: sizes in between start to
/// fill the link, and are somewhat slower than a straight line.
const PART: f64 = 0.4;

/// The bandwidth at one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeFigure {
    /// Bytes of one copy.
    pub bytes: u64,
    /// GB/s.
    pub gb_s: f64,
}

/// The least expected speed of each size, GB/s, from the others; in ascending order of the sizes.
#[must_use]
pub fn expected_by_size(sizes: &[SizeFigure]) -> Vec<f64> {
    let each = |n: usize| {
        let others = || {
            sizes
                .iter()
                .enumerate()
                .filter(move |(k, _)| *k != n)
                .map(|(_, size)| size)
        };
        let start = others().map(ns).reduce(f64::min).unwrap_or(0.0);
        let rate = others()
            .map(|size| size.gb_s)
            .reduce(f64::max)
            .unwrap_or(0.0);
        let bytes = sizes.get(n).map_or(0.0, |size| bytes(size.bytes));
        if rate > 0.0 {
            bytes / (start + bytes / rate) * PART
        } else {
            0.0
        }
    };
    (0..sizes.len()).map(each).collect()
}

/// A size that is too slow. `what`: the matrix; `again`: the figure of a second measurement.
#[must_use]
pub fn slow_size(
    pair: Pair,
    what: Metric,
    size: &SizeFigure,
    least: f64,
    again: Option<f64>,
) -> Option<Finding> {
    let best = again.map_or(size.gb_s, |again| again.max(size.gb_s));
    if best >= least {
        return None;
    }
    let again = again.map_or(String::new(), |again| {
        format!(" ({again:.2} when measured again)")
    });
    let name = name_in_sentence(what.name());
    let message = format!(
        "{pair}: {name}, {} bytes: {:.2} GB/s{again}, expected at least {least:.2} GB/s ({PART} of what the other \
         sizes suggest)",
        size.bytes, size.gb_s
    );
    let finding = Code::P2pSlow.finding(Severity::Warn, pair, message);
    Some(finding.values(rounded(best), rounded(least), Some("GB/s")))
}

/// Nanoseconds of one copy: bytes over GB/s.
fn ns(size: &SizeFigure) -> f64 {
    bytes(size.bytes) / size.gb_s
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no copy is larger than 2^53 bytes"
)]
const fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy starts in 2 us and then moves 25 GB/s; copies of `slow` bytes take `times` as long.
    fn sizes(slow: u64, times: f64) -> Vec<SizeFigure> {
        let one = |bytes: u64| {
            let ns =
                (2000.0 + super::bytes(bytes) / 25.0) * if bytes == slow { times } else { 1.0 };
            SizeFigure {
                bytes,
                gb_s: super::bytes(bytes) / ns,
            }
        };
        (6..15).map(|n| one(1 << (2 * n))).collect()
    }

    fn slow(sizes: &[SizeFigure]) -> Vec<u64> {
        let least = expected_by_size(sizes);
        let found = sizes.iter().zip(least);
        found
            .filter_map(|(s, least)| {
                slow_size(Pair::of(0, 1), Metric::CE_WRITE, s, least, None).map(|_| s.bytes)
            })
            .collect()
    }

    #[test]
    fn consistent_sizes_pass() {
        assert_eq!(slow(&sizes(0, 1.0)), [0; 0]);
        assert_eq!(
            slow(&sizes(1 << 20, 2.0)),
            [0; 0],
            "a little slower is usual"
        );
    }

    #[test]
    fn one_slow_size_is_found_anywhere() {
        for n in 6..15 {
            assert_eq!(slow(&sizes(1 << (2 * n), 4.0)), [1 << (2 * n)]);
        }
        let all = sizes(1 << 20, 3.0);
        let (size, least) = (all[4], expected_by_size(&all)[4]);
        assert_eq!(
            slow_size(Pair::of(0, 1), Metric::CE_WRITE, &size, least, Some(25.0)),
            None
        );
        let finding = slow_size(Pair::of(0, 1), Metric::CE_WRITE, &size, least, Some(7.0)).unwrap();
        assert!(
            finding.message.contains(
                "copy engine, write, 1048576 bytes: 7.95 GB/s (7.00 when measured again)"
            ),
            "{finding:?}"
        );
    }
}
