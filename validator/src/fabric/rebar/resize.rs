//! One BAR that is to grow.

use crate::machine::pcie::model::Bdf;
use crate::text::size::size;
use serde::Serialize;
use std::fmt;

/// One BAR1 that should grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resize {
    /// Whose.
    pub bdf: Bdf,
    /// Which BAR of the PCI function NVIDIA calls BAR1.
    pub bar: u8,
    /// Its size.
    pub before_bytes: u64,
    /// False when it has no address: then even its present size is more than fits.
    pub assigned: bool,
    /// The size that it should have: the largest that the GPU offers.
    pub wanted_bytes: u64,
    /// What the GPU offers, ascending.
    pub supported_bytes: Vec<u64>,
    /// The root port above, whose window all GPUs below it share; `null` on a root bus.
    pub port: Option<Bdf>,
}

impl Resize {
    /// The sizes that would be better than what is there, the largest first.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        let better = |n: &&u64| **n > self.before_bytes || !self.assigned;
        self.supported_bytes.iter().rev().filter(better).copied().collect()
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = if self.assigned { "" } else { " without address" };
        write!(f, "{} BAR1 {}{without} -> {}", self.bdf, size(self.before_bytes), size(self.wanted_bytes))
    }
}
