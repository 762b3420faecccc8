//! The processes of an arm. Each arm starts new ones, because NCCL reads its environment only once. `session` is
//! the worker's side, `serve` the processes' side; `messages` defines their messages. The tests decide what rows
//! mean.

mod check;
mod diagnosis;
mod element;
mod environment;
mod layout;
mod local_ranks;
mod merge;
mod messages;
mod output;
mod processes;
mod rank_gpu;
mod ras;
mod row;
mod serve;
mod session;
mod trouble;
mod watch;

pub use messages::Done;
pub use ras::diagnosis;
pub use serve::{COMMAND, serve};
pub use session::{Opening, Ranks, WholeCommunicator};
pub use trouble::{Trouble, TroubleKind};

use crate::nccl::Sweep;
use gpu::{Collective, DataType, RedOp, Shape};
use machine::pcie::model::Bdf;
use machine::{GpuId, Rank};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What NCCL may use between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Peer-to-peer between all GPUs of the machine, over any path.
    P2p,
    /// No peer-to-peer.
    Off,
    /// Only peer-to-peer: success proves its use.
    Strict,
    /// Nothing: success proves that NCCL ignores its settings.
    Withheld,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P2p => "P2P",
            Self::Off => "P2P off",
            Self::Strict => "P2P only",
            Self::Withheld => "nothing",
        })
    }
}

/// The setup of an arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// What NCCL may use, which decides the environment.
    pub arm: Arm,
    /// One process for each GPU, as in frameworks; else one for all.
    pub processes: bool,
    /// CUDA's numbers of the GPUs, ordered by address; the n-th is rank n.
    pub gpus: Vec<GpuId>,
    /// Whether NCCL may use NVLink SHARP.
    pub nvls: bool,
    /// The exact number of channels; `None` leaves it to NCCL.
    pub channels: Option<u32>,
    /// The buffer size for the largest row, bytes; each GPU holds two of them.
    pub most_bytes: u64,
    /// The wanted size of each of the two buffers, where memory allows, so that many calls have separate parts.
    pub room: u64,
    /// Folders that are searched for the libraries before the loader's own; empty: those of this process.
    pub library_path: Vec<String>,
    /// The file of the NCCL library; `None`: the one that the loader finds.
    pub library: Option<PathBuf>,
    /// The communicator that these ranks are a part of, if other nodes have ranks too; `None`: these are all ranks.
    pub part: Option<CommunicatorPart>,
}

impl Setup {
    /// The number of ranks of the communicator, on all nodes.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.part
            .as_ref()
            .map_or(self.gpus.len(), |part| part.ranks)
    }
}

/// Ranks of a communicator that has more ranks on other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommunicatorPart {
    /// The first rank here; the others follow.
    pub first: Rank,
    /// The number of ranks on all nodes.
    pub ranks: usize,
    /// The network between the nodes.
    pub network: Network,
}

/// The network that NCCL uses between nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Which of NCCL's networks.
    pub kind: NetworkKind,
    /// The interface for sockets, as NCCL_SOCKET_IFNAME.
    pub interface: String,
    /// The RDMA ports, as NCCL_IB_HCA; empty: NCCL's choice.
    pub hcas: String,
    /// Whether NCCL makes one device of several ports, NCCL_IB_MERGE_NICS; `None`: NCCL's choice.
    pub merge: Option<bool>,
    /// NCCL's name for this node, where one machine represents several nodes: NCCL_HOSTID.
    pub host_id: Option<String>,
}

/// NCCL's networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkKind {
    /// The network that NCCL chooses.
    Any,
    /// TCP sockets.
    Socket,
    /// RDMA to and from the host's memory.
    Rdma,
    /// RDMA to and from the GPUs' memory: GPUDirect RDMA.
    Gdr,
}

/// What is known of an arm once its communicator exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// NCCL's version, 22907 for 2.29.7.
    pub nccl: u32,
    /// The file of the library, if the kernel tells it.
    pub library: Option<String>,
    /// One for each rank, in order.
    pub devices: Vec<Device>,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// A rank's GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The rank.
    pub rank: Rank,
    /// Its process id.
    pub pid: u32,
    /// CUDA's number for the GPU, ordered by address.
    pub ordinal: GpuId,
    /// Its address.
    pub bdf: Bdf,
    /// Its model.
    pub name: String,
}

/// A request for one row: one size of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowAsk {
    /// Which collective.
    pub collective: Collective,
    /// The requested size, bytes; the row has the actual one.
    pub bytes: u64,
    /// Element type.
    pub data: DataType,
    /// The reduction, for collectives that reduce.
    pub op: RedOp,
    /// The root, for collectives that have one.
    pub root: Rank,
    /// Timed calls for each placement; at least one is made.
    pub iterations: u32,
    /// Calls before them; at least one is made, because it synchronizes the ranks.
    pub warmups: u32,
    /// Whether values are checked.
    pub check: bool,
    /// Whether counts are used unrounded.
    pub odd: bool,
    /// How the calls are made.
    #[serde(default)]
    pub form: Form,
}

/// How the calls of a row are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One after the other.
    #[default]
    Plain,
    /// The checked calls as one group.
    Grouped,
    /// With buffers that are registered with the communicator.
    Registered,
    /// Captured in a CUDA graph of each rank's stream, which is launched once.
    Captured,
}

impl RowAsk {
    /// One size of a sweep.
    #[must_use]
    pub const fn of(sweep: &Sweep, bytes: u64, root: Rank) -> Self {
        let Sweep {
            collective,
            iterations,
            warmups,
            check,
            odd,
            data,
            op,
            ..
        } = *sweep;
        Self {
            collective,
            bytes,
            data,
            op,
            root,
            iterations,
            warmups,
            check,
            odd,
            form: Form::Plain,
        }
    }

    /// The buffers of each of this many ranks.
    const fn shape(&self, ranks: usize) -> Shape {
        let Self {
            collective,
            bytes,
            data,
            ..
        } = *self;
        let (ranks, element) = (ranks as u64, data.bytes());
        if self.odd {
            collective.odd_shape(bytes, ranks, element)
        } else {
            collective.shape(bytes, ranks, element)
        }
    }
}

impl fmt::Display for RowAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            collective,
            bytes,
            data,
            op,
            ..
        } = self;
        write!(f, "{collective} of {bytes} bytes of {data}")?;
        if collective.reduces() {
            write!(f, ", {op}")
        } else {
            Ok(())
        }
    }
}
