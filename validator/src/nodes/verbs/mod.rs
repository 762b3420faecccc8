//! RDMA between machines by libibverbs: ports, memory that a card may reach, and reliable connections. The only folder that
//! names the library. What is written and read, and what it means, is the callers'.

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

/// What the other side must know of a connection.
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

/// What is done with the other side's memory.
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

/// Why something did not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerbsError {
    /// libibverbs is not there, or lacks a function.
    #[error("{0}")]
    Library(String),
    /// The library knows no device of this name, or no such port.
    #[error("{0}")]
    Missing(String),
    /// A call failed.
    #[error("{what}: {why}")]
    Call {
        /// The function, and for what.
        what: String,
        /// The kernel's words.
        why: String,
    },
    /// Work was not completed.
    #[error("{what} was not completed: {why}")]
    Work {
        /// Which.
        what: String,
        /// The library's words for its status.
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
    /// A call that sets errno.
    fn last(what: impl Into<String>) -> Self {
        Self::Call { what: what.into(), why: io::Error::last_os_error().to_string() }
    }

    /// A call that returns an errno, which some providers negate.
    fn code(what: impl Into<String>, code: i32) -> Self {
        let why = io::Error::from_raw_os_error(code.saturating_abs()).to_string();
        Self::Call { what: what.into(), why }
    }
}
