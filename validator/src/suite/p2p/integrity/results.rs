//! What was tried, and the results.

use crate::machine::GpuId;
use crate::outcome::finding::Finding;
use crate::schedule::Pair;
use crate::suite::shared::plot::Share;
use crate::suite::shared::transfer::Fault;

/// Whether a pair could be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// CUDA reports that there is none.
    No,
    /// CUDA reports access but refuses it: the error.
    Refused(String),
    /// It was enabled.
    On,
}

/// The result of one pair.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) pair: Pair,
    pub(super) access: Access,
    pub(super) faults: Vec<Fault>,
    /// What ended its transfers early.
    pub(super) ended: Option<Box<Finding>>,
}

/// What was tried besides the pairs one by one.
#[derive(Debug, Default)]
pub(super) struct All {
    /// All pairs together.
    pub(super) crowd: Option<Crowd>,
    /// How much memory was watched.
    pub(super) watched: Vec<Share>,
}

/// What each pair did while all pairs were active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crowd {
    /// The seed of the sizes and addresses.
    pub(super) seed: u64,
    /// Sizes of small and of large copies, one direction of one engine: kernels, then copy engines.
    pub(super) kernel: Vec<u64>,
    pub(super) copy: Vec<u64>,
    pub(super) large: Vec<u64>,
    /// How many peers a GPU had at once.
    pub(super) at_once: usize,
}

/// Data that was in a source area.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) gpu: GpuId,
    pub(super) seed: u64,
}
