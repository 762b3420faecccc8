//! How far two devices are from each other, in NCCL's letters. NCCL has no NODE: it treats all host bridges
//! of a NUMA node as one, and silently ignores a level whose name it does not know.

use machine::pcie::model::PathKind;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The kind of the path between two devices, nearest first (NCCL's order of path types).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// The device itself.
    Loc,
    /// `NVLink`.
    Nvl,
    /// `NVLink` through another GPU.
    Nvb,
    /// A processor's own link to its GPU.
    C2c,
    /// At most one PCIe bridge.
    Pix,
    /// Several bridges, not the host bridge.
    Pxb,
    /// A NIC through the processor's own link and PCIe.
    P2c,
    /// A NIC through another GPU.
    Pxn,
    /// Through one host bridge.
    Phb,
    /// Between host bridges of one NUMA node; `nvidia-smi` uses it, NCCL reports PHB.
    Node,
    /// Between NUMA nodes.
    Sys,
    /// Over the network.
    Net,
    /// No path.
    Dis,
}

impl Distance {
    /// All of them, nearest first.
    pub const ALL: [Self; 13] = [
        Self::Loc,
        Self::Nvl,
        Self::Nvb,
        Self::C2c,
        Self::Pix,
        Self::Pxb,
        Self::P2c,
        Self::Pxn,
        Self::Phb,
        Self::Node,
        Self::Sys,
        Self::Net,
        Self::Dis,
    ];

    /// The letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Nvb => "NVB",
            Self::C2c => "C2C",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
            Self::Net => "NET",
            Self::Dis => "DIS",
        }
    }
}

impl From<PathKind> for Distance {
    fn from(kind: PathKind) -> Self {
        match kind {
            PathKind::Pix => Self::Pix,
            PathKind::Pxb => Self::Pxb,
            PathKind::Phb => Self::Phb,
            PathKind::Node => Self::Node,
            PathKind::Sys => Self::Sys,
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Distance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|d| d.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a kind of path; known are {known}"))
    }
}
