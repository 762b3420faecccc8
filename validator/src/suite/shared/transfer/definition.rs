//! One transfer between two GPUs: what moves how much data, in which direction, in what kind of memory. Pure.

use crate::schedule::Pair;
use machine::GpuId;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::suite) enum Engine {
    /// A copy engine of the acting GPU.
    Copy,
    /// A kernel on it.
    Sm,
    /// The driver, through host memory, with peer access off: the control.
    Staged,
}

/// The direction, as seen from the acting GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum Direction {
    /// It writes its own data to the peer.
    Write,
    /// It reads the peer's data.
    Read,
}

/// How the memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum Memory {
    /// By `cuMemAlloc`; peers reach it once access is enabled.
    Plain,
    /// In the same way, but so little that the driver takes it from a larger block, with other pages.
    Small,
    /// By the driver's virtual memory functions, which name the peers themselves.
    Mapped,
}

/// The engine, the direction and the kind of memory of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct TransferKind {
    pub(in crate::suite) engine: Engine,
    pub(in crate::suite) direction: Direction,
    pub(in crate::suite) memory: Memory,
}

/// One transfer between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct Transfer {
    /// `from` acts, on the memory of `to`.
    pub(in crate::suite) pair: Pair,
    pub(in crate::suite) kind: TransferKind,
    pub(in crate::suite) bytes: u64,
    /// Offsets of source and target from a 4 KiB boundary, bytes.
    pub(in crate::suite) shift: (u64, u64),
}

impl fmt::Display for TransferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.engine {
            Engine::Copy => "copy engine",
            Engine::Sm => "SM",
            Engine::Staged => return f.write_str("copy through host memory, peer access off,"),
        };
        write!(f, "{engine} {}", self.direction.name())
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.kind, size(self.bytes))?;
        if self.kind.direction == Direction::Read {
            f.write_str(" from the peer")?;
        }
        match self.kind.memory {
            Memory::Plain => {}
            Memory::Small => f.write_str(", memory of a small allocation,")?,
            Memory::Mapped => f.write_str(", mapped memory,")?,
        }
        match self.shift {
            (0, 0) => Ok(()),
            (source, target) => write!(f, " from +{source} to +{target} bytes"),
        }
    }
}

impl Memory {
    pub(in crate::suite) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "ordinary",
            Self::Small => "ordinary, small allocation",
            Self::Mapped => "mapped",
        }
    }
}

impl Direction {
    pub(in crate::suite) const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

impl Transfer {
    /// The GPU that has the data and the one where it must arrive.
    pub(in crate::suite) const fn ends(&self) -> (GpuId, GpuId) {
        match self.kind.direction {
            Direction::Write => (self.pair.from, self.pair.to),
            Direction::Read => (self.pair.to, self.pair.from),
        }
    }

    /// The time limit: seconds for a GPU that is late, and the time of the bytes at a hundredth of the slowest
    /// link's rate.
    pub(in crate::suite) const fn patience(&self) -> Duration {
        Duration::from_secs(4 + self.bytes / (32 << 20))
    }
}

/// `4 B`, `64 MiB`, `2 MiB - 4 B`
pub(in crate::suite) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let named = UNITS.iter().find_map(|(unit, name)| {
        let whole = bytes.next_multiple_of(*unit);
        match whole - bytes {
            0 if bytes > 0 => Some(format!("{} {name}", bytes / unit)),
            less if less <= 4 && bytes > *unit => {
                Some(format!("{} {name} - {less} B", whole / unit))
            }
            _ => None,
        }
    });
    named.unwrap_or_else(|| format!("{bytes} B"))
}
