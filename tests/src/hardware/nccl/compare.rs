//! Our sweep against nccl-tests' of the same collective: bus bandwidth at the largest size, time at the
//! smallest, and that no element is wrong. What is missing is missed.

use super::{Asked, PLACES, Row, Sweep, Theirs};
use crate::hardware::compare::{Mark, mark};

/// What a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Bus bandwidth, GB/s.
    Busbw,
    /// Time of one call, microseconds.
    Time,
}

/// One figure to which a limit belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// What it is.
    pub what: What,
    /// Of which size.
    pub bytes: u64,
    /// One of [`PLACES`].
    pub place: &'static str,
    /// Ours; `None` when we have no such row.
    pub ours: Option<f64>,
    /// Theirs.
    pub theirs: f64,
}

/// One collective.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Which.
    pub asked: Asked,
    /// The figures that have limits.
    pub held: Vec<Held>,
    /// Our wrong elements; an error when some were not checked that they checked.
    pub wrong: Result<u64, String>,
    /// Size by size: theirs and, where we have it, ours.
    pub rows: Vec<(Row, Option<Row>)>,
}

/// Ours against theirs.
///
/// # Errors
/// When they are not of the same thing.
pub fn compare(ours: &Sweep, theirs: &Theirs) -> Result<Comparison, String> {
    let Theirs { asked, sweep: peer, .. } = theirs;
    if ours.data != peer.data {
        return Err(format!("ours is of {}, theirs of {}", ours.data, peer.data));
    }
    let (smallest, largest) = peer.ends().ok_or("theirs has no size above 0")?;
    let held = [(What::Busbw, largest), (What::Time, smallest)];
    let held = held.into_iter().flat_map(|(what, bytes)| at(what, bytes, ours, peer)).collect();
    let rows = peer.rows.iter().filter(|row| row.bytes > 0);
    let rows: Vec<_> = rows.map(|row| (*row, ours.row(row.bytes).copied())).collect();
    let wrong = wrong(ours, &rows);
    Ok(Comparison { asked: *asked, held, wrong, rows })
}

fn at(what: What, bytes: u64, ours: &Sweep, theirs: &Sweep) -> Vec<Held> {
    let of = |row: &Row, n: usize| match what {
        What::Busbw => row.places[n].busbw,
        What::Time => row.places[n].us,
    };
    let held = |(n, place)| {
        let theirs = of(theirs.row(bytes)?, n);
        Some(Held { what, bytes, place, ours: ours.row(bytes).map(|row| of(row, n)), theirs })
    };
    PLACES.into_iter().enumerate().filter_map(held).collect()
}

/// The sum of all our rows, those included that they do not have.
fn wrong(ours: &Sweep, rows: &[(Row, Option<Row>)]) -> Result<u64, String> {
    for (theirs, ours) in rows {
        for (n, place) in PLACES.iter().enumerate() {
            let checked = ours.is_none_or(|ours| ours.places[n].wrong.is_some());
            if theirs.places[n].wrong.is_some() && !checked {
                return Err(format!("{} B {place} was not checked", theirs.bytes));
            }
        }
    }
    Ok(ours.rows.iter().flat_map(|row| row.places).filter_map(|timed| timed.wrong).sum())
}

impl Held {
    /// How far ours may be worse, as a part: bandwidth 2 %, time 10 %.
    #[must_use]
    pub fn limit(&self) -> f64 {
        match self.what {
            What::Busbw => 0.02,
            What::Time => 0.10,
        }
    }

    /// Ours / theirs.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.ours.map(|ours| ours / self.theirs)
    }

    /// How it stands to its limit.
    #[must_use]
    pub fn mark(&self) -> Mark {
        // A time of nothing is no time.
        let ratio = self.ratio().filter(|ratio| *ratio > 0.0);
        let worse = ratio.map(|ratio| if self.what == What::Time { ratio - 1.0 } else { 1.0 - ratio });
        mark(worse, self.limit())
    }
}

impl Comparison {
    /// How many of the figures stand so.
    #[must_use]
    pub fn count(&self, mark: Mark) -> usize {
        self.held.iter().filter(|held| held.mark() == mark).count()
    }

    /// True when nothing is wrong, nothing is unchecked, and every limit is kept.
    #[must_use]
    pub fn reached(&self) -> bool {
        self.wrong == Ok(0) && self.count(Mark::Miss) == 0
    }
}
