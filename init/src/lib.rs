//! firstlight's process 1 as a library: everything but the order of the boot, which stands in
//! `main.rs`. It knows Linux and nothing of CUDA or PCI registers.

pub mod child;
pub mod config;
pub mod netlink;
pub mod sys;
