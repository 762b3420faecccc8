//! The leading node's requests about a connection, and the answers.

use super::content::{Plan, Wrong};
use gpu::verbs::{Endpoint, Registration, Verb};
use machine::GpuId;
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Ask {
    /// Open the port of this rail, and register the host's memory or that of the GPU next to the port.
    Open {
        /// The rail.
        rail: usize,
        /// Whether the memory is a GPU's.
        gpu: bool,
    },
    /// The same for the child process.
    Make(Make),
    /// Connect to the other side.
    Connect(Endpoint),
    /// Fill both boxes: the one to send from, and the one to receive in.
    Fill {
        /// Seed of the first box.
        source: u64,
        /// Seed of the second box.
        sentinel: u64,
    },
    /// Transfer pieces of all sizes.
    Sizes(Verb),
    /// Compare the second box.
    Check {
        /// The transfers that have written to it.
        plan: Plan,
        /// The seed of the sent data.
        source: u64,
        /// The seed of the previous content.
        sentinel: u64,
    },
    /// Transfers of this size, many at the same time.
    Burst {
        /// Write or read.
        verb: Verb,
        /// Bytes of each.
        bytes: usize,
    },
    /// Transfers of 8 bytes, one after the other.
    Latency(Verb),
    /// End the process.
    Close,
}

/// What the child process opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Make {
    /// The device's name.
    pub device: String,
    /// The port's number.
    pub port: u8,
    /// The index of the port's global identifier, on Ethernet.
    pub gid: Option<u8>,
    /// The GPU whose memory is used; `None`: the host's.
    pub gpu: Option<GpuId>,
}

/// An answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// Opened.
    Made {
        /// What the other side needs to connect.
        endpoint: Endpoint,
        /// How the card reaches the memory.
        how: Registration,
    },
    /// Connected; the path's MTU, bytes.
    Connected(u32),
    /// Done.
    Done,
    /// The comparison.
    Checked {
        /// How many transfers were checked.
        transfers: u64,
        /// The wrong bytes, if any.
        wrong: Option<Wrong>,
    },
    /// The rate of a burst.
    Rate {
        /// Transfers.
        count: u64,
        /// Seconds.
        seconds: f64,
    },
    /// Times of single transfers, us, in ascending order.
    Times(Vec<f64>),
    /// The GPU has no GPUDirect RDMA.
    Unsupported(String),
    /// It failed.
    Failed(String),
}
