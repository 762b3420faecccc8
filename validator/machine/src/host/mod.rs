//! The host around the GPUs: processors, IOMMU, kernel, log, modules, framebuffers. Reading and parsing
//! are separate functions; parsers are pure.

pub mod affinity;
pub mod bandwidth;
pub mod cmdline;
pub mod cpu;
pub mod faults;
pub mod framebuffer;
pub mod identity;
pub mod interfaces;
pub mod iommu;
pub mod kmsg;
pub mod madt;
pub mod modprobe;
pub mod modules;
pub mod nvidia;
pub mod own_processes;
pub mod platform;
pub mod rdma;
pub mod sva;
