//! Figures by metric and pair, which become the report's matrices.

use crate::schedule::Pair;
use crate::suite::shared::pair::matrix;
use outcome::Matrix;
use outcome::metric::Metric;
use report::stats::Measured;
use std::collections::BTreeMap;

/// All figures of a test, by metric and pair. A figure that looks wrong is measured again later; the better of
/// the two counts, or the second if only the first scatters, and both are reported.
#[derive(Debug, Default)]
pub(in crate::suite) struct Grid {
    figures: Cells,
    again: Cells,
    /// Figures are times: less is better.
    times: bool,
}

/// Figures by metric and pair.
type Cells = BTreeMap<Metric, BTreeMap<Pair, Measured>>;

impl Grid {
    /// A grid of times, where less is better.
    pub(in crate::suite) fn times() -> Self {
        Self {
            times: true,
            ..Self::default()
        }
    }

    /// Adds a figure.
    pub(in crate::suite) fn put(&mut self, metric: Metric, pair: Pair, figure: Measured) {
        self.figures.entry(metric).or_default().insert(pair, figure);
    }

    /// Adds a figure of a second measurement.
    pub(in crate::suite) fn put_again(&mut self, metric: Metric, pair: Pair, figure: Measured) {
        self.again.entry(metric).or_default().insert(pair, figure);
    }

    /// The figure of a pair: the better one, if it was measured twice.
    pub(in crate::suite) fn get(&self, metric: Metric, pair: Pair) -> Option<f64> {
        let first = self.figures.get(&metric)?.get(&pair)?;
        Some(self.better(metric, pair, first).median)
    }

    /// The first figure, and that of the second measurement.
    pub(in crate::suite) fn both(&self, metric: Metric, pair: Pair) -> Option<(f64, Option<f64>)> {
        let first = self.figures.get(&metric)?.get(&pair)?.median;
        Some((first, self.second(metric, pair).map(|second| second.median)))
    }

    /// All figures that were measured again: metric, pair, first and second figure.
    pub(in crate::suite) fn repeated(&self) -> impl Iterator<Item = (Metric, Pair, f64, f64)> {
        let cells = self
            .again
            .iter()
            .flat_map(|(metric, cells)| cells.iter().map(|(pair, m)| (*metric, *pair, m)));
        cells.filter_map(|(metric, pair, m)| {
            Some((metric, pair, self.both(metric, pair)?.0, m.median))
        })
    }

    fn second(&self, metric: Metric, pair: Pair) -> Option<&Measured> {
        self.again.get(&metric)?.get(&pair)
    }

    fn better<'a>(&'a self, metric: Metric, pair: Pair, first: &'a Measured) -> &'a Measured {
        let better = |second: &Measured| (second.median < first.median) == self.times;
        let beats = |second: &&Measured| match (first.noisy, second.noisy) {
            (true, false) => true,
            (false, true) => false,
            _ => better(second),
        };
        self.second(metric, pair).filter(beats).unwrap_or(first)
    }

    /// The figures of all pairs with this metric.
    pub(in crate::suite) fn all(&self, metric: Metric) -> impl Iterator<Item = (Pair, f64)> {
        let cells = self.figures.get_key_value(&metric).into_iter();
        cells.flat_map(|(metric, cells)| {
            cells
                .iter()
                .map(|(pair, m)| (*pair, self.better(*metric, *pair, m).median))
        })
    }

    /// All figures with their samples: metric, pair, and the better measurement.
    pub(in crate::suite) fn measured(&self) -> impl Iterator<Item = (Metric, Pair, &Measured)> {
        let cells = self
            .figures
            .iter()
            .flat_map(|(metric, cells)| cells.iter().map(|(pair, m)| (*metric, *pair, m)));
        cells.map(|(metric, pair, first)| (metric, pair, self.better(metric, pair, first)))
    }

    /// All figures, each with the samples of both measurements.
    pub(in crate::suite) fn everything(&self) -> impl Iterator<Item = (Metric, Pair, Measured)> {
        self.figures.iter().flat_map(move |(metric, cells)| {
            cells.iter().map(move |(pair, first)| {
                let mut all = self.better(*metric, *pair, first).clone();
                let second = self
                    .second(*metric, *pair)
                    .map_or(&[][..], |second| &second.samples);
                all.samples = first.samples.iter().chain(second).copied().collect();
                (*metric, *pair, all)
            })
        })
    }

    /// The smallest and the largest figure of a metric.
    pub(in crate::suite) fn range(&self, metric: Metric) -> Option<(f64, f64)> {
        let all = || self.all(metric).map(|(_, figure)| figure);
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }

    /// A matrix of all GPUs, `null` where there is no figure.
    pub(in crate::suite) fn matrix(&self, metric: Metric, gpus: usize) -> Matrix {
        matrix(metric, gpus, |pair| self.get(metric, pair).map(rounded))
    }
}

/// The first items of all iterators, then their second items, and so on: what different pairs do at the same time.
pub(in crate::suite) fn transpose<T>(mut all: Vec<impl Iterator<Item = T>>) -> Vec<Vec<T>> {
    let next = || {
        let round: Vec<_> = all.iter_mut().filter_map(Iterator::next).collect();
        (!round.is_empty()).then_some(round)
    };
    std::iter::from_fn(next).collect()
}

/// Rounded to three decimals, the resolution of a clock.
pub(in crate::suite) fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::stats::BANDWIDTH;

    #[test]
    fn first_items_come_first() {
        assert_eq!(
            transpose(vec!["ab".chars(), "cde".chars()]),
            [vec!['a', 'c'], vec!['b', 'd'], vec!['e']]
        );
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let mut grid = Grid::default();
        grid.put(
            Metric::CE_WRITE,
            Pair::of(0, 1),
            BANDWIDTH.of(&[393.000_04; 3]).unwrap(),
        );
        let matrix = grid.matrix(Metric::CE_WRITE, 2);
        assert_eq!(matrix.values, [vec![None, Some(393.0)], vec![None, None]]);
        assert_eq!(grid.range(Metric::CE_READ), None);
    }

    #[test]
    fn a_measurement_that_does_not_scatter_counts_before_one_that_does() {
        let pair = Pair::of(0, 1);
        let (calm, noisy) = (
            BANDWIDTH.of(&[54.0; 3]).unwrap(),
            BANDWIDTH.of(&[40.0, 48.0, 55.0, 60.0, 66.0]).unwrap(),
        );
        assert!(noisy.noisy && noisy.median > calm.median);
        for (first, second) in [(&noisy, &calm), (&calm, &noisy)] {
            let mut grid = Grid::default();
            grid.put(Metric::HOST_TO, pair, first.clone());
            grid.put_again(Metric::HOST_TO, pair, second.clone());
            assert_eq!(grid.get(Metric::HOST_TO, pair), Some(54.0));
            assert!(!grid.measured().next().unwrap().2.noisy);
        }
    }

    #[test]
    fn the_better_of_two_measurements_counts_and_both_are_reported() {
        let figure = |median: f64| BANDWIDTH.of(&[median; 3]).unwrap();
        let pair = Pair::of(0, 1);
        for (mut grid, better) in [(Grid::default(), 30.0), (Grid::times(), 20.0)] {
            grid.put(Metric::LOAD, pair, figure(20.0));
            assert_eq!(grid.both(Metric::LOAD, pair), Some((20.0, None)));
            grid.put_again(Metric::LOAD, pair, figure(30.0));
            assert_eq!(
                (grid.get(Metric::LOAD, pair), grid.both(Metric::LOAD, pair)),
                (Some(better), Some((20.0, Some(30.0))))
            );
            assert_eq!(grid.all(Metric::LOAD).collect::<Vec<_>>(), [(pair, better)]);
            assert_eq!(grid.measured().next().unwrap().2.median, better);
            assert_eq!(
                grid.repeated().collect::<Vec<_>>(),
                [(Metric::LOAD, pair, 20.0, 30.0)]
            );
        }
    }
}
