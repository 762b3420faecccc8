//! The machine around the fabric: what its kernel and firmware say about themselves.

pub mod cpu;
pub mod iommu;
