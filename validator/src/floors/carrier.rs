//! What carries the data of a pair, and the resulting floors. The factors fit every recorded figure of
//! healthy machines:
//!
//! | machine | raw GB/s | one direction GB/s | of raw |
//! |---|---|---|---|
//! | 8 x 4090, Gen4 x16, one socket | 31.5 | 25.5 to 26.0 | 0.81 to 0.83 |
//! | the same between sockets | 31.5 | 20.6 to 22.5 | 0.65 to 0.72 |
//! | RTX PRO 6000 and 5090, Gen5 x16, one node | 63.0 | 53 to 56 | 0.84 to 0.89 |
//! | the same between nodes | 63.0 | 39 to 51 | 0.62 to 0.81 |
//! | 2 x 5090, Gen5 x8 | 31.5 | 28 | 0.89 |
//! | 3090 on x8, and on x4 of the chipset | 15.75, 7.88 | 13.2, 6.5 | 0.84, 0.82 |
//! | H200, 18 NVLinks, first pair cold .. others | 478.1 | 361 .. 392 | 0.755 .. 0.82 |
//! | the same, copy engine reads | 478.1 | 394 | 0.82 |
//! | the same, kernels write, read | 478.1 | 370, 376 | 0.77, 0.79 |
//!
//! Both directions at once, as a multiple of one: 1.93 to 1.95 within a socket, 1.86 and 1.64 between; over
//! NVLink 1.98, 1.98 (reads), 1.98 and 1.80 (kernels' writes and reads). There is no record of reads over
//! PCIe: they wait for answers, and some root complexes answer slowly.

use crate::schedule::RouteKind;
use machine::pcie::model::PathKind;
use machine::pcie::topo::Cell;

/// What NVLink 3 and 4 carry per link and direction, used where NVML does not report it: 25 GB/s of data
/// (26.5625 GB/s of signalling on NVLink 4).
pub const NVLINK_GB_S: f64 = 25.0;

/// Below the floor, but by less than a tenth: a warning.
const MARGIN: f64 = 0.9;

/// What carries the data of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Carrier {
    /// PCIe links.
    Pcie {
        /// The distance of the two GPUs.
        kind: PathKind,
        /// The narrowest link on the path, under load, because idle GPUs slow their links down. GB/s in one
        /// direction; 0 when unknown.
        raw_gb_s: f64,
    },
    /// NVLinks.
    NvLink {
        /// The number of NVLinks of the GPU that has fewer.
        links: u32,
        /// What each carries in one direction according to NVML, GB/s, or [`NVLINK_GB_S`].
        gb_s: f64,
    },
}

/// What moves the data, and in which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mover {
    /// True for a kernel on the multiprocessors, false for a copy engine.
    pub kernel: bool,
    /// True if it reads its peer's memory, false if it writes to it.
    pub read: bool,
}

impl Mover {
    /// The reference for all other movers.
    pub const WRITES: Self = Self {
        kernel: false,
        read: false,
    };
}

/// The lowest acceptable figure, and its derivation.
#[derive(Debug, Clone, PartialEq)]
pub struct Floor {
    /// A figure of at least this is good; one of at least nine tenths of it is a warning.
    pub least: f64,
    /// `0.75 of the 31.5 GB/s that the narrowest link of its PIX path carries`
    pub because: String,
}

/// A figure's relation to its floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// At least the floor.
    Good,
    /// Less, but at least nine tenths of the floor.
    Low,
    /// Less than nine tenths, or no figure at all.
    Bad,
}

impl Floor {
    /// The grade of `figure`.
    #[must_use]
    pub fn grade(&self, figure: f64) -> Grade {
        if figure >= self.least {
            Grade::Good
        } else if figure >= self.least * MARGIN {
            Grade::Low
        } else {
            Grade::Bad
        }
    }
}

impl Carrier {
    /// The carrier of a pair's path; `None` for copies that are staged on purpose.
    #[must_use]
    pub fn of(way: RouteKind, nvlink_gb_s: f64) -> Option<Self> {
        match way {
            RouteKind::Pcie { kind, raw_gb_s } => Some(Self::Pcie { kind, raw_gb_s }),
            RouteKind::NvLink(links) => Some(Self::NvLink {
                links,
                gb_s: nvlink_gb_s,
            }),
            RouteKind::Staged => None,
        }
    }

    /// What it carries in one direction, GB/s; `None` when unknown.
    #[must_use]
    pub fn raw(&self) -> Option<f64> {
        let raw = match self {
            Self::Pcie { raw_gb_s, .. } => *raw_gb_s,
            Self::NvLink { links, gb_s } => f64::from(*links) * gb_s,
        };
        (raw.is_finite() && raw > 0.0).then_some(raw)
    }

    /// The floor of one direction alone, GB/s; `None` when the carrier's rate is unknown.
    #[must_use]
    pub fn floor(&self, mover: Mover) -> Option<Floor> {
        let raw = self.raw()?;
        let part = match (self, mover.read, mover.kernel) {
            (Self::NvLink { .. }, _, false) => 0.70,
            (Self::NvLink { .. }, _, true) => 0.65,
            (
                Self::Pcie {
                    kind: PathKind::Sys,
                    ..
                },
                true,
                _,
            ) => 0.35,
            (
                Self::Pcie {
                    kind: PathKind::Sys,
                    ..
                },
                false,
                false,
            ) => 0.58,
            (
                Self::Pcie {
                    kind: PathKind::Sys,
                    ..
                },
                false,
                true,
            ) => 0.52,
            (Self::Pcie { .. }, true, _) => 0.55,
            (Self::Pcie { .. }, false, false) => 0.75,
            (Self::Pcie { .. }, false, true) => 0.70,
        };
        let because = format!("{part} of the {raw:.1} GB/s that {}", self.clause());
        Some(Floor {
            least: raw * part,
            because,
        })
    }

    /// The floor for both directions at once, as a multiple of one direction alone.
    #[must_use]
    pub fn both_ways(&self, mover: Mover) -> Floor {
        let least = match (self.is_far(), mover.read) {
            (false, false) => 1.75,
            (true, false) | (false, true) => 1.5,
            (true, true) => 1.3,
        };
        Floor {
            least,
            because: format!("{least} times one direction alone"),
        }
    }

    /// The same carrier, with links that carry `raw_gb_s`.
    #[must_use]
    pub const fn with_raw(self, raw_gb_s: f64) -> Self {
        match self {
            Self::Pcie { kind, .. } => Self::Pcie { kind, raw_gb_s },
            Self::NvLink { .. } => self,
        }
    }

    /// Whether it is NVLink.
    #[must_use]
    pub const fn is_nvlink(&self) -> bool {
        matches!(self, Self::NvLink { .. })
    }

    /// `the 31.5 GB/s that` ..
    fn clause(&self) -> String {
        match self {
            Self::Pcie { kind, .. } => {
                format!(
                    "the narrowest link of its {} path carries",
                    Cell::Pcie(*kind)
                )
            }
            Self::NvLink { links, gb_s } => format!("its {links} NVLinks of {gb_s:.1} GB/s carry"),
        }
    }

    const fn is_far(&self) -> bool {
        matches!(
            self,
            Self::Pcie {
                kind: PathKind::Sys,
                ..
            }
        )
    }
}
