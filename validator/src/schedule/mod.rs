//! Which transfers between GPUs may run at the same time: those whose paths share no resource. Pure data made
//! from the topology, so that a plan can be printed and tested without a GPU. The tests decide what is
//! transferred and how it is timed.

mod plan;
mod route;
mod text;

pub(crate) use plan::circle;
pub use plan::{Plan, Shared};
pub use route::{LinkDirection, NoRoute, Route, RouteKind, Routes};

use crate::machine::GpuId;
use crate::machine::pcie::model::Bdf;
use serde::{Serialize, Serializer};
use std::fmt;

/// Two GPUs by their numbers. In an ordered plan data goes `from` -> `to`; in an unordered one it
/// goes both ways and `from` is the smaller number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Pair {
    /// Where the data is.
    pub from: GpuId,
    /// Where it goes.
    pub to: GpuId,
}

impl Pair {
    /// `from` -> `to`
    #[must_use]
    pub const fn new(from: GpuId, to: GpuId) -> Self {
        Self { from, to }
    }

    /// `from` -> `to`, by their plain numbers.
    #[must_use]
    pub const fn of(from: usize, to: usize) -> Self {
        Self::new(GpuId::new(from), GpuId::new(to))
    }

    /// All pairs of `gpus` GPUs, including each GPU with itself.
    pub fn all(gpus: usize) -> impl Iterator<Item = Self> + Clone {
        GpuId::all(gpus).flat_map(move |from| GpuId::all(gpus).map(move |to| Self { from, to }))
    }

    /// The other direction.
    #[must_use]
    pub const fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }

    /// The same pair with the smaller number first.
    #[must_use]
    pub fn sorted(self) -> Self {
        Self { from: self.from.min(self.to), to: self.from.max(self.to) }
    }
}

/// In the format of findings: `GPU 0 -> 1`.
impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} -> {}", self.from, self.to)
    }
}

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
