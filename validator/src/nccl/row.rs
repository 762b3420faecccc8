//! One row of nccl-tests' table: what was measured at one size, out of place and in place.

use crate::gpu::{Collective, DataType, RedOp};
use serde::{Deserialize, Serialize};

/// Where the result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Into another buffer.
    OutOfPlace,
    /// Into the sent buffer, or a part of it.
    InPlace,
}

/// Elements that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wrongs {
    /// How many, of all ranks.
    pub count: u64,
    /// How many were looked at, of all ranks.
    pub looked: u64,
    /// How many calls of the collective gave them.
    pub calls: u64,
    /// The first of them.
    pub first: Option<FirstWrong>,
}

impl Wrongs {
    /// Those of two checks; the first is that of the earlier.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self {
            count: self.count.saturating_add(later.count),
            looked: self.looked.saturating_add(later.looked),
            calls: self.calls.saturating_add(later.calls),
            first: self.first.or(later.first),
        }
    }
}

/// The first wrong element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstWrong {
    /// Whose receive buffer.
    pub rank: usize,
    /// In which of the checked calls, from 0 on.
    pub call: u64,
    /// Its number there.
    pub element: u64,
    /// What it holds, as text.
    pub found: String,
    /// What it should hold, as text.
    pub expected: String,
}

/// One placement's figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// Time of one call, microseconds.
    pub us: f64,
    /// `None` where nothing was checked.
    pub wrong: Option<Wrongs>,
}

/// One size.
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
    /// The reduction, where it is one or nccl-tests names one.
    pub op: Option<RedOp>,
    /// The root, where there is one.
    pub root: Option<usize>,
    /// How many ranks.
    pub ranks: usize,
    /// Into another buffer.
    pub out_of_place: Timed,
    /// Into the same.
    pub in_place: Timed,
}

impl Row {
    /// Algorithm bandwidth in GB/s: the row's bytes over the time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bytes of a buffer are exact in 53 bits")]
    pub fn algbw(&self, timed: &Timed) -> f64 {
        if timed.us > 0.0 { self.bytes as f64 / 1e3 / timed.us } else { 0.0 }
    }

    /// Bus bandwidth in GB/s.
    #[must_use]
    pub fn busbw(&self, timed: &Timed) -> f64 {
        self.algbw(timed) * self.collective.bus_factor(self.ranks as u64)
    }

    /// Calls whose results were looked at, of both placements.
    #[must_use]
    pub fn checked(&self) -> u64 {
        [&self.out_of_place, &self.in_place].iter().filter_map(|t| t.wrong.as_ref()).map(|w| w.calls).sum()
    }

    /// Wrong elements of both placements.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        [&self.out_of_place, &self.in_place].iter().filter_map(|t| t.wrong.as_ref()).map(|w| w.count).sum()
    }
}
