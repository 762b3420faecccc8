//! A figure from several samples: their median, the scatter, and a bounded number of repeats when they
//! scatter too far. A figure records its number of repeats; a noisy one stays marked.

use super::Unusable;
use serde::{Deserialize, Serialize};

/// How many samples a figure needs, how far they may differ, and how often it is measured again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepeatPolicy {
    /// The least number of samples, and how many must agree.
    pub samples: usize,
    /// How far agreeing samples may differ, as a fraction of the median.
    pub spread: f64,
    /// How many more samples may be taken until enough agree. Fewer than `samples`: those that agree stay the
    /// majority, so the median of all is among them and nothing is selected.
    pub repeats: usize,
}

/// Bandwidth: 2 %. The figures are promised to be within 2 % of nvbandwidth's, so a sample that is further
/// off is useless; on an undisturbed machine samples agree within 0.1 % (four H200: all cells of one matrix,
/// 391.5 to 392.7 GB/s) and up to 2 % over PCIe between sockets.
pub const BANDWIDTH: RepeatPolicy = RepeatPolicy {
    samples: 3,
    spread: 0.02,
    repeats: 2,
};

/// Bandwidth of copies staged through host memory: 5 %. Two processors' memory and a thread of the driver
/// take part; on four H200 the cells of one matrix differ by 4 %.
pub const STAGED: RepeatPolicy = RepeatPolicy {
    samples: 3,
    spread: 0.05,
    repeats: 2,
};

/// Latency: 10 %, the promised distance from the figures of NVIDIA's sample.
pub const LATENCY: RepeatPolicy = RepeatPolicy {
    samples: 3,
    spread: 0.10,
    repeats: 2,
};

/// A figure and its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// All samples, in order.
    pub samples: Vec<f64>,
    /// The median of all samples.
    pub median: f64,
    /// How far the best agreeing samples differ, as a fraction of the median.
    pub spread: f64,
    /// How many more samples were taken than requested.
    pub repeats: usize,
    /// Whether too few samples agree in spite of the repeats.
    pub noisy: bool,
}

impl RepeatPolicy {
    /// Takes samples until enough of them agree or the repeats are used up.
    ///
    /// # Errors
    /// The first error of `sample`, or a sample that is not a positive, finite number.
    pub fn measure<E: From<Unusable>>(
        &self,
        mut sample: impl FnMut() -> Result<f64, E>,
    ) -> Result<Measured, E> {
        let mut samples = Vec::new();
        loop {
            samples.push(usable(sample()?)?);
            if !self.wants_more(&samples)? {
                return Ok(self.of(&samples)?);
            }
        }
    }

    /// Whether another sample must be taken: for callers that measure several things at the same time, and
    /// take one sample of each in turn until none wants more.
    ///
    /// # Errors
    /// A sample that is not a positive, finite number.
    pub fn wants_more(&self, samples: &[f64]) -> Result<bool, Unusable> {
        if samples.len() < self.wanted() {
            return sorted(samples).map(|_| true);
        }
        let measured = self.of(samples)?;
        Ok(measured.noisy && measured.repeats < self.repeats.min(self.wanted() - 1))
    }

    /// The figure of existing samples.
    ///
    /// # Errors
    /// There is none, or one is not a positive, finite number.
    pub fn of(&self, samples: &[f64]) -> Result<Measured, Unusable> {
        let sorted = sorted(samples)?;
        let median = middle(&sorted).ok_or(Unusable::None)?;
        let agreeing = self.wanted().min(sorted.len());
        let widths = sorted
            .windows(agreeing)
            .filter_map(|w| Some(w.last()? - w.first()?));
        let spread = widths.reduce(f64::min).ok_or(Unusable::None)? / median;
        let repeats = samples.len().saturating_sub(self.wanted());
        let noisy = spread > self.spread;
        Ok(Measured {
            samples: samples.to_vec(),
            median,
            spread,
            repeats,
            noisy,
        })
    }

    fn wanted(&self) -> usize {
        self.samples.max(1)
    }
}

/// The median of some figures: the middle one, or the mean of the two in the middle.
///
/// # Errors
/// There is none, or one is not a positive, finite number.
pub fn median(samples: &[f64]) -> Result<f64, Unusable> {
    middle(&sorted(samples)?).ok_or(Unusable::None)
}

fn usable(value: f64) -> Result<f64, Unusable> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(Unusable::Sample { value })
    }
}

fn sorted(samples: &[f64]) -> Result<Vec<f64>, Unusable> {
    let mut sorted = samples
        .iter()
        .map(|s| usable(*s))
        .collect::<Result<Vec<_>, _>>()?;
    sorted.sort_by(f64::total_cmp);
    Ok(sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(half.checked_sub(1)?)?, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Samples as a machine would give them, and how many of them were taken.
    fn run(policy: RepeatPolicy, given: &[f64]) -> (Result<Measured, Unusable>, usize) {
        let mut taken = 0;
        let measured = policy.measure(|| {
            taken += 1;
            given.get(taken - 1).copied().ok_or(Unusable::None)
        });
        (measured, taken)
    }

    #[test]
    fn samples_that_agree_are_taken_once() {
        let (measured, taken) = run(BANDWIDTH, &[392.0, 391.5, 392.6]);
        let measured = measured.unwrap();
        assert_eq!(
            (measured.median, measured.repeats, measured.noisy, taken),
            (392.0, 0, false, 3)
        );
        assert!((measured.spread - 1.1 / 392.0).abs() < 1e-9);
    }

    #[test]
    fn one_disturbed_sample_is_outvoted_by_repeats() {
        let (measured, taken) = run(BANDWIDTH, &[361.0, 391.9, 392.0, 392.1]);
        let measured = measured.unwrap();
        assert_eq!((measured.repeats, taken, measured.noisy), (1, 4, false));
        assert!((measured.median - 391.95).abs() < 1e-9);
        assert_eq!(
            measured.samples[0], 361.0,
            "the disturbed sample stays in the record"
        );
    }

    #[test]
    fn a_figure_that_keeps_scattering_is_marked_and_sampling_ends() {
        let (measured, taken) = run(BANDWIDTH, &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        let measured = measured.unwrap();
        assert_eq!(
            (measured.repeats, taken, measured.noisy, measured.median),
            (2, 5, true, 30.0)
        );
    }

    #[test]
    fn repeats_never_outnumber_the_majority() {
        let policy = RepeatPolicy {
            repeats: 100,
            ..BANDWIDTH
        };
        assert_eq!(run(policy, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]).1, 5);
        assert_eq!(
            run(
                RepeatPolicy {
                    samples: 0,
                    ..policy
                },
                &[1.0]
            )
            .1,
            1
        );
    }

    #[test]
    fn simultaneous_measurements_learn_whether_to_continue() {
        let more = |samples: &[f64]| BANDWIDTH.wants_more(samples);
        assert_eq!([more(&[]), more(&[392.0, 361.0])], [Ok(true), Ok(true)]);
        assert_eq!(
            [
                more(&[392.0, 361.0, 391.0]),
                more(&[392.0, 361.0, 391.0, 392.1])
            ],
            [Ok(true), Ok(false)]
        );
        assert_eq!(
            more(&[1.0, 2.0, 3.0, 4.0, 5.0]),
            Ok(false),
            "the repeats are used up"
        );
        assert!(more(&[f64::NAN]).is_err());
    }

    #[test]
    fn invalid_samples_never_become_a_figure() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                matches!(
                    run(BANDWIDTH, &[1.0, bad, 1.0]).0,
                    Err(Unusable::Sample { .. })
                ),
                "{bad}"
            );
            assert!(
                matches!(BANDWIDTH.of(&[bad]), Err(Unusable::Sample { .. })),
                "{bad}"
            );
        }
        assert_eq!(BANDWIDTH.of(&[]), Err(Unusable::None));
        assert_eq!(median(&[]), Err(Unusable::None));
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Ok(2.5));
        assert_eq!(median(&[7.0]), Ok(7.0));
    }

    proptest! {
        #[test]
        fn a_figure_is_among_samples_that_agree(
            samples in prop::collection::vec(0.001_f64..1e6, 5..6),
        ) {
            let (measured, taken) = run(BANDWIDTH, &samples);
            let measured = measured.unwrap();
            prop_assert_eq!(measured.samples.len(), taken);
            prop_assert!(measured.median.is_finite() && measured.median > 0.0);
            prop_assert!(measured.spread >= 0.0 && measured.repeats <= BANDWIDTH.repeats);
            if !measured.noisy {
                let near = |s: &&f64| (*s - measured.median).abs() <= measured.median * BANDWIDTH.spread;
                prop_assert!(measured.samples.iter().filter(near).count() >= BANDWIDTH.samples);
            }
        }
    }
}
