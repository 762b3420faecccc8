//! What NCCL does on a machine: channels, and times as nccl-tests' programs print them.

use serde::Deserialize;
use std::collections::BTreeMap;

/// All that is known of it. Where there is no time, one is derived.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nccl {
    /// Channels that it takes of itself.
    #[serde(default = "channels")]
    pub channels: u32,
    /// The part of the full rate that so many channels reach; fewer than the first reach that of the first.
    #[serde(default)]
    pub rate_by_channels: Vec<(u32, f64)>,
    /// Its version, 22907 for 2.29.7.
    #[serde(default = "version")]
    pub version: u32,
    /// The RDMA card that it finds, if any.
    pub hca: Option<Hca>,
    /// Channels that it takes of itself where it has several RDMA ports and may not merge them.
    pub apart: Option<u32>,
    /// Times with peer access.
    #[serde(default)]
    pub p2p: BTreeMap<Program, Table>,
    /// Times through the host's memory.
    #[serde(default)]
    pub shm: BTreeMap<Program, Table>,
}

fn channels() -> u32 {
    2
}

impl Default for Nccl {
    fn default() -> Self {
        let none = BTreeMap::new;
        let (channels, version) = (channels(), version());
        Self {
            channels,
            rate_by_channels: Vec::new(),
            version,
            hca: None,
            apart: None,
            p2p: none(),
            shm: none(),
        }
    }
}

fn version() -> u32 {
    22_907
}

/// A card for RDMA between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hca {
    /// It reaches the host's memory.
    Host,
    /// It reaches the GPUs' memory too.
    Gdr,
    /// It reaches the GPUs' memory too, and NCCL does not make use of that.
    Unused,
}

/// The collectives, as nccl-tests calls its programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "their names say it")]
pub enum Program {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    Alltoall,
    Sendrecv,
    Gather,
    Scatter,
}

impl Program {
    /// Whether it is made of sends and receives.
    #[must_use]
    pub const fn is_exchange(self) -> bool {
        matches!(self, Self::Alltoall | Self::Sendrecv | Self::Gather | Self::Scatter)
    }
}

/// A program's times in microseconds: for `from` bytes, twice as many and so on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// With how many ranks.
    pub ranks: u32,
    /// The first size.
    pub from: u64,
    /// Out of place.
    pub out: Vec<f64>,
    /// In place.
    pub r#in: Vec<f64>,
}

impl Program {
    /// Bus bandwidth over algorithm bandwidth.
    #[must_use]
    pub fn factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::Broadcast | Self::Reduce | Self::Sendrecv => 1.0,
            _ => (n - 1.0) / n,
        }
    }
}

impl Table {
    /// The time of so many bytes: between two sizes as a straight line through both on paper with logarithmic
    /// scales, below the first the first's, beyond the last at the last's rate.
    #[must_use]
    pub fn us(&self, bytes: u64, in_place: bool) -> f64 {
        let times = if in_place { &self.r#in } else { &self.out };
        let place = (bytes as f64 / self.from as f64).log2();
        let at = |n: usize| times.get(n).copied();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 64 then")]
        let below = place.max(0.0).floor() as usize;
        let inside = place.max(0.0) - below as f64;
        match (at(below), at(below + 1)) {
            (Some(time), _) if inside == 0.0 => time,
            (Some(a), Some(b)) => a * (b / a).powf(inside),
            _ => {
                let last = times.len().saturating_sub(1);
                at(last).unwrap_or_default() * (place - last as f64).exp2()
            }
        }
    }

    /// The time of nearly nothing.
    #[must_use]
    pub fn latency(&self) -> f64 {
        self.out.iter().copied().fold(f64::INFINITY, f64::min)
    }
}
