//! One row of nccl-tests' table: the measurement of one size, out of place and in place.

use gpu::{Collective, DataType, RedOp};
use machine::Rank;
use serde::{Deserialize, Serialize};

/// Where the result is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// To another buffer.
    OutOfPlace,
    /// To the send buffer, or a part of it.
    InPlace,
}

/// The result of checking elements: how many are wrong, and the first of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wrongs {
    /// How many, of all ranks.
    pub count: u64,
    /// Of those, how many are all ones.
    pub ones: u64,
    /// How many elements were checked, of all ranks.
    pub looked: u64,
    /// How many calls of the collective were checked.
    pub calls: u64,
    /// The first wrong one.
    pub first: Option<FirstWrong>,
    /// Memory beside a rank's buffers that was changed: the first place.
    pub stray: Option<Box<Stray>>,
}

/// Memory beside a buffer that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// The rank of the buffer.
    pub rank: Rank,
    /// Whether it is the receive buffer; else the send buffer.
    pub receive: bool,
    /// Whether the changed memory is behind the memory that the calls use; else before it.
    pub behind: bool,
    /// The distance from there to the nearest change, bytes.
    pub distance: u64,
    /// How many words of the guard band were changed.
    pub words: u64,
    /// The content there, as text.
    pub found: String,
}

impl Wrongs {
    /// The sum of two checks; the first wrong element is that of the earlier one.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            count: self.count.saturating_add(later.count),
            ones: self.ones.saturating_add(later.ones),
            looked: self.looked.saturating_add(later.looked),
            calls: self.calls.saturating_add(later.calls),
            first: self.first.or(later.first),
            stray: self.stray.or(later.stray),
        }
    }
}

/// The first wrong element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstWrong {
    /// The rank of the receive buffer.
    pub rank: Rank,
    /// The number of the checked call, from 0 on.
    pub call: u64,
    /// The element's number in the buffer.
    pub element: u64,
    /// Its content, as text.
    pub found: String,
    /// The expected content, as text.
    pub expected: String,
}

/// The figures of one placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Time of one call, microseconds.
    pub us: f64,
    /// `None` where nothing was checked.
    pub wrong: Option<Wrongs>,
}

/// The measurement of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which collective.
    pub collective: Collective,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// The call's count, elements.
    pub count: u64,
    /// Element type.
    pub data: DataType,
    /// The reduction, where there is one or nccl-tests names one.
    pub op: Option<RedOp>,
    /// The root, where there is one.
    pub root: Option<Rank>,
    /// How many ranks.
    pub ranks: usize,
    /// Out of place.
    pub out_of_place: Timed,
    /// In place.
    pub in_place: Timed,
}

impl Row {
    /// Algorithm bandwidth in GB/s: the row's bytes over the time.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "bytes of a buffer are exact in 53 bits"
    )]
    pub fn algbw(&self, timed: &Timed) -> f64 {
        if timed.us > 0.0 {
            self.bytes as f64 / 1e3 / timed.us
        } else {
            0.0
        }
    }

    /// Bus bandwidth in GB/s.
    #[must_use]
    pub fn busbw(&self, timed: &Timed) -> f64 {
        self.algbw(timed) * self.collective.bus_factor(self.ranks as u64)
    }

    /// Calls whose results were checked, in both placements.
    #[must_use]
    pub fn checked(&self) -> u64 {
        [&self.out_of_place, &self.in_place]
            .iter()
            .filter_map(|t| t.wrong.as_ref())
            .map(|w| w.calls)
            .sum()
    }

    /// Wrong elements in both placements.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        [&self.out_of_place, &self.in_place]
            .iter()
            .filter_map(|t| t.wrong.as_ref())
            .map(|w| w.count)
            .sum()
    }
}
