//! firstlight's validator: reads a machine, mends its PCIe fabric, proves that its GPUs really
//! talk to each other, and reports it. It knows PCIe and GPUs and nothing of being process 1.

pub mod args;
mod bounded;
mod chain;
pub mod cmd;
pub mod collective;
pub mod config;
pub mod finding;
pub mod gpu;
pub mod host;
pub mod http;
pub mod image;
pub mod judge;
mod lineage;
pub mod measure;
mod nearest;
pub mod outcome;
pub mod partner;
pub mod pattern;
pub mod pcie;
pub mod place;
pub mod protocol;
pub mod publish;
pub mod ranks;
pub mod render;
pub mod report;
pub mod root;
pub mod run;
pub mod schedule;
pub mod scope;
mod shown;
pub mod sntp;
pub mod suite;
mod time;
