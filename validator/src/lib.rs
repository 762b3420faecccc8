//! firstlight's validator: reads a machine, mends its PCIe fabric, proves that its GPUs really
//! talk to each other, and reports it. It knows PCIe and GPUs and nothing of being process 1.

pub mod cli;
pub mod config;
pub mod engine;
pub mod fabric;
pub mod files;
pub mod floors;
pub mod gpu;
pub mod machine;
pub mod nccl;
pub mod net;
pub mod nodes;
pub mod outcome;
pub mod process;
pub mod render;
pub mod report;
pub mod schedule;
pub mod suite;
mod text;
