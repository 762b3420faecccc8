//! The performance of a machine's links and parts. Rates are in GB/s (10^9 bytes per second); the names of times contain
//! their unit. A range represents figures that differ slightly from pair to pair.

use serde::Deserialize;

/// All figures of a machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Peers on the same socket, or all peers if they are joined by NVLink.
    pub near: PairFigures,
    /// Peers on different sockets.
    pub far: PairFigures,
    /// Copies between GPUs that the driver stages in host memory.
    pub staged: Staged,
    /// Transfers between host and GPU.
    pub host: HostFigures,
    /// Transfers within a GPU.
    pub local: Local,
    /// What one GPU's link carries over all its partners: out, in, and both directions together.
    pub link: [f64; 3],
    /// What the link between two sockets carries, per direction.
    pub socket_link: f64,
    /// Links that several GPUs share on their way to the host and to other GPUs.
    #[serde(default)]
    pub uplink: Vec<Uplink>,
}

/// From the lowest to the highest figure.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Range(pub f64, pub f64);

/// The figures of a pair of peers.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFigures {
    /// Copy engines.
    pub ce: Ways,
    /// Kernels.
    pub sm: Ways,
    /// Latency of one small copy.
    pub latency_us: Range,
    /// Latency of one flag from kernel to kernel.
    pub flag_us: Range,
    /// Latency of one dependent load.
    pub chase_ns: Range,
}

/// Rates by which GPU does the work.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ways {
    /// The GPU that has the data writes.
    pub write: Range,
    /// The GPU that wants the data reads.
    pub read: Range,
    /// Both GPUs write at the same time: total rate.
    pub write_both: Range,
    /// Both GPUs read at the same time: total rate.
    pub read_both: Range,
}

/// Copies through host memory.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staged {
    /// One direction.
    pub one: Range,
    /// Both directions at the same time: total rate.
    pub both: Range,
    /// Latency of one small copy.
    pub latency_us: Range,
}

/// Between host and GPU.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFigures {
    /// To a GPU, by its copy engine.
    pub to: f64,
    /// From a GPU.
    pub from: f64,
    /// Both directions at the same time: total rate.
    pub both: f64,
    /// By a kernel, per direction.
    pub sm: f64,
    /// Rate of one socket's memory, reads and writes of all GPUs together.
    pub memory: f64,
    /// Latency of one small copy.
    pub latency_us: f64,
    /// Latency of one dependent load.
    pub chase_ns: f64,
}

/// Within a GPU.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// A copy within its memory, counting both read and written bytes.
    pub copy: Range,
    /// Latency of one small copy.
    pub latency_us: Range,
    /// Latency of a kernel launch.
    pub launch_us: f64,
    /// Latency of one dependent load.
    pub chase_ns: f64,
}

/// A link that several GPUs share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// The GPUs that share it.
    pub gpus: Vec<usize>,
    /// What it carries, per direction.
    pub rate: f64,
}

impl Range {
    /// The figure of `from` and `to`: always the same one, spread over the range by pair.
    #[must_use]
    pub fn of(self, from: usize, to: usize) -> f64 {
        let seed = (from as u64) << 32 | to as u64;
        let share = f64::from(crate::pattern::word(seed, 1) >> 8) / f64::from(1 << 24);
        self.0 + (self.1 - self.0) * share
    }
}
