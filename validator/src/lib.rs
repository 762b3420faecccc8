//! firstlight's validator: reads a machine, repairs its PCIe fabric settings, proves that its GPUs really exchange
//! data, and reports the result. It deals with PCIe and GPUs; running as process 1 is left to init.

#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod engine;
pub mod floors;
pub mod nccl;
pub mod net;
pub mod nodes;
pub mod process;
pub mod render;
pub mod schedule;
pub mod suite;
