//! The graph dump: for each communication pattern the channels that NCCL built, the kind of path that it
//! accepted, and the bandwidth that it expects.

use super::{BadDump, Dump, Topology};
use crate::nccl::Distance;
use machine::Rank;
use roxmltree::Node;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The layout of a graph's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Trees whose NIC traffic is balanced over two GPUs.
    BalancedTree,
    /// Trees whose traffic up and down uses two GPUs.
    SplitTree,
    /// Trees.
    Tree,
    /// Rings.
    Ring,
    /// Reductions in the `NVLink` switches.
    Nvls,
    /// Reductions in the network's switches.
    Collnet,
    /// A number that this program does not know.
    Other(u32),
}

/// The channels that NCCL built for one communication pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// NCCL's number: 0 ring, 1 tree, 2 collnet, 3 NVLS.
    pub id: u32,
    /// The layout.
    pub pattern: Pattern,
    /// The bandwidth that NCCL expects for each channel inside the host, GB/s.
    pub gb_s: f64,
    /// The farthest kind of path inside the host.
    pub distance: Distance,
    /// The GPUs of each channel, in order.
    pub channels: Vec<Vec<Hop>>,
}

/// A GPU on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// NVML's number.
    pub dev: u64,
    /// Its rank, if this version of NCCL writes it.
    pub rank: Option<Rank>,
}

impl Pattern {
    const fn of(number: u32) -> Self {
        match number {
            1 => Self::BalancedTree,
            2 => Self::SplitTree,
            3 => Self::Tree,
            4 => Self::Ring,
            5 => Self::Nvls,
            6 => Self::Collnet,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BalancedTree => f.write_str("balanced tree"),
            Self::SplitTree => f.write_str("split tree"),
            Self::Tree => f.write_str("tree"),
            Self::Ring => f.write_str("ring"),
            Self::Nvls => f.write_str("NVLS"),
            Self::Collnet => f.write_str("collnet"),
            Self::Other(number) => write!(f, "pattern {number}"),
        }
    }
}

impl Graph {
    /// The ranks of each channel in order; `None` where a GPU is not in `topology`.
    #[must_use]
    pub fn orders(&self, topology: &Topology) -> Option<Vec<Vec<Rank>>> {
        let known = |dev| topology.gpus.iter().find(|g| g.dev == dev)?.rank;
        let order = |hops: &Vec<Hop>| {
            hops.iter()
                .map(|hop| hop.rank.or_else(|| known(hop.dev)))
                .collect()
        };
        self.channels.iter().map(order).collect()
    }
}

/// NVML's number of a GPU. Older versions write it in decimal, newer ones in hexadecimal, with the number of
/// the host in the uppermost byte (`NCCL_TOPO_ID`; seen in NCCL 2.28.9: `dev="0x1"`).
struct DeviceNumber(u64);

/// The bits that hold the GPU's number.
const DEVICE_BITS: u64 = (1 << 56) - 1;

impl FromStr for DeviceNumber {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map(|id| Self(id & DEVICE_BITS)),
            None => text.parse().map(Self),
        }
    }
}

/// Reads the dump of `NCCL_GRAPH_DUMP_FILE`.
///
/// # Errors
/// See [`BadDump`]; a dump without a graph is one too.
pub fn graphs(text: &str) -> Result<Vec<Graph>, BadDump> {
    let dump = Dump::parse("graph", "graphs", text)?;
    let top = dump.document.root_element();
    let found = top.children().filter(|n| n.has_tag_name("graph"));
    let graphs = found
        .map(|n| graph(&dump, n))
        .collect::<Result<Vec<_>, _>>()?;
    if graphs.is_empty() {
        return Err(dump.error(top, "there is no <graph>".to_owned()));
    }
    Ok(graphs)
}

fn graph(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Graph, BadDump> {
    let channels = node.children().filter(|n| n.has_tag_name("channel"));
    let channels = channels
        .map(|n| channel(dump, n))
        .collect::<Result<Vec<_>, _>>()?;
    let expected: usize = dump.required(node, "nchannels")?;
    if expected != channels.len() {
        let what = format!("nchannels=\"{expected}\", but there are {}", channels.len());
        return Err(dump.error(node, what));
    }
    let gb_s: f64 = dump.required(node, "speedintra")?;
    if !gb_s.is_finite() || gb_s < 0.0 {
        return Err(dump.error(node, format!("speedintra=\"{gb_s}\" is not a speed")));
    }
    Ok(Graph {
        id: dump.required(node, "id")?,
        pattern: Pattern::of(dump.required(node, "pattern")?),
        gb_s,
        distance: dump.required(node, "typeintra")?,
        channels,
    })
}

fn channel(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Vec<Hop>, BadDump> {
    let hop = |n| {
        let DeviceNumber(dev) = dump.required(n, "dev")?;
        Ok(Hop {
            dev,
            rank: dump.optional(n, "rank")?.map(Rank::new),
        })
    };
    node.children()
        .filter(|n| n.has_tag_name("gpu"))
        .map(hop)
        .collect()
}
