//! The stability of the figures: a table of the spread of samples, and a finding if there are more slow samples
//! than by chance. The median hides them, but they slow programs down. Pure.

use crate::schedule::Pair;
use crate::suite::benchmark::{Grid, rounded};
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use outcome::table::{SpreadRow, Table};
use outcome::text::names::name_in_sentence;
use report::stats::Measured;

/// A sample below this fraction of its figure is slow.
const SLOW: f64 = 0.7;
/// The fraction of slow samples that a matrix may have: a busy host disturbs some.
const MANY: f64 = 0.1;
/// At least this many figures must have slow samples: a disturbance of a few at the same time is not a burst.
const FEW: usize = 3;

/// A row for each matrix: figures, samples, the largest spread within one figure, the slowest sample as a
/// fraction of its figure, and how many were slow.
pub(super) fn spreads(grid: &Grid) -> Option<Table> {
    let mut names: Vec<_> = grid.everything().map(|(name, ..)| name).collect();
    names.dedup();
    let row = |metric: &Metric| {
        let all: Vec<_> = of(grid, *metric).collect();
        let widest = all
            .iter()
            .max_by(|a, b| width(&a.1).total_cmp(&width(&b.1)))?;
        let slowest = all
            .iter()
            .map(|(_, m)| least(m) / m.median)
            .reduce(f64::min)?;
        let count = |f: fn(&Measured) -> usize| all.iter().map(|(_, m)| f(m)).sum::<usize>();
        Some(SpreadRow {
            matrix: metric.name().to_owned(),
            figures: all.len(),
            samples: count(|m| m.samples.len()),
            spread: rounded(width(&widest.1) * 100.0),
            pair: widest.0,
            slowest: rounded(slowest * 100.0),
            slow: count(slow),
        })
    };
    let rows: Vec<_> = names.iter().filter_map(row).collect();
    (!rows.is_empty()).then_some(Table::Spread(rows))
}

/// The finding about slow samples among good ones, for figures with peer access on.
pub(super) fn bursts(grid: &Grid) -> Option<Finding> {
    let on = |metric: Metric| !matches!(metric, Metric::Sample { access: false, .. });
    let all: Vec<_> = grid
        .everything()
        .filter(|(metric, pair, _)| on(*metric) && pair.from != pair.to)
        .collect();
    let (samples, found) = counted(&all);
    if found == 0 {
        return None;
    }
    let many = |name: &Metric| {
        let own: Vec<_> = all.iter().filter(|(n, ..)| n == name).cloned().collect();
        let figures = own.iter().filter(|(.., m)| slow(m) > 0).count();
        let (samples, found) = counted(&own);
        figures > FEW && percent(found, samples) > MANY * 100.0
    };
    let mut names: Vec<_> = all.iter().map(|(name, ..)| *name).collect();
    names.dedup();
    let severity = if names.iter().any(many) {
        Severity::Warn
    } else {
        Severity::Info
    };
    let message = format!(
        "{found} of {samples} samples moved less than {SLOW} of their figure, expected at most {:.0} % of \
         each matrix",
        MANY * 100.0
    );
    let line = |(name, pair, m): &(Metric, Pair, Measured)| {
        let samples: Vec<_> = m.samples.iter().map(|s| format!("{s:.2}")).collect();
        format!(
            "{pair}: {}: {:.2} GB/s, samples {}",
            name_in_sentence(name.name()),
            m.median,
            samples.join(", ")
        )
    };
    let worst = all
        .iter()
        .filter(|(.., m)| slow(m) > 0)
        .take(8)
        .map(line)
        .collect();
    let finding = Code::P2pBursts.finding(severity, Subject::Machine, message);
    Some(
        finding
            .values(rounded(percent(found, samples)), MANY * 100.0, Some("%"))
            .seen_all(worst),
    )
}

/// The number of samples, and of slow ones among them.
fn counted(all: &[(Metric, Pair, Measured)]) -> (usize, usize) {
    let sum = |f: fn(&Measured) -> usize| all.iter().map(|(.., m)| f(m)).sum();
    (sum(|m| m.samples.len()), sum(slow))
}

#[expect(clippy::cast_precision_loss, reason = "thousands at most")]
fn percent(part: usize, all: usize) -> f64 {
    part as f64 / all.max(1) as f64 * 100.0
}

fn of(grid: &Grid, metric: Metric) -> impl Iterator<Item = (Pair, Measured)> {
    grid.everything()
        .filter(move |(n, ..)| *n == metric)
        .map(|(_, pair, m)| (pair, m))
}

fn slow(measured: &Measured) -> usize {
    measured
        .samples
        .iter()
        .filter(|sample| **sample < measured.median * SLOW)
        .count()
}

fn least(measured: &Measured) -> f64 {
    measured
        .samples
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min)
}

/// The spread of all samples, as a fraction of the median.
fn width(measured: &Measured) -> f64 {
    (measured.samples.iter().copied().fold(0.0, f64::max) - least(measured)) / measured.median
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::stats::BANDWIDTH;

    fn grid(samples: &[f64], slow: usize, figures: usize) -> Grid {
        let mut grid = Grid::default();
        for n in 0..figures {
            let samples = if n < slow { samples } else { &[25.0; 3] };
            grid.put(
                Metric::CE_WRITE,
                Pair::of(n, n + 1),
                BANDWIDTH.of(samples).unwrap(),
            );
        }
        grid
    }

    #[test]
    fn the_spread_is_reported() {
        let table = spreads(&grid(&[25.0, 25.1, 5.0, 25.0], 2, 4)).unwrap();
        let (matrix, pair) = (Metric::CE_WRITE.name().to_owned(), Pair::of(1, 2));
        let row = SpreadRow {
            matrix,
            figures: 4,
            samples: 14,
            spread: 80.4,
            pair,
            slowest: 20.0,
            slow: 2,
        };
        assert!(matches!(table, Table::Spread(rows) if rows[0] == row));
        assert_eq!(spreads(&Grid::default()), None);
    }

    #[test]
    fn bursts_among_good_samples_are_reported_and_many_are_a_warning() {
        assert_eq!(bursts(&grid(&[25.0, 25.2, 25.1], 2, 4)), None);
        assert_eq!(
            bursts(&grid(&[25.0, 25.1, 5.0, 25.0], 4, 40))
                .unwrap()
                .severity,
            Severity::Info
        );
        let finding = bursts(&grid(&[25.0, 25.1, 5.0, 6.0, 25.0], 4, 12)).unwrap();
        assert_eq!(
            (finding.severity, finding.evidence.len()),
            (Severity::Warn, 4)
        );
        assert!(
            finding
                .message
                .starts_with("8 of 44 samples moved less than 0.7"),
            "{finding:?}"
        );
        // A figure that was low only once was a burst.
        let mut moment = grid(&[5.0; 3], 2, 4);
        for n in 0..2 {
            moment.put_again(
                Metric::CE_WRITE,
                Pair::of(n, n + 1),
                BANDWIDTH.of(&[25.0; 3]).unwrap(),
            );
        }
        let finding = bursts(&moment).unwrap();
        assert!(
            finding.message.starts_with("6 of 18 samples") && finding.severity == Severity::Info
        );
    }
}
