//! The PCIe fabric: what stands in configuration space, how devices reach each other, and what
//! the fabric pass changes about it.

pub mod model;
