//! The transports of NCCL's `via` lines.

use std::fmt;

/// The transport of data from one rank to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// The peer's memory under its own address: both ranks are in one process.
    Direct,
    /// The peer's memory, mapped through CUDA's virtual memory management.
    Cumem,
    /// The peer's memory, mapped through CUDA IPC.
    Ipc,
    /// The peer's memory, through another GPU.
    Indirect,
    /// The peer's memory on another host of the same `NVLink` fabric.
    Mnnvl,
    /// The host's memory.
    Shm,
    /// A network, including the host's own loopback.
    Net,
    /// An unknown transport, as logged.
    Other(String),
}

/// The transports and their names in NCCL's log.
const NAMES: [(Via, &str); 7] = [
    (Via::Direct, "P2P/direct pointer"),
    (Via::Cumem, "P2P/CUMEM"),
    (Via::Ipc, "P2P/IPC"),
    (Via::Indirect, "P2P/indirect"),
    (Via::Mnnvl, "P2P/MNNVL"),
    (Via::Shm, "SHM"),
    (Via::Net, "NET"),
];

impl Via {
    /// The transport and the text after its name. A name that only begins like a known one does not match.
    pub(super) fn read(text: &str) -> (Self, String) {
        let known = NAMES.iter().find_map(|(via, name)| Some((via, text.strip_prefix(name)?)));
        match known {
            Some((via, rest)) if rest.is_empty() || rest.starts_with('/') => (via.clone(), rest.to_owned()),
            _ => (Self::Other(text.to_owned()), String::new()),
        }
    }

    /// Whether GPUs reach each other's memory; `None` where that is unknown.
    #[must_use]
    pub const fn is_p2p(&self) -> Option<bool> {
        match self {
            Self::Direct | Self::Cumem | Self::Ipc | Self::Indirect | Self::Mnnvl => Some(true),
            Self::Shm | Self::Net => Some(false),
            Self::Other(_) => None,
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = NAMES.iter().find(|(via, _)| via == self).map(|(_, name)| *name);
        match (self, known) {
            (Self::Other(text), _) => f.write_str(text),
            (_, name) => f.write_str(name.unwrap_or("?")),
        }
    }
}
