//! NVIDIA's driver: its version, how it was loaded, what it has logged, and whether CUDA starts on it.

pub(super) mod cuda;
#[expect(clippy::module_inception, reason = "a test's file has the test's id")]
pub(super) mod driver;
pub(super) mod drivers;
pub(super) mod nodes;
mod nvlink_fabric;
pub(super) mod params;
pub(super) mod patch;
mod witnesses;
pub(super) mod xid;
