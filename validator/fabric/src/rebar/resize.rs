//! One BAR that should be enlarged.

use machine::pcie::model::Bdf;
use outcome::text::size;
use serde::Serialize;
use std::fmt;

/// One BAR1 that should be enlarged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resize {
    /// The GPU.
    pub bdf: Bdf,
    /// The index of the PCI BAR that NVIDIA calls BAR1.
    pub bar: u8,
    /// Its size.
    pub before_bytes: u64,
    /// False if it has no address: then even its present size does not fit.
    pub assigned: bool,
    /// The size that it should have: the largest that the GPU offers.
    pub wanted_bytes: u64,
    /// What the GPU offers, ascending.
    pub supported_bytes: Vec<u64>,
    /// The root port above, whose window all GPUs below it share; `null` on a root bus.
    pub port: Option<Bdf>,
}

impl Resize {
    /// The sizes larger than the present one, the largest first.
    #[must_use]
    pub fn sizes(&self) -> Vec<u64> {
        let better = |n: &&u64| **n > self.before_bytes || !self.assigned;
        self.supported_bytes
            .iter()
            .rev()
            .filter(better)
            .copied()
            .collect()
    }
}

impl fmt::Display for Resize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without = if self.assigned {
            ""
        } else {
            " without address"
        };
        write!(
            f,
            "{} BAR1 {}{without} -> {}",
            self.bdf,
            size(self.before_bytes),
            size(self.wanted_bytes)
        )
    }
}
