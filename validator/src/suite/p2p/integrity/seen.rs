//! What was tried, and what came of it.

use crate::outcome::finding::Finding;
use crate::schedule::Pair;
use crate::suite::shared::plot::Share;
use crate::suite::shared::transfer::Fault;

/// Whether a pair could be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// CUDA says that there is none.
    No,
    /// CUDA says that there is, and refuses it: its words.
    Refused(String),
    /// It was switched on.
    On,
}

/// What came of one pair.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) pair: Pair,
    pub(super) access: Access,
    pub(super) faults: Vec<Fault>,
    /// What ended its transfers early.
    pub(super) ended: Option<Box<Finding>>,
}

/// What was tried beside the pairs one by one.
#[derive(Debug, Default)]
pub(super) struct All {
    /// All pairs together.
    pub(super) crowd: Option<Crowd>,
    /// How much memory was watched.
    pub(super) watched: Vec<Share>,
}

/// What each pair did while all did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crowd {
    /// What the sizes and places follow from.
    pub(super) seed: u64,
    /// Sizes of small and of large copies, one way of one engine: kernels, then copy engines.
    pub(super) kernel: Vec<u64>,
    pub(super) copy: Vec<u64>,
    pub(super) large: Vec<u64>,
    /// How many peers a GPU had at once.
    pub(super) at_once: usize,
}

/// Data that was in somebody's source area.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) gpu: usize,
    pub(super) seed: u64,
}
