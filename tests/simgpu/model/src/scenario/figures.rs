//! What the links and parts of a machine can do. Rates are GB/s (10^9 bytes a second), times are
//! as their names say. A range stands for figures that differ a little from pair to pair.

use serde::Deserialize;

/// All figures of a machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Peers on one socket, or all where NVLink joins them.
    pub near: PairFigures,
    /// Peers on different sockets.
    pub far: PairFigures,
    /// Copies between GPUs that the driver takes through the host's memory.
    pub staged: Staged,
    /// Between host and GPU.
    pub host: HostFigures,
    /// Within a GPU.
    pub local: Local,
    /// What one GPU's link carries: out, in, and both together, all partners taken together.
    pub link: [f64; 3],
    /// What the link between two sockets carries, each way.
    pub socket_link: f64,
    /// Links that several GPUs share on their way to the host and to others.
    #[serde(default)]
    pub uplink: Vec<Uplink>,
}

/// From a lowest to a highest figure.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Range(pub f64, pub f64);

/// What two peers can do.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFigures {
    /// Copy engines.
    pub ce: Ways,
    /// Kernels.
    pub sm: Ways,
    /// One small copy.
    pub latency_us: Range,
    /// One flag from kernel to kernel.
    pub flag_us: Range,
    /// One dependent load.
    pub chase_ns: Range,
}

/// Rates by who works.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ways {
    /// The GPU that has the data writes.
    pub write: Range,
    /// The GPU that wants the data reads.
    pub read: Range,
    /// Both GPUs write at a time, together.
    pub write_both: Range,
    /// Both read.
    pub read_both: Range,
}

/// Copies through the host's memory.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staged {
    /// One way.
    pub one: Range,
    /// Both ways at a time, together.
    pub both: Range,
    /// One small copy.
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
    /// Both at a time, together.
    pub both: f64,
    /// By a kernel, each way.
    pub sm: f64,
    /// What one socket's memory gives and takes, all GPUs taken together.
    pub memory: f64,
    /// One small copy.
    pub latency_us: f64,
    /// One dependent load.
    pub chase_ns: f64,
}

/// Within a GPU.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// A copy within its memory, read and written bytes counted.
    pub copy: Range,
    /// One small copy.
    pub latency_us: Range,
    /// Launching a kernel.
    pub launch_us: f64,
    /// One dependent load.
    pub chase_ns: f64,
}

/// A link that several GPUs share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Who shares it.
    pub gpus: Vec<usize>,
    /// What it carries, each way.
    pub rate: f64,
}

impl Range {
    /// The figure of `from` and `to`: the same each time, spread over the range.
    #[must_use]
    pub fn of(self, from: usize, to: usize) -> f64 {
        let seed = (from as u64) << 32 | to as u64;
        let share = f64::from(crate::pattern::word(seed, 1) >> 8) / f64::from(1 << 24);
        self.0 + (self.1 - self.0) * share
    }
}
