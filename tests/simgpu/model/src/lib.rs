//! The model of the simulated GPUs, without any foreign interface: a machine and its faults come from a scenario, memory is
//! a map of extents, and streams run in simulated time over links that traffic shares. The libraries next to this crate put
//! NVIDIA's and rdma-core's interfaces in front of it.

pub mod api;
pub mod check;
pub mod collective;
pub mod content;
pub mod element;
pub mod engine;
pub mod events;
pub mod extents;
pub mod fault;
pub mod flow;
pub mod kernel;
pub mod library_folder;
pub mod links;
pub mod memory;
pub mod nvlink;
pub mod pattern;
pub mod reduce;
pub mod scenario;
pub mod status;
pub mod values;
pub mod work_time;

pub use api::Simulation;
pub use scenario::Scenario;
pub use status::{Result, Status};

use std::time::Duration;

/// The host's memory and clock, as the model sees them: in the libraries the real memory of the program under test, in
/// tests a map.
pub trait Host {
    /// The bytes at `address`.
    fn read(&self, address: u64, bytes: u64) -> Vec<u8>;
    /// Writes `bytes` at `address`.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// Makes whole grains of page-locked memory inaccessible: the model knows their contents, and
    /// [`memory::Pinned::materialize`] is called before the program under test touches them.
    fn close(&mut self, address: u64, bytes: u64);
    /// Makes them accessible again, with undefined contents.
    fn open(&mut self, address: u64, bytes: u64);
    /// One word, read again each time (volatile).
    fn word(&self, address: u64) -> u32;
    /// Real time since some fixed start, so that waiting for the host can time out.
    fn clock(&self) -> Duration;
}
