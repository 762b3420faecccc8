//! The messages between the leading node and all nodes, itself included. Each order has a number, and its answer has the
//! same number, so that a late answer is not mistaken for one to a later order.

use super::rdma::{Answer, Ask};
use crate::nccl::ranks::{Done, NetworkKind, Opening, RowAsk, TroubleKind};
use gpu::UniqueId;
use machine::Rank;
use machine::host::rdma::RdmaCounters;
use outcome::finding::Finding;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A message with its number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Numbered<T> {
    /// The number, from 0 on.
    pub number: u64,
    /// The content.
    pub what: T,
}

/// An order to a node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// The meeting is complete.
    Welcome(Welcome),
    /// The node is turned away, with the reason.
    TurnedAway(Box<Finding>),
    /// Start CUDA.
    Open(Open),
    /// Join the communicator.
    Join(UniqueId),
    /// Run its part of a row: the seeds, and the bytes of the buffers that all nodes have.
    Row(RowAsk, [u64; 2], u64),
    /// Return NCCL's lines about connections.
    Log,
    /// A request of the RDMA tests.
    Rdma(Box<Ask>),
    /// Read the counters of its RDMA ports.
    Count,
    /// Stop NCCL's processes.
    Close,
    /// The tests have ended.
    End(Box<Ending>),
}

impl Order {
    /// Whether the current work is no longer wanted.
    pub(super) const fn stops(&self) -> bool {
        matches!(self, Self::Close | Self::End(_) | Self::TurnedAway(_))
    }
}

/// The nodes of the meeting.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// The number of the node that receives this.
    pub node: usize,
    /// The names of all nodes.
    pub names: Vec<String>,
    /// The address at which the others have reached this node; only for the leading node.
    pub address: Option<IpAddr>,
}

/// The ranks of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Its first rank.
    pub first: Rank,
    /// The number of ranks on all nodes.
    pub ranks: usize,
    /// The network.
    pub kind: NetworkKind,
    /// The number of the rail; `None`: all of them.
    pub rail: Option<usize>,
    /// Whether NCCL merges rails; `None`: its own choice.
    pub merge: Option<bool>,
    /// Minimum bytes of each buffer.
    pub most_bytes: u64,
    /// Wanted bytes of each buffer, where memory allows.
    pub room: u64,
    /// The time limit for starting CUDA, and again for joining the communicator, seconds.
    pub start_s: u64,
}

/// The result of everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ending {
    /// The exit status.
    pub status: u8,
    /// All findings.
    pub findings: Vec<Finding>,
    /// What the workload should use between the nodes, if the result is good.
    pub network: Option<Choice>,
}

/// What the workload's NCCL should use between the nodes: what has passed the tests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// The rails by number; empty: no RDMA.
    pub rails: Vec<usize>,
    /// Whether NCCL should merge rails, and the gain as a factor; `None`: neither gains.
    pub merge: Option<(bool, f64)>,
}

/// A node's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// CUDA has started.
    Opened(Opening),
    /// Its part of the row.
    Row(Box<Done>),
    /// NCCL's lines.
    Log(String),
    /// The answer to a request of the RDMA tests.
    Rdma(Box<Answer>),
    /// The counters of its RDMA ports, in the order of the rails; or which counter cannot be read.
    Counted(Result<Vec<RdmaCounters>, String>),
    /// The order failed; NCCL's processes are stopped.
    Failed(Failure),
}

/// Why a node has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: TroubleKind,
    /// One line.
    pub text: String,
    /// NCCL's last lines.
    pub lines: Vec<String>,
}
