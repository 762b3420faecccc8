//! The gain by P2P: the same collective with and without it, in alternating sweeps (A-B-A-B) so that drift
//! does not matter. At each size the median of an arm's sweeps counts; P2P counts as slower only if every
//! sweep with it was slower than every sweep without it. Small calls take other times from one communicator to the
//! next: there an arm has several, and a difference of the arms counts only if it exceeds that of an arm's communicators.

use crate::nccl::{Placement, Row, Timed};
use outcome::text::size;
use report::gain::{Gain, LARGE};
use report::stats;

/// Below this fraction of the speed P2P counts as slower; above it the difference is noise.
pub const SLOWER: f64 = 0.97;

/// Why no comparison is possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GainError {
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
/// number of bytes are treated as one, and the last row counts.
///
/// # Errors
/// See [`GainError`].
pub fn gains(
    off: &[Vec<Row>],
    on: &[Vec<Row>],
    placement: Placement,
) -> Result<Vec<Gain>, GainError> {
    let moving = |row: &&Row| row.bytes > 0;
    let first = off
        .first()
        .filter(|rows| !rows.is_empty())
        .ok_or(GainError::Empty { arm: WITHOUT })?;
    on.first()
        .filter(|rows| !rows.is_empty())
        .ok_or(GainError::Empty { arm: WITH })?;
    let all = on.iter().chain(off).flatten().filter(moving);
    for row in all {
        // All sweeps must have measured the same: an arm that failed at a size does not hide it.
        times(off, row.bytes, placement, WITHOUT)?;
        times(on, row.bytes, placement, WITH)?;
    }
    let mut rows: Vec<&Row> = first.iter().filter(moving).collect();
    rows.dedup_by_key(|row| row.bytes);
    rows.into_iter()
        .map(|row| gain(off, on, row, placement))
        .collect()
}

const WITH: &str = "with";
const WITHOUT: &str = "without";

fn gain(
    off: &[Vec<Row>],
    on: &[Vec<Row>],
    row: &Row,
    placement: Placement,
) -> Result<Gain, GainError> {
    let off = times(off, row.bytes, placement, WITHOUT)?;
    let on = times(on, row.bytes, placement, WITH)?;
    let (off_us, on_us) = (median_us(&off, row, WITHOUT)?, median_us(&on, row, WITH)?);
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
        spread_us: None,
    })
}

/// The same gains with further communicators of both arms, one sweep of each: sizes that all of them measured have the
/// median of an arm's communicators, and the spread.
///
/// # Errors
/// See [`GainError`].
pub fn with_communicators(
    gains: Vec<Gain>,
    off: &[Vec<Row>],
    on: &[Vec<Row>],
    placement: Placement,
) -> Result<Vec<Gain>, GainError> {
    let all = || off.iter().chain(on);
    let of = |gain: Gain| {
        let measured = |sweep: &Vec<Row>| sweep.iter().any(|row| row.bytes == gain.bytes);
        if off.is_empty() || on.is_empty() || !all().all(measured) {
            return Ok(gain);
        }
        let arm = |first: f64, more: &[Vec<Row>], name| {
            let mut us = times(more, gain.bytes, placement, name)?;
            us.push(first);
            let median = stats::median(&us).map_err(|_| GainError::Empty { arm: name })?;
            let most = us.iter().copied().fold(0.0, f64::max);
            Ok((
                median,
                most - us.iter().copied().fold(f64::INFINITY, f64::min),
            ))
        };
        let (off_us, off_spread) = arm(gain.off_us, off, WITHOUT)?;
        let (on_us, on_spread) = arm(gain.on_us, on, WITH)?;
        Ok(Gain {
            off_us,
            on_us,
            // Bandwidth is in inverse proportion to time.
            off_gb_s: gain.off_gb_s * gain.off_us / off_us,
            on_gb_s: gain.on_gb_s * gain.on_us / on_us,
            speedup: off_us / on_us,
            // A communicator keeps its level, 25 or 36 us on four H200: one arm may have met the slow level only, by chance.
            spread_us: Some(off_spread + on_spread),
            ..gain
        })
    };
    gains.into_iter().map(of).collect()
}

/// The times of one size, one for each sweep.
fn times(
    sweeps: &[Vec<Row>],
    bytes: u64,
    placement: Placement,
    arm: &'static str,
) -> Result<Vec<f64>, GainError> {
    let missing = || GainError::Missing {
        arm,
        size: size(bytes),
    };
    let one = |rows: &Vec<Row>| {
        let row = rows
            .iter()
            .rfind(|row| row.bytes == bytes)
            .ok_or_else(missing)?;
        let us = match placement {
            Placement::OutOfPlace => row.out_of_place.us,
            Placement::InPlace => row.in_place.us,
        };
        let bad = || GainError::Time {
            arm,
            size: size(bytes),
            us: us.to_string(),
        };
        (us.is_finite() && us > 0.0).then_some(us).ok_or_else(bad)
    };
    sweeps.iter().map(one).collect()
}

fn median_us(times: &[f64], row: &Row, arm: &'static str) -> Result<f64, GainError> {
    stats::median(times).map_err(|_| GainError::Missing {
        arm,
        size: size(row.bytes),
    })
}

/// `P2P: +43 % at 128 MiB`, for the largest size.
#[must_use]
pub fn headline(gains: &[Gain]) -> Option<String> {
    let largest = gains.iter().max_by_key(|gain| gain.bytes)?;
    Some(format!(
        "P2P: {} at {}",
        largest.text(),
        size(largest.bytes)
    ))
}

/// The speedup by its name in the report, of each size at which the arms differ: `p2p_speedup_8`, `p2p_speedup_1M`.
#[must_use]
pub fn effects(gains: &[Gain]) -> Vec<(String, f64)> {
    let named = |gain: &Gain| {
        let size = size(gain.bytes);
        let unit = size
            .trim_end_matches('B')
            .trim_end_matches('i')
            .replace(' ', "");
        (format!("p2p_speedup_{unit}"), gain.speedup)
    };
    gains
        .iter()
        .filter(|gain| gain.is_difference())
        .map(named)
        .collect()
}

/// Large sizes at which P2P is slower.
#[must_use]
pub fn slower(gains: &[Gain]) -> Vec<Gain> {
    gains
        .iter()
        .filter(|gain| gain.slower && gain.bytes >= LARGE)
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::{Collective, DataType, RedOp};
    use report::gain::percent;

    /// Size, and the recorded times of eight RTX 4090: out of place without and with P2P, in place without and with P2P.
    const DOCUMENT: [(u64, [f64; 4]); 8] = [
        (8, [38.83, 38.82, 40.43, 38.16]),
        (131_072, [67.27, 72.03, 54.86, 71.50]),
        (1 << 20, [222.8, 216.1, 226.1, 217.2]),
        (4 << 20, [580.8, 478.7, 592.0, 480.1]),
        (16 << 20, [1972.8, 1472.8, 1979.5, 1472.1]),
        (32 << 20, [3905.6, 2870.3, 3919.0, 2866.4]),
        (64 << 20, [7907.1, 5705.0, 7905.3, 5695.6]),
        (128 << 20, [16253.0, 11382.0, 16227.0, 11380.0]),
    ];

    fn row(bytes: u64, us: f64, in_place_us: f64) -> Row {
        Row {
            collective: Collective::AllReduce,
            bytes,
            count: bytes / 4,
            data: DataType::Float,
            op: Some(RedOp::Sum),
            root: None,
            ranks: 8,
            out_of_place: Timed { us, wrong: None },
            in_place: Timed {
                us: in_place_us,
                wrong: None,
            },
        }
    }

    fn arms() -> (Vec<Row>, Vec<Row>) {
        let arm = |n: usize| {
            DOCUMENT
                .iter()
                .map(|(bytes, us)| row(*bytes, us[n], us[n + 2]))
                .collect()
        };
        (arm(0), arm(1))
    }

    fn at(gains: &[Gain], bytes: u64) -> Gain {
        *gains.iter().find(|g| g.bytes == bytes).unwrap()
    }

    #[test]
    fn the_gains_match_the_recorded_ones() {
        let (off, on) = arms();
        let gains = gains(&[off], &[on], Placement::OutOfPlace).unwrap();
        let known = [
            (8, 1.00),
            (131_072, 0.93),
            (4 << 20, 1.21),
            (16 << 20, 1.34),
            (64 << 20, 1.39),
            (128 << 20, 1.43),
        ];
        for (bytes, speedup) in known {
            let gain = at(&gains, bytes);
            assert!((gain.speedup - speedup).abs() < 0.005, "{gain:?}");
        }
        let largest = at(&gains, 128 << 20);
        assert!(
            (largest.off_gb_s - 14.45).abs() < 0.01 && (largest.on_gb_s - 20.64).abs() < 0.01,
            "{largest:?}"
        );
        assert_eq!(headline(&gains).as_deref(), Some("P2P: +43 % at 128 MiB"));
    }

    #[test]
    fn in_place_is_counted_separately() {
        let (off, on) = arms();
        let gains = gains(&[off], &[on], Placement::InPlace).unwrap();
        assert!((at(&gains, 131_072).speedup - 0.77).abs() < 0.005);
    }

    #[test]
    fn effects_are_named_by_their_size() {
        let (off, on) = arms();
        let gains = gains(&[off], &[on], Placement::OutOfPlace).unwrap();
        let effects = effects(&gains);
        let names: Vec<_> = effects.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names[..3],
            ["p2p_speedup_8", "p2p_speedup_128K", "p2p_speedup_1M"]
        );
        assert_eq!(names[7], "p2p_speedup_128M");
        assert_eq!(effects[7].1, at(&gains, 128 << 20).speedup);
    }

    #[test]
    fn slower_counts_only_at_large_sizes_and_in_every_pairing() {
        let sweep =
            |large: f64, small: f64| vec![row(1 << 20, small, 1.0), row(8 << 20, large, 1.0)];
        let slower_sizes = |on: [f64; 2]| {
            let off = [sweep(100.0, 10.0), sweep(104.0, 10.0)];
            let on = on.map(|us| sweep(us, 20.0));
            let gains = gains(&off, &on, Placement::OutOfPlace).unwrap();
            slower(&gains).iter().map(|g| g.bytes).collect::<Vec<_>>()
        };
        assert_eq!(slower_sizes([110.0, 112.0]), [8 << 20]);
        assert_eq!(slower_sizes([105.0, 150.0]), [0; 0]);
        assert_eq!(slower_sizes([90.0, 80.0]), [0; 0]);
    }

    #[test]
    fn sweeps_are_represented_by_their_median() {
        let sweep = |us: f64| vec![row(1 << 20, us, 1.0)];
        let off = [sweep(100.0), sweep(110.0)];
        let on = [sweep(70.0), sweep(70.0), sweep(900.0)];
        let gains = gains(&off, &on, Placement::OutOfPlace).unwrap();
        assert_eq!(
            (gains[0].off_us, gains[0].on_us, gains[0].speedup),
            (105.0, 70.0, 1.5)
        );
        assert_eq!(headline(&gains).as_deref(), Some("P2P: +50 % at 1 MiB"));
        assert_eq!(
            [percent(0.93), percent(0.999), percent(1.001)],
            ["-7 %", "+0 %", "+0 %"]
        );
    }

    /// The times of 4 H200 at 4 KiB to 128 KiB: a communicator gets 25 us or 36 us, with P2P and without.
    #[test]
    fn a_gain_within_the_spread_of_an_arms_communicators_is_no_difference() {
        let sweep = |small: f64| vec![row(8192, small, 1.0), row(8 << 20, 100.0, 1.0)];
        let small = |us: f64| vec![row(8192, us, 1.0)];
        let of = |off: [f64; 3], on: [f64; 3]| {
            let first = gains(&[sweep(off[0])], &[sweep(on[0])], Placement::OutOfPlace).unwrap();
            let more = |us: [f64; 3]| [small(us[1]), small(us[2])];
            with_communicators(first, &more(off), &more(on), Placement::OutOfPlace).unwrap()
        };
        let found = of([25.0, 36.0, 25.0], [36.0, 25.0, 26.0]);
        assert_eq!(
            (found[0].text().as_str(), found[0].spread_us),
            ("no difference", Some(22.0))
        );
        assert_eq!((found[0].off_us, found[0].on_us), (25.0, 26.0));
        assert_eq!(
            (found[1].text().as_str(), found[1].spread_us),
            ("+0 %", None),
            "large sizes are as before"
        );
        assert_eq!(
            effects(&found)
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["p2p_speedup_8M"]
        );
        let found = of([36.0, 36.5, 35.5], [24.0, 24.5, 25.0]);
        assert_eq!(
            (found[0].text().as_str(), found[0].spread_us),
            ("+47 %", Some(2.0))
        );
        assert!(
            (found[0].off_gb_s
                - row(8192, 36.0, 1.0).busbw(&Timed {
                    us: 36.0,
                    wrong: None
                }))
            .abs()
                < 1e-9
        );
        let one = gains(&[sweep(25.0)], &[sweep(36.0)], Placement::OutOfPlace).unwrap();
        assert_eq!(
            with_communicators(one.clone(), &[], &[], Placement::OutOfPlace).unwrap(),
            one
        );
        assert_eq!(
            one[0].text(),
            "-31 %",
            "without other communicators the times are all that is known"
        );
    }

    #[test]
    fn a_size_missing_in_an_arm_is_an_error() {
        let (off, on) = arms();
        let short = on[..7].to_vec();
        let error = gains(
            std::slice::from_ref(&off),
            &[on, short],
            Placement::OutOfPlace,
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "128 MiB: not measured in every sweep of the arm with P2P"
        );
        let more = gains(
            &[off[..7].to_vec()],
            std::slice::from_ref(&off),
            Placement::OutOfPlace,
        )
        .unwrap_err();
        assert_eq!(
            more.to_string(),
            "128 MiB: not measured in every sweep of the arm without P2P"
        );
        let none = gains(&[off], &[], Placement::OutOfPlace).unwrap_err();
        assert_eq!(none.to_string(), "the arm with P2P was not measured");
        let zero = gains(
            &[vec![row(8, 0.0, 1.0)]],
            &[vec![row(8, 1.0, 1.0)]],
            Placement::OutOfPlace,
        )
        .unwrap_err();
        assert_eq!(
            zero.to_string(),
            "8 B: a time of 0 us in the arm without P2P"
        );
        assert_eq!(headline(&[]), None);
    }

    #[test]
    fn rows_that_move_nothing_have_no_gain() {
        let sweep = || vec![row(0, 0.6, 0.6), row(0, 0.6, 0.6), row(64, 20.0, 20.0)];
        let gains = gains(&[sweep()], &[sweep()], Placement::OutOfPlace).unwrap();
        assert_eq!(gains.iter().map(|g| g.bytes).collect::<Vec<_>>(), [64]);
    }
}
