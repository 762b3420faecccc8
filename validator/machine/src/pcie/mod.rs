//! PCIe: the fabric as data, the content of configuration space, the path between two functions, and their
//! distance. `fabric` reads a fabric from /sys and changes it.

pub mod aperture;
pub mod bus_address;
pub mod config_space;
pub mod gpu_block;
pub mod link;
pub mod model;
pub mod nic;
pub mod path;
pub mod pci_ids;
pub mod resource;
pub mod routing;
pub mod topo;
pub mod tree;
pub mod vfio;
pub mod vpd;

#[cfg(any(test, feature = "samples"))]
pub mod sample;
