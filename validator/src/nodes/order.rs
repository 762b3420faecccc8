//! The messages between the node that leads and all nodes, itself included. Each order has a number, and its answer has
//! the same, so that a late answer is not taken for one to a later order.

use super::rdma::{Answer, Ask};
use crate::gpu::UniqueId;
use crate::machine::Rank;
use crate::machine::host::rdma::Counted;
use crate::nccl::ranks::{Done, NetworkKind, Opening, RowAsk, TroubleKind};
use crate::outcome::finding::Finding;
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

/// What a node is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Order {
    /// The meeting is complete.
    Welcome(Welcome),
    /// The node takes no part, and why.
    TurnedAway(Box<Finding>),
    /// Start CUDA.
    Open(Open),
    /// Join the communicator.
    Join(UniqueId),
    /// Its part of a row: the seeds, and the bytes of the buffers that all nodes have.
    Row(RowAsk, [u64; 2], u64),
    /// NCCL's lines about connections.
    Log,
    /// A request of the RDMA tests.
    Rdma(Box<Ask>),
    /// What its RDMA ports have counted.
    Count,
    /// Stop NCCL's processes.
    Close,
    /// It is over.
    End(Box<Ending>),
}

impl Order {
    /// Whether what is under way is not wanted any more.
    pub(super) const fn stops(&self) -> bool {
        matches!(self, Self::Close | Self::End(_) | Self::TurnedAway(_))
    }
}

/// Who is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Welcome {
    /// The number of the node.
    pub node: usize,
    /// The names of all nodes.
    pub names: Vec<String>,
    /// The address by which the others have reached this node, for the one that leads.
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
    /// Least bytes of each buffer.
    pub most_bytes: u64,
    /// Wanted bytes of each buffer, where memory allows.
    pub room: u64,
    /// The time limit for starting CUDA, and that for joining the communicator, seconds.
    pub start_s: u64,
}

/// The result of everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ending {
    /// The exit status.
    pub status: u8,
    /// All findings.
    pub findings: Vec<Finding>,
    /// What the workload is to use between the nodes, if the result is good.
    pub network: Option<Choice>,
}

/// What NCCL of the workload is to use between the nodes: what has passed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Choice {
    /// The rails by number; empty: no RDMA.
    pub rails: Vec<usize>,
    /// Whether NCCL is to merge rails, and the gain as a factor; `None`: neither gains.
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
    /// What its RDMA ports have counted, in the order of the rails; or which counter cannot be read.
    Counted(Result<Vec<Counted>, String>),
    /// It failed; its processes are stopped.
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
