//! Which transfers between GPUs may run at the same time: those whose paths share no resource. Pure data made
//! from the topology, so that a plan can be printed and tested without a GPU. The tests decide what is
//! transferred and how it is timed.

mod plan;
mod route;
mod text;

pub(crate) use plan::circle;
pub use plan::{Plan, Shared};
pub use route::{LinkDirection, NoRoute, Route, RouteKind, Routes};

pub use outcome::platform::Pair;

use machine::GpuId;
use machine::pcie::model::Bdf;
use serde::{Serialize, Serializer};
use std::fmt;

/// One resource that only one transfer may use at a time. Coarse on purpose: a resource is occupied in both
/// directions, because two figures measured over one shared resource prove nothing about either transfer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A GPU, sending or receiving: a ring over all GPUs, in which each does both, moves less per
    /// pair than disjoint pairs do (seen on four H200 behind NVSwitch).
    Gpu(GpuId),
    /// The link of a bridge that the traffic crosses.
    Port(Bdf),
    /// The connection of the root ports of one root bus, named as in sysfs: `pci0000:c0`.
    HostBridge(String),
    /// The connection of the host bridges of one NUMA node; `None` where the firmware names no node.
    Node(Option<u32>),
    /// The connection of NUMA nodes, in one package or between packages: sysfs does not show which.
    Interconnect,
    /// Host memory, or an unknown path.
    Host,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu(n) => write!(f, "GPU {n}"),
            Self::Port(bdf) => write!(f, "{bdf}"),
            Self::HostBridge(bus) => write!(f, "host bridge {bus}"),
            Self::Node(Some(node)) => write!(f, "the fabric of NUMA node {node}"),
            Self::Node(None) => f.write_str("the processor's fabric"),
            Self::Interconnect => f.write_str("the interconnect between NUMA nodes"),
            Self::Host => f.write_str("host memory"),
        }
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
