//! What the worker asks of an arm's processes, and what they answer.

use super::{Device, RowAsk, TroubleKind};
use crate::gpu::{GpuError, UniqueId};
use crate::nccl::Timed;
use serde::{Deserialize, Serialize};

/// What a process shall do.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Start CUDA and take memory.
    Open(Open),
    /// Become a part of the communicator; without an id it is this process's alone.
    Join { id: Option<UniqueId>, ranks: usize },
    /// Do one row; out of place and in place have a seed each. All ranks use so much of their buffers, bytes.
    Row { ask: RowAsk, seeds: [u64; 2], room: u64 },
}

/// Which GPUs a process has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open {
    /// CUDA's numbers.
    pub(super) gpus: Vec<usize>,
    /// The first one's rank; the others follow.
    pub(super) first: usize,
    /// Bytes of each of a GPU's two buffers at least.
    pub(super) most_bytes: u64,
    /// And where memory allows.
    pub(super) room: u64,
    /// Whether it makes the communicator's id.
    pub(super) id: bool,
}

/// What came of it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Answer {
    /// CUDA has started.
    Opened(Opened),
    /// The communicator is there.
    Joined,
    /// The row is done.
    Row(Done),
    /// It could not be done, and this process does nothing more.
    Failed(Fault),
}

/// What was found.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) nccl: u32,
    pub(super) devices: Vec<Device>,
    /// Bytes of each of its GPUs' two buffers.
    pub(super) room: u64,
    pub(super) id: Option<UniqueId>,
}

/// A row, as far as one process has seen it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) out_of_place: Timed,
    pub(super) in_place: Timed,
}

/// Why it could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fault {
    /// The one rank that it is about.
    pub(super) rank: Option<usize>,
    pub(super) kind: TroubleKind,
    pub(super) text: String,
}

impl Fault {
    /// What the worker should not have asked, or what makes no sense.
    pub(super) fn broken(text: impl Into<String>) -> Self {
        Self { rank: None, kind: TroubleKind::Broken, text: text.into() }
    }

    /// A fault of CUDA or NCCL, of one rank or of all.
    pub(super) fn of(rank: Option<usize>, error: &GpuError) -> Self {
        let kind = match error {
            GpuError::Library { .. } | GpuError::Symbol { .. } => TroubleKind::Missing,
            GpuError::Hang { .. } => TroubleKind::Hang,
            GpuError::Nccl { code, .. } => TroubleKind::Nccl(*code),
            GpuError::Call { .. } => TroubleKind::Cuda,
            GpuError::Bounds { .. } | GpuError::Nonsense(_) | GpuError::Image { .. } => TroubleKind::Broken,
        };
        Self { rank, kind, text: error.to_string() }
    }
}

impl From<GpuError> for Fault {
    fn from(error: GpuError) -> Self {
        Self::of(None, &error)
    }
}
