//! The machine as it is: its files through one root, its host, its PCIe functions and its boot image. Only reads.

pub mod host;
pub mod image;
pub mod pcie;
pub mod recording;
pub mod root;
