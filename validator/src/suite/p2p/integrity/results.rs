//! The results of the pairs, one by one and all together.

use crate::schedule::Pair;
use crate::suite::shared::held_memory::MemoryShare;
use crate::suite::shared::transfer::Fault;
use machine::GpuId;
use outcome::finding::Finding;

/// Whether a pair could be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AccessState {
    /// CUDA reports that there is none.
    No,
    /// CUDA reports access but refuses it: the error.
    Refused(String),
    /// Access was enabled.
    On,
}

/// The result of one pair's transfers.
#[derive(Debug)]
pub(super) struct PairResult {
    pub(super) pair: Pair,
    pub(super) access: AccessState,
    pub(super) faults: Vec<Fault>,
    /// What ended its transfers early.
    pub(super) ended: Option<Box<Finding>>,
}

/// The results beyond those of single pairs.
#[derive(Debug, Default)]
pub(super) struct OverallResults {
    /// The copies of all pairs at the same time, if they were made.
    pub(super) all_pairs: Option<AllPairsRun>,
    /// How much memory was watched.
    pub(super) watched: Vec<MemoryShare>,
}

/// The copies that each pair made while all pairs were active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AllPairsRun {
    /// The seed of the sizes and addresses.
    pub(super) seed: u64,
    /// Sizes of the copies in one direction, bytes: small ones by kernels, small ones by copy engines, large
    /// ones by both.
    pub(super) kernel: Vec<u64>,
    pub(super) copy: Vec<u64>,
    pub(super) large: Vec<u64>,
    /// How many peers a GPU had at once.
    pub(super) at_once: usize,
    /// Whether all of it was also made in mapped memory.
    pub(super) mapped: bool,
}

/// The pattern that a GPU's source area held.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentPattern {
    pub(super) gpu: GpuId,
    pub(super) seed: u64,
}
