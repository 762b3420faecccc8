//! An ordered or unordered pair of GPUs.

use super::GpuId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Two GPUs by their numbers. In an ordered plan data goes `from` -> `to`; in an unordered one it
/// goes both ways and `from` is the smaller number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Pair {
    /// Where the data is.
    pub from: GpuId,
    /// Where it goes.
    pub to: GpuId,
}

impl Pair {
    /// `from` -> `to`
    #[must_use]
    pub const fn new(from: GpuId, to: GpuId) -> Self {
        Self { from, to }
    }

    /// `from` -> `to`, by their plain numbers.
    #[must_use]
    pub const fn of(from: usize, to: usize) -> Self {
        Self::new(GpuId::new(from), GpuId::new(to))
    }

    /// All pairs of `gpus` GPUs, including each GPU with itself.
    pub fn all(gpus: usize) -> impl Iterator<Item = Self> + Clone {
        GpuId::all(gpus).flat_map(move |from| GpuId::all(gpus).map(move |to| Self { from, to }))
    }

    /// The other direction.
    #[must_use]
    pub const fn back(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
        }
    }

    /// The same pair with the smaller number first.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self {
            from: self.from.min(self.to),
            to: self.from.max(self.to),
        }
    }
}

/// In the format of findings: `GPU 0 -> 1`.
impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} -> {}", self.from, self.to)
    }
}
