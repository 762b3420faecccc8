//! Figures that still scatter after repeats, and figures that are outliers among others of the same kind:
//! robust statistics, which one bad figure cannot shift, instead of a table of what boards should reach.

use super::rounded;
use crate::schedule::Pair;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;
use report::stats::{Measured, RepeatPolicy, median};
use std::collections::BTreeMap;

/// The factor from the median absolute deviation to the standard deviation of a normal distribution.
const SIGMA: f64 = 1.4826;
/// A figure within this many standard deviations is not an outlier.
const SIGMAS: f64 = 6.0;
/// Nor is a figure within this fraction of the median: on record comparable pairs of a healthy machine differ by 9 %.
const NEAR: f64 = 0.15;
/// Smaller groups are not judged.
const FEWEST: usize = 5;
/// A pair is compared with all others if there are at least this many: the two directions of one other pair.
const FEWEST_OTHERS: usize = 2;

/// Pairs whose speed is far below that of their group. `what`: the matrix; `all`: GB/s by pair, and the group
/// of each.
#[must_use]
pub fn outliers(what: Metric, all: &[(Pair, f64, String)]) -> Vec<(Pair, Finding)> {
    let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (_, gb_s, like) in all {
        groups.entry(like).or_default().push(*gb_s);
    }
    let limits: BTreeMap<_, _> = groups
        .into_iter()
        .filter_map(|(like, group)| Some((like, limit(&group)?)))
        .collect();
    let name = name_in_sentence(what.name());
    let found = |(pair, gb_s, like): &(Pair, f64, String)| {
        let (middle, least) = limits
            .get(like.as_str())
            .filter(|(_, least)| gb_s < least)?;
        let message = format!(
            "{pair}: {name}: {gb_s:.2} GB/s, expected at least {least:.2} GB/s: the median of all comparable pairs is \
             {middle:.2} GB/s"
        );
        let finding = Code::P2pSlow.finding(Severity::Warn, pair, message);
        Some((
            *pair,
            finding.values(rounded(*gb_s), rounded(*least), Some("GB/s")),
        ))
    };
    all.iter().filter_map(found).collect()
}

/// Pairs that are slower than every other pair of their group, by more than comparable pairs of a healthy machine differ:
/// where a group is small, or its figures scatter, [`outliers`] says nothing. A pair's two directions count as one.
/// `what`, `all`: as there; the groups hold pairs whose links are alike.
#[must_use]
pub fn below_all_others(what: Metric, all: &[(Pair, f64, String)]) -> Vec<(Pair, Finding)> {
    let name = name_in_sentence(what.name());
    let found = |(pair, gb_s, like): &(Pair, f64, String)| {
        let others = || {
            all.iter()
                .filter(|(other, _, group)| group == like && other.sorted() != pair.sorted())
        };
        let slowest = others()
            .map(|(_, gb_s, _)| *gb_s)
            .reduce(f64::min)
            .filter(|_| others().count() >= FEWEST_OTHERS)?;
        let least = slowest * (1.0 - NEAR);
        if *gb_s >= least {
            return None;
        }
        let message = format!(
            "{pair}: {name}: {gb_s:.2} GB/s, expected at least {least:.2} GB/s: the slowest of all other comparable \
             pairs moves {slowest:.2} GB/s"
        );
        let finding = Code::P2pSlow.finding(Severity::Warn, *pair, message);
        Some((
            *pair,
            finding.values(rounded(*gb_s), rounded(least), Some("GB/s")),
        ))
    };
    all.iter().filter_map(found).collect()
}

/// The median of a group, and the limit for outliers below it.
fn limit(group: &[f64]) -> Option<(f64, f64)> {
    if group.len() < FEWEST {
        return None;
    }
    let middle = median(group).ok()?;
    let mut apart: Vec<_> = group.iter().map(|figure| (figure - middle).abs()).collect();
    apart.sort_by(f64::total_cmp);
    let deviation = apart.get(apart.len() / 2)? * SIGMA;
    Some((middle, middle - (deviation * SIGMAS).max(middle * NEAR)))
}

/// Scatter beyond this many times the policy's limit puts the figure itself in doubt: the floors are 15 % and
/// more below what healthy machines reach.
const DOUBTFUL: f64 = 5.0;

/// A figure that stayed noisy: information, or a warning when it may affect a verdict. `subject`: a pair;
/// `what`: the matrix, as in `ce.write`.
#[must_use]
pub fn noise(
    subject: impl Into<Subject>,
    what: Metric,
    policy: &RepeatPolicy,
    measured: &Measured,
) -> Option<Finding> {
    if !measured.noisy {
        return None;
    }
    let doubtful = measured.spread > policy.spread * DOUBTFUL;
    let severity = if doubtful {
        Severity::Warn
    } else {
        Severity::Info
    };
    let percent = |part: f64| (part * 1000.0).round() / 10.0;
    let (spread, allowed) = (percent(measured.spread), percent(policy.spread));
    let subject = subject.into();
    let (name, unit) = (name_in_sentence(what.name()), what.unit());
    let message = format!(
        "{subject}: {name}: {:.2} {unit} scatters by {spread} % after {} repeats, expected at most {allowed} %",
        measured.median, measured.repeats
    );
    let samples: Vec<_> = measured.samples.iter().map(|s| format!("{s:.2}")).collect();
    let finding = Code::P2pNoisy.finding(severity, subject, message);
    Some(
        finding
            .values(spread, allowed, Some("%"))
            .seen(format!("samples {} {unit}", samples.join(", "))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(figures: &[f64]) -> Vec<(Pair, f64, String)> {
        figures
            .iter()
            .enumerate()
            .map(|(n, f)| (Pair::of(0, n + 1), *f, "SYS".to_owned()))
            .collect()
    }

    #[test]
    fn one_far_below_its_group_is_named_and_cannot_shift_the_median() {
        let found = outliers(
            Metric::SM_WRITE,
            &all(&[25.5, 25.8, 25.6, 26.0, 12.0, 25.7]),
        );
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].0, found[0].1.severity),
            (Pair::of(0, 5), Severity::Warn)
        );
        assert!(
            found[0]
                .1
                .message
                .contains("the median of all comparable pairs is 25.65 GB/s"),
            "{found:?}"
        );
    }

    #[test]
    fn scatter_of_healthy_machines_is_no_outlier() {
        assert_eq!(
            outliers(
                Metric::CE_WRITE,
                &all(&[361.0, 375.6, 374.6, 391.8, 392.1, 392.0, 392.6])
            ),
            []
        );
        assert_eq!(
            outliers(
                Metric::CE_WRITE,
                &all(&[20.6, 22.5, 21.0, 21.7, 25.5, 26.0, 25.8])
            ),
            []
        );
        assert_eq!(
            outliers(Metric::CE_WRITE, &all(&[25.0, 25.0, 25.0, 2.0])),
            [],
            "too few"
        );
        let mut mixed = all(&[25.0; 6]);
        mixed.push((Pair::of(7, 8), 12.0, "PIX".to_owned()));
        assert_eq!(
            outliers(Metric::CE_WRITE, &mixed),
            [],
            "it is of another kind"
        );
    }

    #[test]
    fn a_pair_below_all_its_like_is_named_where_they_are_few_or_scatter() {
        let of = |figures: &[(usize, usize, f64)]| -> Vec<_> {
            figures
                .iter()
                .map(|(a, b, gb_s)| (Pair::of(*a, *b), *gb_s, "SYS".to_owned()))
                .collect()
        };
        // Two sockets with one pair each; both directions of one are 18 % slower.
        let few = of(&[(0, 1, 21.1), (1, 0, 21.2), (2, 3, 25.7), (3, 2, 25.8)]);
        assert_eq!(outliers(Metric::CE_WRITE, &few), []);
        let found = below_all_others(Metric::CE_WRITE, &few);
        assert_eq!(
            found.iter().map(|(pair, _)| *pair).collect::<Vec<_>>(),
            [Pair::of(0, 1), Pair::of(1, 0)]
        );
        assert_eq!(found[0].1.severity, Severity::Warn);
        assert!(
            found[0]
                .1
                .message
                .ends_with("the slowest of all other comparable pairs moves 25.70 GB/s"),
            "{found:?}"
        );
        let scattered = of(&[
            (0, 4, 20.6),
            (0, 5, 22.5),
            (1, 4, 21.0),
            (1, 5, 22.4),
            (2, 4, 22.0),
            (2, 5, 17.2),
        ]);
        assert_eq!(outliers(Metric::CE_WRITE, &scattered), []);
        assert_eq!(below_all_others(Metric::CE_WRITE, &scattered).len(), 1);
    }

    #[test]
    fn a_pair_without_others_and_pairs_that_differ_as_healthy_ones_do_are_not_named() {
        let of = |figures: &[f64]| below_all_others(Metric::CE_WRITE, &all(figures));
        assert_eq!(of(&[12.0]), []);
        assert_eq!(of(&[361.0, 391.8, 392.1]), []);
        assert_eq!(of(&[20.6, 22.5, 21.0, 21.7, 25.5, 26.0, 25.8]), []);
        assert_eq!(
            of(&[13.0, 13.1, 26.0, 26.1]),
            [],
            "two are alike, and neither is below all others"
        );
    }
}
