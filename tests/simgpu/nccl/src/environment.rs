//! The environment variables that NCCL reads: once per process, when the first communicator is created. No other source is
//! read, not even /etc/nccl.conf.

use std::env;
use std::sync::OnceLock;

/// NCCL's names for the distance between two GPUs, nearest first.
const LEVELS: [&str; 10] = [
    "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS",
];
/// The names of the numbers that older versions used.
const OLD_LEVELS: [&str; 6] = ["LOC", "PIX", "PXB", "PHB", "SYS", "SYS"];

/// A distance: an index in [`LEVELS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(usize);

impl Level {
    /// The level with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        LEVELS.iter().position(|l| *l == name).map(Self)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        LEVELS.get(self.0).copied().unwrap_or("DIS")
    }

    fn read(text: &str) -> Option<Self> {
        let old = text
            .parse::<usize>()
            .ok()
            .map(|n| OLD_LEVELS.get(n).copied().unwrap_or("SYS"));
        Self::named(old.unwrap_or(text))
    }
}

/// The values that were read.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// The greatest distance between GPUs that use peer access; `LOC` if peer access is disabled.
    pub(crate) p2p: Level,
    pub(crate) p2p_direct: bool,
    pub(crate) shm: bool,
    pub(crate) net_intra_node: bool,
    pub(crate) lazy_connect: bool,
    /// Whether NVLink SHARP is allowed.
    pub(crate) nvls: bool,
    /// Whether NCCL tests each pair by itself.
    pub(crate) diagnostics: bool,
    pub(crate) min_channels: Option<u32>,
    pub(crate) max_channels: Option<u32>,
    pub(crate) interface: Option<String>,
    /// The network that must be used between hosts (NCCL_NET).
    pub(crate) net: Option<String>,
    /// Whether RDMA may be used; `gdr`: also to GPU memory.
    pub(crate) ib: bool,
    /// The RDMA devices to use, and whether their ports may be merged.
    pub(crate) hcas: Vec<String>,
    pub(crate) merge: bool,
    pub(crate) gdr: bool,
    /// This host's name among the hosts (NCCL_HOSTID).
    pub(crate) host: String,
    pub(crate) topology: Option<String>,
    pub(crate) graph: Option<String>,
    /// The log lines about variables that were set.
    pub(crate) lines: Vec<String>,
}

/// Variables that NCCL reads as text: their lines have no full stop.
const TEXT_VARIABLES: [&str; 4] = [
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP_FILE",
];
/// Variables that NCCL reads as numbers, including some that have no effect here.
const NUMBER_VARIABLES: [&str; 10] = [
    "NCCL_SHM_DISABLE",
    "NCCL_NET_DISABLE_INTRA",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_NVLS_ENABLE",
    "NCCL_MNNVL_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_IB_DISABLE",
];

/// The environment of this process as it was at the first call.
pub(crate) fn environment() -> &'static Environment {
    static READ: OnceLock<Environment> = OnceLock::new();
    // An empty value counts as unset.
    READ.get_or_init(|| read(|name| env::var(name).ok().filter(|v| !v.is_empty())))
}

fn read(get: impl Fn(&str) -> Option<String>) -> Environment {
    let number = |name: &str| get(name).and_then(|v| v.trim().parse::<i64>().ok());
    let on = |name: &str| number(name).is_some_and(|n| n != 0);
    let count = |name: &str| {
        number(name)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|n| *n > 0)
    };
    let level = get("NCCL_P2P_LEVEL")
        .and_then(|v| Level::read(&v))
        .or_else(|| Level::named("PXB"));
    let p2p = if on("NCCL_P2P_DISABLE") {
        Level(0)
    } else {
        level.unwrap_or(Level(0))
    };
    let line = |name: &&str, stop: &str| {
        get(name).map(|v| format!("{name} set by environment to {v}{stop}"))
    };
    let lines = TEXT_VARIABLES.iter().filter_map(|n| line(n, ""));
    let lines = lines
        .chain(NUMBER_VARIABLES.iter().filter_map(|n| line(n, ".")))
        .collect();
    Environment {
        p2p,
        p2p_direct: !on("NCCL_P2P_DIRECT_DISABLE"),
        shm: !on("NCCL_SHM_DISABLE"),
        net_intra_node: !on("NCCL_NET_DISABLE_INTRA"),
        lazy_connect: number("NCCL_RUNTIME_CONNECT").is_none_or(|n| n != 0),
        nvls: number("NCCL_NVLS_ENABLE").is_none_or(|n| n != 0),
        diagnostics: on("NCCL_RUN_DIAGNOSTICS"),
        min_channels: count("NCCL_MIN_NCHANNELS"),
        max_channels: count("NCCL_MAX_NCHANNELS"),
        interface: get("NCCL_SOCKET_IFNAME"),
        net: get("NCCL_NET"),
        ib: !on("NCCL_IB_DISABLE"),
        hcas: devices(&get("NCCL_IB_HCA").unwrap_or_default()),
        merge: number("NCCL_IB_MERGE_NICS").is_none_or(|n| n != 0),
        gdr: get("NCCL_NET_GDR_LEVEL").as_deref() != Some("LOC"),
        host: get("NCCL_HOSTID").unwrap_or_default(),
        topology: get("NCCL_TOPO_DUMP_FILE"),
        graph: get("NCCL_GRAPH_DUMP_FILE"),
        lines,
    }
}

/// The devices of a list such as `=mlx5_0:1,mlx5_1:1`.
fn devices(list: &str) -> Vec<String> {
    let ports = list
        .trim_start_matches('=')
        .split(',')
        .filter(|port| !port.is_empty());
    ports
        .map(|port| port.split(':').next().unwrap_or(port).to_owned())
        .collect()
}

/// NCCL's maximum number of channels.
const MAX_CHANNELS: u32 = 64;

impl Environment {
    /// The number of channels if NCCL would choose `own` by default.
    pub(crate) fn channels(&self, own: u32) -> u32 {
        let least = self.min_channels.unwrap_or(1);
        let most = self.max_channels.unwrap_or(MAX_CHANNELS);
        own.max(least).min(most.max(1)).min(MAX_CHANNELS)
    }
}
