//! Requests of the worker to an arm's processes, and the answers.

use super::{Device, RowAsk, TroubleKind};
use crate::nccl::Timed;
use gpu::{GpuError, UniqueId};
use machine::{GpuId, Rank};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A request to a process.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Start CUDA and allocate memory.
    Open(Open),
    /// Join the communicator; without an id this process is its only one.
    Join { id: Option<UniqueId>, ranks: usize },
    /// Make a communicator of the first ranks for the rows that follow; of one process.
    Split { members: usize },
    /// Return from it to the communicator of all ranks, and destroy it.
    Unsplit,
    /// The same, but the other communicator may stay until the process ends.
    SetAside,
    /// Abort the communicator and make another; of one process.
    Renew,
    /// Run one row; out of place and in place each have a seed. All ranks use `room` bytes of their buffers.
    Row {
        ask: RowAsk,
        seeds: [u64; 2],
        room: u64,
    },
}

/// The GPUs of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open {
    /// CUDA's numbers.
    pub(super) gpus: Vec<GpuId>,
    /// The first one's rank; the others follow.
    pub(super) first: Rank,
    /// Minimum bytes of each of a GPU's two buffers.
    pub(super) most_bytes: u64,
    /// Wanted bytes, where memory allows.
    pub(super) room: u64,
    /// Whether it makes the communicator's id.
    pub(super) id: bool,
    /// The file of the NCCL library; `None`: the one that the loader finds.
    pub(super) library: Option<PathBuf>,
}

/// The answer.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Answer {
    /// CUDA has started.
    Opened(Opened),
    /// The communicator exists.
    Joined,
    /// The row is done.
    Row(Box<Done>),
    /// The request failed, and this process does nothing more.
    Failed(Fault),
}

/// The opened GPUs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) nccl: u32,
    /// The file of the NCCL library that was loaded, if the kernel tells it.
    pub(super) library: Option<String>,
    pub(super) devices: Vec<Device>,
    /// Bytes of each of its GPUs' two buffers.
    pub(super) room: u64,
    pub(super) id: Option<UniqueId>,
}

/// A row, as far as one process measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    pub(super) out_of_place: Timed,
    pub(super) in_place: Timed,
}

/// The reason of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fault {
    /// The rank that failed, if it is a single one.
    pub(super) rank: Option<Rank>,
    pub(super) kind: TroubleKind,
    pub(super) text: String,
}

impl Fault {
    /// An invalid request, or an impossible state.
    pub(super) fn broken(text: impl Into<String>) -> Self {
        Self {
            rank: None,
            kind: TroubleKind::Broken,
            text: text.into(),
        }
    }

    /// A fault of CUDA or NCCL, of one rank or of all.
    pub(super) fn of(rank: Option<Rank>, error: &GpuError) -> Self {
        let kind = match error {
            GpuError::Library { .. } | GpuError::Symbol { .. } => TroubleKind::Missing,
            GpuError::Hang { .. } => TroubleKind::Hang,
            GpuError::Nccl { code, .. } => TroubleKind::Nccl(*code),
            GpuError::Call { .. } => TroubleKind::Cuda,
            GpuError::Bounds { .. } | GpuError::Nonsense(_) | GpuError::Image { .. } => {
                TroubleKind::Broken
            }
        };
        Self {
            rank,
            kind,
            text: error.to_string(),
        }
    }
}

impl From<GpuError> for Fault {
    fn from(error: GpuError) -> Self {
        Self::of(None, &error)
    }
}
