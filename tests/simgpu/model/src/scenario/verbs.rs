//! RDMA cards and their faults.

use serde::Deserialize;

/// The cards.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verbs {
    /// Their names.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Their faults.
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
    /// Only transfers of at least this many bytes.
    #[serde(default)]
    pub from_bytes: u64,
    /// `counts`: the counter that increases, relative to the port's folder.
    #[serde(default)]
    pub counter: String,
    /// Only every n-th of these transfers.
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
    /// One bit of the data is flipped.
    Wrong,
    /// The last byte does not arrive.
    Short,
    /// Nothing arrives, but the transfer completes successfully.
    Dropped,
    /// One byte after the data is written too.
    Stray,
    /// The transfer never completes.
    Late,
    /// The transfer completes with an error.
    Error,
    /// The call does not return.
    Hang,
    /// A transfer takes so long that its rate is a tenth.
    Slow,
    /// Connecting fails.
    NoWay,
    /// Memory cannot be registered.
    Unregistered,
    /// The process exits.
    Crash,
    /// The port's byte counters do not increase: the data takes another route.
    Uncounted,
    /// An error counter increases.
    Counts,
}
