//! Compares our figures with another program's, cell by cell. A cell is a miss if ours is worse by more than the limit, or
//! missing. Better by more than the limit is no miss but is counted, since a figure that is too good may be wrong too.

use super::range;
use super::{Grid, OwnReport, Reference};

/// One matrix of ours against theirs.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Our name for it.
    pub name: String,
    /// How much worse ours may be, as a fraction.
    pub limit: f64,
    /// Row by row; `None` where they have no figure.
    pub cells: Vec<Vec<Option<Cell>>>,
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Ours; `None` when it is missing.
    pub ours: Option<f64>,
    /// Theirs.
    pub theirs: f64,
}

/// A cell's result against its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitResult {
    /// Within the limit.
    Within,
    /// Better by more than the limit.
    Better,
    /// Worse by more than the limit, or missing.
    Missed,
}

/// The limit of a matrix, as a fraction: bandwidth between GPUs 2 %, of the sample and of the host 3 %, times 10 %.
#[must_use]
pub fn limit(name: &str) -> f64 {
    match name {
        _ if is_time(name) => 0.10,
        _ if name.starts_with("ce.") || name.starts_with("sm.") => 0.02,
        _ => 0.03,
    }
}

/// The result for a figure that is worse by the fraction `worse`; negative if it is better, `None` if it is missing.
#[must_use]
pub fn limit_result(worse: Option<f64>, limit: f64) -> LimitResult {
    match worse {
        Some(worse) if worse < -limit => LimitResult::Better,
        Some(worse) if worse <= limit => LimitResult::Within,
        // This includes NaN.
        _ => LimitResult::Missed,
    }
}

fn is_time(name: &str) -> bool {
    name.starts_with("sample.latency") || name == "chase"
}

/// Compares every matrix of `reference` with ours of the same name.
///
/// # Errors
/// If their sizes differ.
pub fn compare(ours: &OwnReport, reference: &Reference) -> Result<Vec<Comparison>, String> {
    reference
        .grids
        .iter()
        .map(|theirs| one(ours.grid(&theirs.name), theirs))
        .collect()
}

fn one(ours: Option<&Grid>, theirs: &Grid) -> Result<Comparison, String> {
    if let Some(ours) = ours.filter(|ours| ours.size() != theirs.size()) {
        return Err(format!(
            "{}: ours is {:?}, theirs {:?}",
            ours.name,
            ours.size(),
            theirs.size()
        ));
    }
    let cell = |(row, column): (usize, usize), theirs: f64| {
        let ours = ours.and_then(|grid| *grid.values.get(row)?.get(column)?);
        Cell { ours, theirs }
    };
    let row = |(row, cells): (usize, &Vec<Option<f64>>)| {
        let cells = cells.iter().enumerate();
        cells
            .map(|(column, theirs)| theirs.map(|theirs| cell((row, column), theirs)))
            .collect()
    };
    let cells = theirs.values.iter().enumerate().map(row).collect();
    Ok(Comparison {
        name: theirs.name.clone(),
        limit: limit(&theirs.name),
        cells,
    })
}

impl Cell {
    /// Ours / theirs.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| ours / self.theirs)
    }
}

impl Comparison {
    /// The result of a cell.
    #[must_use]
    pub fn limit_result(&self, cell: &Cell) -> LimitResult {
        limit_result(self.worse_by(cell), self.limit)
    }

    /// By what fraction ours is worse; negative if it is better.
    fn worse_by(&self, cell: &Cell) -> Option<f64> {
        cell.ratio().map(|ratio| {
            if is_time(&self.name) {
                ratio - 1.0
            } else {
                1.0 - ratio
            }
        })
    }

    /// Every cell in which they have a figure, with its position.
    pub fn all(&self) -> impl Iterator<Item = ((usize, usize), Cell)> {
        let row = |(row, cells): (usize, &Vec<Option<Cell>>)| {
            let cells = cells.iter().enumerate();
            cells
                .filter_map(|(n, cell)| Some(((row, n), (*cell)?)))
                .collect::<Vec<_>>()
        };
        self.cells.iter().enumerate().flat_map(row)
    }

    /// The number of cells with this result.
    #[must_use]
    pub fn count(&self, limit_result: LimitResult) -> usize {
        self.all()
            .filter(|(_, cell)| self.limit_result(cell) == limit_result)
            .count()
    }

    /// The cell in which ours is worst; a missing one is worse than any other.
    #[must_use]
    pub fn worst(&self) -> Option<((usize, usize), Cell)> {
        let worse = |cell: &Cell| self.worse_by(cell).unwrap_or(f64::INFINITY);
        self.all()
            .max_by(|(_, a), (_, b)| worse(a).total_cmp(&worse(b)))
    }

    /// The smallest ratio, the median and the largest.
    #[must_use]
    pub fn range(&self) -> Option<[f64; 3]> {
        range(self.all().filter_map(|(_, cell)| cell.ratio()).collect())
    }
}
