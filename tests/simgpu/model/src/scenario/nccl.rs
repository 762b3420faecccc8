//! How NCCL behaves on a machine: channels, and times as the nccl-tests programs print them.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The NCCL section of a scenario. Times that are not given are derived.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nccl {
    /// Channels that NCCL chooses by default.
    #[serde(default = "channels")]
    pub channels: u32,
    /// The fraction of the full rate by number of channels; fewer channels than the first entry have its fraction.
    #[serde(default)]
    pub rate_by_channels: Vec<(u32, f64)>,
    /// Its version, 22907 for 2.29.7.
    #[serde(default = "version")]
    pub version: u32,
    /// The RDMA card that it finds, if any.
    pub hca: Option<Hca>,
    /// Channels that NCCL chooses by default with several RDMA ports that it may not merge.
    pub apart: Option<u32>,
    /// Through host memory: how many times longer the first call of a series takes than the others of the same size.
    pub shm_first: Option<f64>,
    /// Pairs whose data NCCL's own diagnostics call wrong, from 2.31 on.
    #[serde(default)]
    pub diagnosed: Vec<[usize; 2]>,
    /// A line that asks for attention, from 2.32 on.
    pub attention: Option<String>,
    /// With NVLink SHARP: how many times as fast all_reduce, all_gather and reduce_scatter are from 1 MiB on. Without it the
    /// machine has no NVLink SHARP.
    pub nvls: Option<f64>,
    /// How many times longer calls of up to 128 KiB take in the communicators that use each way, in the order in which each
    /// process makes its first call in one; 1 in those after the last.
    #[serde(default)]
    pub small: Small,
    /// Times with peer access.
    #[serde(default)]
    pub p2p: BTreeMap<Program, Table>,
    /// Times through host memory.
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
            shm_first: None,
            diagnosed: Vec::new(),
            attention: None,
            nvls: None,
            small: Small::default(),
            p2p: none(),
            shm: none(),
        }
    }
}

fn version() -> u32 {
    22_907
}

/// See [`Nccl::small`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Small {
    /// With peer access.
    #[serde(default)]
    pub p2p: Vec<f64>,
    /// Through host memory.
    #[serde(default)]
    pub shm: Vec<f64>,
}

/// How the RDMA card of a machine reaches memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hca {
    /// It reaches host memory.
    Host,
    /// It reaches GPU memory too.
    Gdr,
    /// It reaches GPU memory too, but NCCL does not use that.
    Unused,
}

/// The collectives, by the names of the nccl-tests programs.
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
    /// Whether it consists of sends and receives.
    #[must_use]
    pub const fn is_exchange(self) -> bool {
        matches!(
            self,
            Self::Alltoall | Self::Sendrecv | Self::Gather | Self::Scatter
        )
    }
}

/// A program's times in microseconds: for `from` bytes, twice as many and so on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Number of ranks.
    pub ranks: u32,
    /// The first size in bytes.
    pub from: u64,
    /// Times out of place.
    pub out: Vec<f64>,
    /// Times in place.
    pub r#in: Vec<f64>,
}

impl Program {
    /// Bus bandwidth divided by algorithm bandwidth.
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
    /// The time for `bytes` bytes: between two sizes interpolated linearly on logarithmic scales, below the first size its
    /// time, beyond the last size at its rate.
    #[must_use]
    pub fn us(&self, bytes: u64, in_place: bool) -> f64 {
        let times = if in_place { &self.r#in } else { &self.out };
        let place = (bytes as f64 / self.from as f64).log2();
        let at = |n: usize| times.get(n).copied();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is 0 to 64 then"
        )]
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

    /// The latency: the smallest time out of place.
    #[must_use]
    pub fn latency(&self) -> f64 {
        self.out.iter().copied().fold(f64::INFINITY, f64::min)
    }
}
