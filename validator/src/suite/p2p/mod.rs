//! Transfers between GPUs: access, data, order, bandwidth, latency.

pub(super) mod allreduce;
pub(super) mod bandwidth;
pub(super) mod capability;
pub(super) mod integrity;
pub(super) mod latency;
pub(super) mod order;
pub(super) mod processes;
pub(super) mod reach;
pub(super) mod soak;
pub(super) mod together;
