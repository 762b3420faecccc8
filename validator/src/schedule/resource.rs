//! What a transfer between two GPUs occupies. Coarse on purpose: a thing is occupied whatever the
//! direction, because two figures that were measured over one shared thing say nothing about either.

use crate::machine::pcie::model::Bdf;
use serde::{Serialize, Serializer};
use std::fmt;

/// One thing that only one transfer may use at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// A GPU, sending or receiving: a ring over all GPUs, in which each does both, moves less per
    /// pair than disjoint pairs do (seen on four H200 behind NVSwitch).
    Gpu(usize),
    /// The link of a bridge that the traffic crosses.
    Port(Bdf),
    /// What joins the root ports of one root bus, named as sysfs does: `pci0000:c0`.
    HostBridge(String),
    /// What joins the host bridges of one NUMA node; `None` where the firmware names no node.
    Node(Option<u32>),
    /// What joins NUMA nodes, in one package or between packages: which, sysfs does not tell.
    Interconnect,
    /// The host's memory, or a way of which nothing is known.
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
            Self::Host => f.write_str("the host's memory"),
        }
    }
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
