//! What several tests need: peer access, memory to test with, checked transfers, timing, findings about pairs.

pub(super) mod bar1_mapping;
pub(super) mod copy_batch;
#[cfg(test)]
pub(super) mod fixture;
pub(super) mod free_memory;
pub(super) mod gate;
pub(super) mod gpu_fault;
pub(super) mod gpu_resources;
pub(super) mod gpu_snapshots;
pub(super) mod held_memory;
pub(super) mod late_counters;
pub(super) mod pair;
pub(super) mod peer_access;
pub(super) mod peer_groups;
pub(super) mod peer_mechanism;
pub(super) mod transfer;
