//! What the test was asked, and what it knows of the machine.

use crate::config::Level;
use crate::floors::Carrier;
use crate::schedule::Pair;

/// What the test was asked, and what it knows of the machine.
pub(super) struct Asked<'a> {
    pub(super) gpus: usize,
    pub(super) level: Level,
    /// `expect.min_p2p_gb_s`
    pub(super) least: Option<f64>,
    /// What carries each pair's data.
    pub(super) carrier: &'a dyn Fn(Pair) -> Carrier,
    /// What its links carry at their best, GB/s.
    pub(super) ceiling: &'a dyn Fn(Pair) -> Option<f64>,
    /// What the links of the two GPUs themselves carry under load, GB/s.
    pub(super) own: &'a dyn Fn(Pair) -> Option<f64>,
    /// With which others a pair is to be compared.
    pub(super) like: &'a dyn Fn(Pair) -> String,
}

impl Asked<'_> {
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> {
        let gpus = self.gpus;
        (0..gpus).flat_map(move |from| (0..gpus).map(move |to| Pair::new(from, to)))
    }
}
