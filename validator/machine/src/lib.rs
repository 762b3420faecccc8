//! The machine: its files below one root, its host, its PCIe functions and its boot image. Read-only.

#![forbid(unsafe_code)]

pub mod host;
pub mod image;
pub mod pcie;
pub mod recording;
pub mod root;

pub use outcome::platform::{GpuId, Rank};
