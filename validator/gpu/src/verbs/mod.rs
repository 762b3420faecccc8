//! RDMA between machines through libibverbs: ports, memory that a card may access, and reliable connections. The only
//! folder that names the library. Callers decide what is written and read, and what it means.

mod abi;
mod connection;
mod library;
mod memory;
mod port;

pub use connection::{Burst, Connection};
pub use memory::{Region, Registration};
pub use port::{Address, Port};

use serde::{Deserialize, Serialize};
use std::{fmt, io};

/// What the other side needs to know about a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The port's address.
    pub address: Address,
    /// The number of the queue pair, and of its first packet.
    pub number: u32,
    /// See `number`.
    pub packet: u32,
    /// The memory: its first address, its key and its size.
    pub memory: u64,
    /// See `memory`.
    pub key: u32,
    /// See `memory`.
    pub bytes: u64,
}

/// The kind of access to the other side's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// This side's memory is written there.
    Write,
    /// It is read from there.
    Read,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}

/// The errors of RDMA.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// libibverbs is missing, or lacks a function.
    #[error("{0}")]
    Library(String),
    /// The library knows no device of this name, or no such port.
    #[error("{0}")]
    Missing(String),
    /// A call failed.
    #[error("{what}: {why}")]
    Call {
        /// The function and its purpose.
        what: String,
        /// The kernel's message.
        why: String,
    },
    /// Work was not completed.
    #[error("{what} was not completed: {why}")]
    Work {
        /// The work.
        what: String,
        /// The library's text for its status.
        why: String,
    },
    /// Work was not completed in time.
    #[error("{0} was not completed in time")]
    Late(String),
    /// A range outside of the memory.
    #[error("{0}")]
    Bounds(String),
    /// GPU memory could not be registered.
    #[error("{0}")]
    Unregistered(String),
}

impl VerbsError {
    /// The error of a call that sets errno.
    fn last(what: impl Into<String>) -> Self {
        Self::Call {
            what: what.into(),
            why: io::Error::last_os_error().to_string(),
        }
    }

    /// The error of a call that returns an errno, which some providers negate.
    fn code(what: impl Into<String>, code: i32) -> Self {
        let why = io::Error::from_raw_os_error(code.saturating_abs()).to_string();
        Self::Call {
            what: what.into(),
            why,
        }
    }
}
