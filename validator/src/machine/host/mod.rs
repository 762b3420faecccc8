//! The host around the GPUs: processors, IOMMU, kernel, log, modules, screen. Reading and parsing
//! are separate functions; parsers are pure.

pub mod cmdline;
pub mod cpu;
pub mod faults;
pub mod identity;
pub mod interfaces;
pub mod iommu;
pub mod kin;
pub mod kmsg;
pub mod madt;
pub mod modules;
pub mod near;
pub mod nvidia;
pub mod rdma;
pub mod screen;
