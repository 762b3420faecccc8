//! The configuration of the test, and what is known about the machine.

use crate::config::Level;
use crate::floors::Carrier;
use crate::schedule::Pair;

/// The configuration of the test, and what is known about the machine.
pub(super) struct Basis<'a> {
    pub(super) gpus: usize,
    pub(super) level: Level,
    /// `expect.min_p2p_gb_s`
    pub(super) least: Option<f64>,
    /// What carries each pair's data.
    pub(super) carrier: &'a dyn Fn(Pair) -> Carrier,
    /// What its links carry at their best, GB/s.
    pub(super) ceiling: &'a dyn Fn(Pair) -> Option<f64>,
    /// What the GPUs' own links carry under load, GB/s.
    pub(super) own: &'a dyn Fn(Pair) -> Option<f64>,
    /// The group that a pair is compared with.
    pub(super) like: &'a dyn Fn(Pair) -> String,
}

impl Basis<'_> {
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> {
        let gpus = self.gpus;
        (0..gpus).flat_map(move |from| (0..gpus).map(move |to| Pair::new(from, to)))
    }
}
