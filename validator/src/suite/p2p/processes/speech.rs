//! What the worker asks of the other process, and what that one answers.

use crate::gpu::GpuError;
use crate::gpu::pattern::Counts;
use crate::suite::shared::transfer::Engine;
use serde::{Deserialize, Serialize};

/// What the other process shall do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Start CUDA and say which GPUs there are.
    Start,
    /// Open a buffer of the worker's for GPU `gpu`: by its name in CUDA IPC, or by the descriptor that
    /// comes along.
    Open { gpu: usize, ipc: Option<Vec<u8>>, bytes: u64 },
    /// Write fresh data there.
    Write(Job),
    /// Read what is there, and look at it.
    Read(Job),
    /// Close the buffer.
    Close,
}

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) engine: Engine,
    /// Where in the buffer.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) seed: u64,
    pub(super) sentinel: u64,
    /// Number of the first word in both patterns.
    pub(super) first: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// CUDA has started; the GPUs' own ids, in CUDA's order.
    Started(Vec<String>),
    /// It is done.
    Done,
    /// What was read, and words of it from the first wrong one on.
    Read(Counts, Vec<u32>),
    /// It could not be done.
    Failed(Trouble),
}

/// A GPU's fault in the other process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trouble {
    pub(super) text: String,
    /// The driver's number, where it gave one.
    pub(super) code: Option<i32>,
    /// An operation did not end.
    pub(super) hang: bool,
    /// The context is gone.
    pub(super) sticky: bool,
}

impl From<&GpuError> for Trouble {
    fn from(error: &GpuError) -> Self {
        let hang = matches!(error, GpuError::Hang { .. });
        Self { text: error.to_string(), code: error.code(), hang, sticky: error.is_sticky() }
    }
}
