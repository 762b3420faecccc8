//! Simulated GPUs as a model without any foreign interface: a machine and its faults come from a
//! scenario, memory is a map of extents, streams run in simulated time over links that traffic
//! shares. The two libraries beside this crate put NVIDIA's interfaces in front of it.

pub mod api;
pub mod beside;
pub mod check;
pub mod check_batch;
pub mod check_values;
pub mod collective;
pub mod content;
pub mod element;
pub mod engine;
pub mod events;
pub mod extents;
pub mod fault;
pub mod flow;
pub mod host;
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
