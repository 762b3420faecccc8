//! Which transfers between GPUs may run at the same time: those whose paths share no resource. Pure data made
//! from the topology, so that a plan can be printed and tested without a GPU. The tests decide what is
//! transferred and how it is timed.

mod order;
mod plan;
mod resource;
mod route;
mod text;

pub(crate) use order::circle;
pub use plan::{Plan, Shared};
pub use resource::Resource;
pub use route::{Lane, NoRoute, Route, Routes, Way};

use serde::Serialize;
use std::fmt;

/// Two GPUs by their numbers. In an ordered plan data goes `from` -> `to`; in an unordered one it
/// goes both ways and `from` is the smaller number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Pair {
    /// Where the data is.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
}

impl Pair {
    /// `from` -> `to`
    #[must_use]
    pub const fn new(from: usize, to: usize) -> Self {
        Self { from, to }
    }

    /// The other direction.
    #[must_use]
    pub const fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }

    /// The same pair with the smaller number first.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self { from: self.from.min(self.to), to: self.from.max(self.to) }
    }
}

/// In the format of findings: `GPU 0 -> 1`.
impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} -> {}", self.from, self.to)
    }
}

#[cfg(test)]
mod tests;
