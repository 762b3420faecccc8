//! RDMA cards, and what is wrong with them.

use serde::Deserialize;

/// The cards.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verbs {
    /// Their names.
    #[serde(default)]
    pub devices: Vec<String>,
    /// What is wrong.
    #[serde(default)]
    pub fault: Vec<VerbsFault>,
}

/// A fault of a card.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerbsFault {
    /// What happens.
    pub kind: VerbsKind,
    /// Only on the node whose NCCL_HOSTID is this.
    pub node: Option<String>,
    /// Only on this card.
    pub device: Option<String>,
    /// Only with reads, or only with writes.
    pub read: Option<bool>,
    /// Only with GPU memory, or only with the host's.
    pub gpu: Option<bool>,
    /// Only transfers of at least so many bytes.
    #[serde(default)]
    pub from_bytes: u64,
    /// `counts`: the counter that rises, below the port's folder.
    #[serde(default)]
    pub counter: String,
    /// Only each so-manieth of these transfers.
    #[serde(default = "one")]
    pub every: u64,
}

const fn one() -> u64 {
    1
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerbsKind {
    /// One bit of the data is another.
    Wrong,
    /// The last byte does not arrive.
    Short,
    /// Nothing arrives, and the transfer is completed all the same.
    Dropped,
    /// One byte beyond the data is written too.
    Stray,
    /// The transfer is never completed.
    Late,
    /// The transfer is completed with an error.
    Error,
    /// The call does not return.
    Hang,
    /// A transfer takes so much time that its rate is a tenth.
    Slow,
    /// Connecting fails.
    NoWay,
    /// Memory cannot be registered.
    Unregistered,
    /// The process ends.
    Crash,
    /// The port's counters of bytes stand still: the data takes another way.
    Uncounted,
    /// A counter of errors rises.
    Counts,
}
