//! Figures by name and pair, which become the report's matrices.

use crate::schedule::Pair;
use crate::suite::shared::pair::matrix;
use outcome::Matrix;
use report::stats::Measured;
use std::collections::BTreeMap;

/// All figures of a test, by name and pair. A figure that looks wrong is measured again later; the better of
/// the two counts, and both are reported.
#[derive(Debug, Default)]
pub(in crate::suite) struct Grid {
    figures: Cells,
    again: Cells,
    /// Figures are times: less is better.
    times: bool,
}

/// Figures by name and pair.
type Cells = BTreeMap<&'static str, BTreeMap<Pair, Measured>>;

impl Grid {
    /// A grid of times, where less is better.
    pub(in crate::suite) fn times() -> Self {
        Self { times: true, ..Self::default() }
    }

    /// Adds a figure.
    pub(in crate::suite) fn put(&mut self, name: &'static str, pair: Pair, figure: Measured) {
        self.figures.entry(name).or_default().insert(pair, figure);
    }

    /// Adds a figure of a second measurement.
    pub(in crate::suite) fn put_again(&mut self, name: &'static str, pair: Pair, figure: Measured) {
        self.again.entry(name).or_default().insert(pair, figure);
    }

    /// The figure of a pair: the better one, if it was measured twice.
    pub(in crate::suite) fn get(&self, name: &str, pair: Pair) -> Option<f64> {
        let first = self.figures.get(name)?.get(&pair)?;
        Some(self.better(name, pair, first).median)
    }

    /// The first figure, and that of the second measurement.
    pub(in crate::suite) fn both(&self, name: &str, pair: Pair) -> Option<(f64, Option<f64>)> {
        let first = self.figures.get(name)?.get(&pair)?.median;
        Some((first, self.second(name, pair).map(|second| second.median)))
    }

    /// All figures that were measured again: name, pair, first and second figure.
    pub(in crate::suite) fn repeated(&self) -> impl Iterator<Item = (&'static str, Pair, f64, f64)> {
        let cells = self.again.iter().flat_map(|(name, cells)| cells.iter().map(|(pair, m)| (*name, *pair, m)));
        cells.filter_map(|(name, pair, m)| Some((name, pair, self.both(name, pair)?.0, m.median)))
    }

    fn second(&self, name: &str, pair: Pair) -> Option<&Measured> {
        self.again.get(name)?.get(&pair)
    }

    fn better<'a>(&'a self, name: &str, pair: Pair, first: &'a Measured) -> &'a Measured {
        let beats = |second: &&Measured| (second.median < first.median) == self.times;
        self.second(name, pair).filter(beats).unwrap_or(first)
    }

    /// The figures of all pairs with this name.
    pub(in crate::suite) fn all(&self, name: &str) -> impl Iterator<Item = (Pair, f64)> {
        let cells = self.figures.get_key_value(name).into_iter();
        cells.flat_map(|(name, cells)| cells.iter().map(|(pair, m)| (*pair, self.better(name, *pair, m).median)))
    }

    /// All figures with their samples: name, pair, and the better measurement.
    pub(in crate::suite) fn measured(&self) -> impl Iterator<Item = (&'static str, Pair, &Measured)> {
        let cells = self.figures.iter().flat_map(|(name, cells)| cells.iter().map(|(pair, m)| (*name, *pair, m)));
        cells.map(|(name, pair, first)| (name, pair, self.better(name, pair, first)))
    }

    /// All figures, each with the samples of both measurements.
    pub(in crate::suite) fn everything(&self) -> impl Iterator<Item = (&'static str, Pair, Measured)> {
        self.figures.iter().flat_map(move |(name, cells)| {
            cells.iter().map(move |(pair, first)| {
                let mut all = self.better(name, *pair, first).clone();
                let second = self.second(name, *pair).map_or(&[][..], |second| &second.samples);
                all.samples = first.samples.iter().chain(second).copied().collect();
                (*name, *pair, all)
            })
        })
    }

    /// The smallest and the largest figure of a name.
    pub(in crate::suite) fn range(&self, name: &str) -> Option<(f64, f64)> {
        let all = || self.all(name).map(|(_, figure)| figure);
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }

    /// A matrix of all GPUs, `null` where there is no figure.
    pub(in crate::suite) fn matrix(&self, name: &str, unit: &str, gpus: usize) -> Matrix {
        matrix(name, unit, gpus, |pair| self.get(name, pair).map(rounded))
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
        assert_eq!(transpose(vec!["ab".chars(), "cde".chars()]), [vec!['a', 'c'], vec!['b', 'd'], vec!['e']]);
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let mut grid = Grid::default();
        grid.put("ce.write", Pair::of(0, 1), BANDWIDTH.of(&[393.000_04; 3]).unwrap());
        let matrix = grid.matrix("ce.write", "GB/s", 2);
        assert_eq!(matrix.values, [vec![None, Some(393.0)], vec![None, None]]);
        assert_eq!(grid.range("ce.read"), None);
    }

    #[test]
    fn the_better_of_two_measurements_counts_and_both_are_reported() {
        let figure = |median: f64| BANDWIDTH.of(&[median; 3]).unwrap();
        let pair = Pair::of(0, 1);
        for (mut grid, better) in [(Grid::default(), 30.0), (Grid::times(), 20.0)] {
            grid.put("x", pair, figure(20.0));
            assert_eq!(grid.both("x", pair), Some((20.0, None)));
            grid.put_again("x", pair, figure(30.0));
            assert_eq!((grid.get("x", pair), grid.both("x", pair)), (Some(better), Some((20.0, Some(30.0)))));
            assert_eq!(grid.all("x").collect::<Vec<_>>(), [(pair, better)]);
            assert_eq!(grid.measured().next().unwrap().2.median, better);
            assert_eq!(grid.repeated().collect::<Vec<_>>(), [("x", pair, 20.0, 30.0)]);
        }
    }
}
