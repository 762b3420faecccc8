use super::*;
use proptest::prelude::*;

/// Samples as a machine would give them, and how many of them were taken.
fn run(policy: Policy, given: &[f64]) -> (Result<Measured, Unusable>, usize) {
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
    assert_eq!((measured.median, measured.repeats, measured.noisy, taken), (392.0, 0, false, 3));
    assert!((measured.spread - 1.1 / 392.0).abs() < 1e-9);
}

#[test]
fn one_sample_that_was_disturbed_is_outvoted_by_repeats() {
    let (measured, taken) = run(BANDWIDTH, &[361.0, 391.9, 392.0, 392.1]);
    let measured = measured.unwrap();
    assert_eq!((measured.repeats, taken, measured.noisy), (1, 4, false));
    assert!((measured.median - 391.95).abs() < 1e-9);
    assert_eq!(measured.samples[0], 361.0, "what was disturbed stays in the record");
}

#[test]
fn a_figure_that_keeps_scattering_stays_marked_and_ends() {
    let (measured, taken) = run(BANDWIDTH, &[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    let measured = measured.unwrap();
    assert_eq!((measured.repeats, taken, measured.noisy, measured.median), (2, 5, true, 30.0));
}

#[test]
fn no_more_samples_are_repeated_than_leave_a_majority() {
    let policy = Policy { repeats: 100, ..BANDWIDTH };
    assert_eq!(run(policy, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]).1, 5);
    assert_eq!(run(Policy { samples: 0, ..policy }, &[1.0]).1, 1);
}

#[test]
fn those_who_measure_together_are_told_whether_to_go_on() {
    let more = |samples: &[f64]| BANDWIDTH.wants_more(samples);
    assert_eq!([more(&[]), more(&[392.0, 361.0])], [Ok(true), Ok(true)]);
    assert_eq!([more(&[392.0, 361.0, 391.0]), more(&[392.0, 361.0, 391.0, 392.1])], [Ok(true), Ok(false)]);
    assert_eq!(more(&[1.0, 2.0, 3.0, 4.0, 5.0]), Ok(false), "the repeats are used up");
    assert!(more(&[f64::NAN]).is_err());
}

#[test]
fn what_is_no_figure_never_becomes_one() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(run(BANDWIDTH, &[1.0, bad, 1.0]).0, Err(Unusable::Sample { .. })), "{bad}");
        assert!(matches!(BANDWIDTH.of(&[bad]), Err(Unusable::Sample { .. })), "{bad}");
    }
    assert_eq!(BANDWIDTH.of(&[]), Err(Unusable::None));
    assert_eq!(median(&[]), Err(Unusable::None));
}

#[test]
fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Ok(2.5));
    assert_eq!(median(&[7.0]), Ok(7.0));
}

proptest! {
    #[test]
    fn a_figure_lies_among_samples_that_agree(
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
