//! NVIDIA's driver: its version, how it was loaded, what it has logged, and whether CUDA starts on it.

pub(super) mod bar1_static;
pub(super) mod bound;
pub(super) mod cuda;
pub(super) mod nodes;
pub(super) mod params;
pub(super) mod patch;
pub(super) mod version;
pub(super) mod xid;
