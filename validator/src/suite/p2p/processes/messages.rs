//! Requests of the worker to the other process, and the answers.

use crate::suite::shared::transfer::Engine;
use gpu::GpuError;
use gpu::pattern::Counts;
use machine::GpuId;
use serde::{Deserialize, Serialize};

/// A request to the other process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Start CUDA and return the GPUs.
    Start,
    /// Open a buffer of the worker for GPU `gpu`: by its CUDA IPC handle, or by the descriptor that
    /// accompanies the request.
    Open {
        gpu: GpuId,
        ipc: Option<Vec<u8>>,
        bytes: u64,
    },
    /// Write fresh data to it.
    Write(Job),
    /// Read its content, and check it.
    Read(Job),
    /// Close the buffer.
    Close,
}

/// One transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) engine: Engine,
    /// Offset in the buffer.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) seed: u64,
    pub(super) sentinel: u64,
    /// Number of the first word in both patterns.
    pub(super) first: u64,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// CUDA has started; the GPUs' own ids, in CUDA's order.
    Started(Vec<String>),
    /// Done.
    Done,
    /// The check of the data read, and words of it from the first wrong one on.
    Read(Counts, Vec<u32>),
    /// Failed.
    Failed(Trouble),
}

/// A GPU's fault in the other process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::suite::p2p) struct Trouble {
    pub(in crate::suite::p2p) text: String,
    /// The driver's error code, where it gave one.
    pub(in crate::suite::p2p) code: Option<i32>,
    /// Whether an operation did not end.
    pub(in crate::suite::p2p) hang: bool,
    /// Whether the context is lost.
    pub(in crate::suite::p2p) sticky: bool,
}

impl From<&GpuError> for Trouble {
    fn from(error: &GpuError) -> Self {
        let hang = matches!(error, GpuError::Hang { .. });
        Self {
            text: error.to_string(),
            code: error.code(),
            hang,
            sticky: error.is_sticky(),
        }
    }
}
