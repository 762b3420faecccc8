//! RDMA devices (HCAs) as `ibdev2netdev` and NCCL see them: ports, their state and rate, the network
//! interface of each and its addresses (GIDs). The test `nics` judges them; `pcie` gives the position of a
//! device in the fabric.

mod counters;
mod read;
mod text;

pub use counters::{Bytes, RdmaCounters, read_counters};
pub use read::read;

use std::fmt;
use std::net::Ipv4Addr;

/// Linux's RDMA drivers and the modules that they share, by the beginning of their names (drivers/infiniband). Kernel
/// threads and work queues of a driver begin with the same words.
pub const MODULES: &[&str] = &[
    "mlx5",
    "mlx4",
    "bnxt",
    "irdma",
    "efa",
    "hfi1",
    "qedr",
    "hns_roce",
    "mana_ib",
    "erdma",
    "ionic",
    "iw_cxgb4",
    "ocrdma",
    "vmw_pvrdma",
    "rdma",
    "ib_",
    "iw_cm",
    "siw",
];

/// One RDMA device.
#[derive(Debug, Clone, PartialEq)]
pub struct Hca {
    /// `mlx5_0`
    pub name: String,
    /// Its ports, by number.
    pub ports: Vec<Port>,
}

/// One port.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Counted from 1.
    pub number: u32,
    /// The logical state: only an ACTIVE port carries traffic.
    pub state: PortState,
    /// The physical state in the kernel's word: `LinkUp`, `Polling`, `Disabled` ..
    pub physical: String,
    /// `Ethernet` (RoCE) or `InfiniBand`.
    pub layer: String,
    /// The rate of the link.
    pub rate: Rate,
    /// Addresses that are in use, by index.
    pub gids: Vec<Gid>,
    /// Its network interface.
    pub netdev: Option<Netdev>,
}

/// The logical state of a port, by the numbers of `enum ib_port_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// 1: no link, or disabled.
    Down,
    /// 2: a link, but no subnet manager has configured it yet.
    Init,
    /// 3: configured by the subnet manager, not yet active.
    Armed,
    /// 4: in use.
    Active,
    /// 0, and 5 or more.
    Other(u32),
}

/// A port's present rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Gb/s of all lanes together.
    pub gbit_s: f64,
    /// Lanes in use, as InfiniBand counts them; for Ethernet the kernel invents them.
    pub lanes: u32,
}

/// An address of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Its index in the port's table, which NCCL_IB_GID_INDEX names; it changes when addresses change.
    pub index: u32,
    /// `RoCE v2`, `IB/RoCE v1`
    pub kind: String,
    /// The IPv4 address that it represents.
    pub ipv4: Option<Ipv4Addr>,
    /// The network interface that it belongs to.
    pub netdev: Option<String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Netdev {
    /// `ens1f0np0`
    pub name: String,
    /// `up`, `down`, `dormant` ..
    pub operstate: String,
    /// Whether there is a carrier; `None` if it is switched off, because then the kernel does not report it.
    pub carrier: Option<bool>,
    /// Mb/s; `None` without a carrier.
    pub mbit_s: Option<u64>,
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("DOWN"),
            Self::Init => f.write_str("INIT"),
            Self::Armed => f.write_str("ARMED"),
            Self::Active => f.write_str("ACTIVE"),
            Self::Other(n) => write!(f, "state {n}"),
        }
    }
}

impl Port {
    /// Whether it can carry traffic. Its addresses do not show that: they remain when the link goes down.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == PortState::Active
    }

    /// RoCE: RDMA over Ethernet.
    #[must_use]
    pub fn is_ethernet(&self) -> bool {
        self.layer == "Ethernet"
    }

    /// The first address by which a RoCE v2 peer on IPv4 reaches the port; NCCL looks for it too.
    #[must_use]
    pub fn roce_v2_ipv4(&self) -> Option<&Gid> {
        let own = |gid: &&Gid| match (&gid.netdev, &self.netdev) {
            (Some(of), Some(netdev)) => *of == netdev.name,
            _ => true,
        };
        let fits = |gid: &&Gid| gid.kind == "RoCE v2" && gid.ipv4.is_some();
        self.gids
            .iter()
            .filter(own)
            .find(fits)
            .or_else(|| self.gids.iter().find(fits))
    }
}

impl Hca {
    /// The lines that `ibdev2netdev` prints for it: one for each port with a network interface.
    pub fn ibdev2netdev(&self) -> impl Iterator<Item = String> {
        self.ports.iter().filter_map(|port| {
            let netdev = port.netdev.as_ref()?;
            let up = netdev.operstate == "up"
                || (netdev.operstate == "unknown" && netdev.carrier == Some(true));
            let state = if up { "Up" } else { "Down" };
            Some(format!(
                "{} port {} ==> {} ({state})",
                self.name, port.number, netdev.name
            ))
        })
    }
}
