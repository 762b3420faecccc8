//! The PCIe fabric: what stands in configuration space, how devices reach each other, and what
//! the fabric pass changes about it.

pub mod acs;
pub mod acs_bits;
mod aperture;
pub mod apply;
pub mod bdf;
mod bus_address;
pub mod config_space;
pub mod journal;
pub mod judge;
pub mod link;
pub mod model;
pub mod near;
pub mod nic;
pub mod pass_through;
pub mod path;
pub mod plan;
pub mod read;
pub mod rebar;
pub mod register;
pub mod restore;
pub mod routing;
pub mod text;
pub mod topo;
pub mod tree;
pub mod turn;

#[cfg(test)]
pub(crate) mod sample;
