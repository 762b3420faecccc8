//! PCIe: the fabric as data, what configuration space holds, the way between two functions, and how near they are.
//! Reading a fabric from /sys and changing it is left to `fabric`.

pub mod acs_bits;
pub mod aperture;
pub mod bdf;
pub mod bus_address;
pub mod config_space;
pub mod link;
pub mod model;
pub mod near;
pub mod nic;
pub mod path;
pub(crate) mod resource;
pub mod routing;
pub mod topo;
pub mod tree;

#[cfg(test)]
pub(crate) mod sample;
