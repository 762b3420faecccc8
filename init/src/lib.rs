//! firstlight's process 1 as a library: everything except the order of the boot, which is in `main.rs`. It
//! knows Linux and nothing of CUDA or PCI registers.

pub mod child;
pub mod config;
pub mod console;
pub mod disk;
pub mod driver;
pub mod environment;
pub mod fault;
pub mod file_io;
pub mod handoff;
pub mod helper;
pub mod machine;
pub mod modules;
pub mod paths;
#[cfg(test)]
mod sample;
pub mod stages;
pub mod sys;
pub mod verdict;
