//! PCI vendor ids, as /sys writes them.

/// NVIDIA: GPUs, their audio functions, NVSwitches.
pub const NVIDIA: &str = "0x10de";

/// Mellanox, today NVIDIA: ConnectX and BlueField.
pub const MELLANOX: &str = "0x15b3";
