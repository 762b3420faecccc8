//! firstlight's validator: reads a machine, mends its PCIe fabric, proves that its GPUs really
//! talk to each other, and reports it. It knows PCIe and GPUs and nothing of being process 1.

pub mod args;
pub mod cmd;
pub mod config;
pub mod finding;
pub mod host;
mod nearest;
pub mod outcome;
pub mod pcie;
pub mod render;
pub mod report;
pub mod root;
pub mod run;
pub mod suite;
mod time;
