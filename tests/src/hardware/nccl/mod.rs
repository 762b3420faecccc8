//! NCCL's collectives: the tables that nccl-tests printed, the JSON that `firstlight nccl -J` writes, and how the two
//! compare. Starting the program is in `ours`; the rest is pure.

pub mod compare;
pub mod ours;
pub mod table;

use std::path::PathBuf;

/// The names of the collectives, in our order.
pub const NAMES: [&str; 9] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "sendrecv",
    "gather",
    "scatter",
];

/// What to run: a collective, with peer-to-peer or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NcclRun {
    /// One of [`NAMES`].
    pub collective: &'static str,
    /// `NCCL_P2P_DISABLE=1`
    pub without_p2p: bool,
}

/// The figures of one run, which covers several sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Number of GPUs that took part.
    pub gpus: usize,
    /// Element type, by nccl-tests' name.
    pub data: String,
    /// In increasing order of size.
    pub rows: Vec<SizeRow>,
}

/// The figures of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeRow {
    /// Size of the larger buffer; 0 if the size is too small to give every GPU an element.
    pub bytes: u64,
    /// Out of place, then in place.
    pub placements: [PlacementFigures; 2],
}

/// One placement's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacementFigures {
    /// Time of one call, microseconds.
    pub us: f64,
    /// GB/s
    pub busbw: f64,
    /// Wrong elements; `None` if none was checked.
    pub wrong: Option<u64>,
}

/// The names of the placements, in the order of [`SizeRow::placements`].
pub const PLACEMENTS: [&str; 2] = ["out of place", "in place"];

/// A saved table of nccl-tests.
#[derive(Debug, Clone, PartialEq)]
pub struct ReferenceTable {
    /// The file.
    pub path: PathBuf,
    /// What was run.
    pub run: NcclRun,
    /// The table.
    pub sweep: Sweep,
}

impl NcclRun {
    /// Every run for which there may be a reference table.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let on = NAMES.map(|collective| Self {
            collective,
            without_p2p: false,
        });
        let mut all = on.to_vec();
        all.insert(
            1,
            Self {
                without_p2p: true,
                ..on[0]
            },
        );
        all
    }

    /// The file with nccl-tests' saved standard outputs, one after the other.
    #[must_use]
    pub const fn their_file(without_p2p: bool) -> &'static str {
        if without_p2p {
            "nccl-tests.NCCL_P2P_DISABLE.txt"
        } else {
            "nccl-tests.txt"
        }
    }

    /// The file with our JSON.
    #[must_use]
    pub fn our_file(&self) -> String {
        format!(
            "nccl.{}{}.json",
            self.collective,
            if self.without_p2p { ".off" } else { "" }
        )
    }

    /// Its name for human readers; `off` means without peer-to-peer.
    #[must_use]
    pub fn name(&self) -> String {
        format!(
            "{}{}",
            self.collective,
            if self.without_p2p { " off" } else { "" }
        )
    }
}

impl Sweep {
    /// The row of this size; sizes of 0 do not count.
    #[must_use]
    pub fn row(&self, bytes: u64) -> Option<&SizeRow> {
        self.rows.iter().find(|row| row.bytes == bytes && bytes > 0)
    }

    /// The smallest nonzero size, and the largest.
    #[must_use]
    pub fn ends(&self) -> Option<(u64, u64)> {
        let sizes = || {
            self.rows
                .iter()
                .map(|row| row.bytes)
                .filter(|bytes| *bytes > 0)
        };
        Some((sizes().min()?, sizes().max()?))
    }
}
