//! Figures by name and pair, as they become the report's matrices.

use super::super::pair::matrix;
use crate::measure::Measured;
use crate::report::Matrix;
use crate::schedule::Pair;
use std::collections::BTreeMap;

/// All figures of a test.
#[derive(Debug, Default)]
pub(in crate::suite) struct Grid(BTreeMap<&'static str, BTreeMap<Pair, Measured>>);

impl Grid {
    /// Keeps a figure.
    pub(in crate::suite) fn put(&mut self, name: &'static str, pair: Pair, figure: Measured) {
        self.0.entry(name).or_default().insert(pair, figure);
    }

    /// A figure.
    pub(in crate::suite) fn get(&self, name: &str, pair: Pair) -> Option<f64> {
        Some(self.0.get(name)?.get(&pair)?.median)
    }

    /// All figures of a name.
    pub(in crate::suite) fn all(&self, name: &str) -> impl Iterator<Item = (Pair, f64)> {
        self.0.get(name).into_iter().flatten().map(|(pair, figure)| (*pair, figure.median))
    }

    /// Everything, with all samples.
    pub(in crate::suite) fn measured(&self) -> impl Iterator<Item = (&'static str, Pair, &Measured)> {
        self.0.iter().flat_map(|(name, cells)| cells.iter().map(|(pair, figure)| (*name, *pair, figure)))
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

/// The n-th items of all together: what different pairs do at the same time.
pub(in crate::suite) fn across<T>(mut all: Vec<impl Iterator<Item = T>>) -> Vec<Vec<T>> {
    let next = || {
        let round: Vec<_> = all.iter_mut().filter_map(Iterator::next).collect();
        (!round.is_empty()).then_some(round)
    };
    std::iter::from_fn(next).collect()
}

/// Three decimals, as many as a clock promises.
pub(in crate::suite) fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::BANDWIDTH;

    #[test]
    fn the_first_of_all_come_first() {
        assert_eq!(across(vec!["ab".chars(), "cde".chars()]), [vec!['a', 'c'], vec!['b', 'd'], vec!['e']]);
    }

    #[test]
    fn what_was_not_measured_is_null() {
        let mut grid = Grid::default();
        grid.put("ce.write", Pair::new(0, 1), BANDWIDTH.of(&[393.000_04; 3]).unwrap());
        let matrix = grid.matrix("ce.write", "GB/s", 2);
        assert_eq!(matrix.values, [vec![None, Some(393.0)], vec![None, None]]);
        assert_eq!(grid.range("ce.read"), None);
    }
}
