//! What firstlight reaches on the GPUs of this machine, and how that compares with what other programs reached there or on
//! machines of the same kind. Parsing and comparing are pure; running is in `run`. The report is read only by its
//! documented names, as any outside program would read it.

pub mod compare;
pub mod nccl;
pub mod ours;
pub mod references;
pub mod run;
pub mod text;

pub use compare::{Comparison, compare};
pub use ours::OwnReport;
pub use references::{Reference, References, read as read_references};

/// Rows of cells; `None` where there is no figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// As in `tests[].matrices[].name`.
    pub name: String,
    /// Row by row.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Grid {
    /// Rows and columns; `None` if the rows differ in length.
    #[must_use]
    pub fn size(&self) -> Option<(usize, usize)> {
        let columns = self.values.first().map_or(0, Vec::len);
        self.values
            .iter()
            .all(|row| row.len() == columns)
            .then_some((self.values.len(), columns))
    }

    /// The figures with their positions, row by row.
    pub fn cells(&self) -> impl Iterator<Item = ((usize, usize), Option<f64>)> {
        let row = |(row, cells): (usize, &Vec<Option<f64>>)| {
            let cells: Vec<_> = cells
                .iter()
                .enumerate()
                .map(|(n, value)| ((row, n), *value))
                .collect();
            cells
        };
        self.values.iter().enumerate().flat_map(row)
    }

    /// The smallest figure, the median and the largest; `None` if there are none.
    #[must_use]
    pub fn range(&self) -> Option<[f64; 3]> {
        range(self.cells().filter_map(|(_, value)| value).collect())
    }
}

/// The smallest, the median and the largest of some figures; `None` if there are none.
#[must_use]
pub fn range(mut figures: Vec<f64>) -> Option<[f64; 3]> {
    figures.sort_by(f64::total_cmp);
    let (low, high) = (*figures.first()?, *figures.last()?);
    let half = figures.len() / 2;
    let middle = if figures.len() % 2 == 1 {
        figures[half]
    } else {
        f64::midpoint(figures[half - 1], figures[half])
    };
    Some([low, middle, high])
}
