//! What several tests need: peer access, memory to test with, checked transfers, timing, findings about pairs.

pub(super) mod errand;
#[cfg(test)]
pub(super) mod fixture;
pub(super) mod gate;
pub(super) mod gpu_fault;
pub(super) mod look;
pub(super) mod open;
pub(super) mod pair;
pub(super) mod peer;
pub(super) mod peers;
pub(super) mod plot;
pub(super) mod room;
pub(super) mod seat;
pub(super) mod speed;
pub(super) mod transfer;
pub(super) mod window;
