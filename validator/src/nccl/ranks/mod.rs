//! The processes of an arm: fresh ones, whose NCCL environment is fixed when they start, because NCCL reads
//! it once. `session` is the worker's side, `serve` is theirs; `speech` is what they say to each other.
//! What rows mean is left to the tests.

mod check;
mod crew;
mod diagnosis;
mod element;
mod environment;
mod layout;
mod merge;
mod output;
mod ras;
mod row;
mod seat;
mod serve;
mod session;
mod speech;
mod team;
mod trouble;
mod watch;

pub use serve::{COMMAND, serve};
pub use session::Ranks;
pub use trouble::{Trouble, TroubleKind};

use crate::gpu::{Collective, DataType, RedOp, Shape};
use crate::machine::pcie::model::Bdf;
use crate::nccl::Sweep;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What NCCL may use between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Peer-to-peer between all GPUs of the machine, whatever lies between them.
    P2p,
    /// No peer-to-peer.
    Off,
    /// Peer-to-peer and nothing else: what works then has used it.
    Strict,
    /// Nothing at all: what works then heeds no setting.
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

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its environment.
    pub arm: Arm,
    /// One process for each GPU, as frameworks do; else one for all.
    pub processes: bool,
    /// CUDA's numbers of the GPUs, ordered by address; the n-th is rank n.
    pub gpus: Vec<usize>,
    /// Whether NCCL may use NVLink SHARP.
    pub nvls: bool,
    /// So many channels exactly; `None` leaves it to NCCL.
    pub channels: Option<u32>,
    /// The largest row's buffer, bytes; each GPU holds two of them.
    pub most_bytes: u64,
    /// So large the two buffers should be, where memory allows, so that many calls find a place of their own.
    pub room: u64,
    /// Folders before the loader's own for the libraries; empty: those of this process.
    pub library_path: Vec<String>,
}

/// What has been started.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// NCCL's version, 22907 for 2.29.7.
    pub nccl: u32,
    /// One for each rank, in order.
    pub devices: Vec<Device>,
    /// How long it took, seconds.
    pub seconds: f64,
}

/// A rank's GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The rank.
    pub rank: usize,
    /// Its process.
    pub pid: u32,
    /// CUDA's number for the GPU, ordered by address.
    pub ordinal: usize,
    /// Its address.
    pub bdf: Bdf,
    /// Its model.
    pub name: String,
}

/// One row: one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowAsk {
    /// Which collective.
    pub collective: Collective,
    /// The wished size, bytes; the row says what came of it.
    pub bytes: u64,
    /// Element type.
    pub data: DataType,
    /// The reduction, for collectives that reduce.
    pub op: RedOp,
    /// The root, for collectives that have one.
    pub root: usize,
    /// Timed calls for each placement; at least one is made.
    pub iterations: u32,
    /// Calls before them; at least one is made, for it brings the ranks into step.
    pub warmups: u32,
    /// Whether values are checked.
    pub check: bool,
    /// Whether counts are left as they come out.
    pub odd: bool,
}

impl RowAsk {
    /// One size of a sweep.
    #[must_use]
    pub const fn of(sweep: &Sweep, bytes: u64, root: usize) -> Self {
        let Sweep { collective, iterations, warmups, check, odd, data, op, .. } = *sweep;
        Self { collective, bytes, data, op, root, iterations, warmups, check, odd }
    }

    /// The buffers of each of so many ranks.
    const fn shape(&self, ranks: usize) -> Shape {
        let Self { collective, bytes, data, .. } = *self;
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
        let Self { collective, bytes, data, op, .. } = self;
        write!(f, "{collective} of {bytes} bytes of {data}")?;
        if collective.reduces() { write!(f, ", {op}") } else { Ok(()) }
    }
}
