//! Simulated GPUs as a model without any foreign interface: a machine and its faults come from a
//! scenario, memory is a map of extents, streams run in simulated time over links that traffic
//! shares. The two libraries beside this crate put NVIDIA's interfaces in front of it.

pub mod api;
pub mod beside;
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
pub mod links;
pub mod memory;
pub mod pattern;
pub mod reduce;
pub mod scenario;
pub mod status;
pub mod values;

pub use api::Simulation;
pub use scenario::Scenario;
pub use status::{Result, Status};

use std::time::Duration;

/// The host's memory and clock, as the model sees them. In the libraries it is real memory of the
/// program under test, and in tests a map.
pub trait Host {
    /// The bytes at `address`.
    fn read(&self, address: u64, bytes: u64) -> Vec<u8>;
    /// Puts `bytes` at `address`.
    fn write(&mut self, address: u64, bytes: &[u8]);
    /// Takes whole grains of page-locked memory away: the model knows what should stand there, and is asked
    /// through [`memory::Pinned::settle`] before the program under test touches them.
    fn close(&mut self, address: u64, bytes: u64);
    /// Gives them back, with anything in them.
    fn open(&mut self, address: u64, bytes: u64);
    /// One word, read again each time.
    fn word(&self, address: u64) -> u32;
    /// Real time since some beginning: what the host waits for must not wait for ever.
    fn clock(&self) -> Duration;
}
