//! How two ranks of one machine reach each other, chosen as in NCCL: directly if the level, NVML and CUDA allow it, else
//! through shared memory, else through a socket, else not at all.

use crate::environment::{Environment, Level};
use simgpu_model::Scenario;
use simgpu_model::collective::Path;
use simgpu_model::scenario::{Hca, Kind};

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Direct,
    CuMem,
    Ipc,
    Shm,
    Net,
    Ib,
    Gdr,
}

impl Transport {
    /// Its name in log lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "P2P/direct pointer",
            Self::CuMem => "P2P/CUMEM",
            Self::Ipc => "P2P/IPC",
            Self::Shm => "SHM/direct/direct",
            Self::Net => "NET/Socket/0",
            Self::Ib => "NET/IB/0",
            Self::Gdr => "NET/IB/0/GDRDMA",
        }
    }

    /// Its path, which determines the times.
    pub(crate) fn path(self) -> Path {
        match self {
            Self::Direct | Self::CuMem | Self::Ipc | Self::Gdr => Path::P2p,
            Self::Shm | Self::Ib => Path::Shm,
            Self::Net => Path::Net,
        }
    }
}

impl Transport {
    /// Whether each side logs its own half of the connection.
    pub(crate) fn is_net(self) -> bool {
        matches!(self, Self::Net | Self::Ib | Self::Gdr)
    }
}

/// The transport to another host: RDMA if there is a card and it is allowed, to GPU memory if the card can reach it. `None`
/// if RDMA is required and there is no card.
pub(crate) fn network_transport(scenario: &Scenario, env: &Environment) -> Option<Transport> {
    match scenario.nccl.hca.filter(|_| env.ib) {
        Some(Hca::Gdr) if env.gdr => Some(Transport::Gdr),
        Some(_) => Some(Transport::Ib),
        None => (env.net.as_deref() != Some("IB")).then_some(Transport::Net),
    }
}

/// The distance between two GPUs.
pub(crate) fn distance(scenario: &Scenario, a: usize, b: usize) -> Option<Level> {
    let machine = &scenario.machine;
    let switch = scenario
        .figures
        .uplink
        .iter()
        .any(|u| u.gpus.contains(&a) && u.gpus.contains(&b));
    let node = |gpu: usize| machine.numa.get(gpu);
    Level::named(match () {
        () if machine.nvlink.is_some() => "NVL",
        () if switch => "PXB",
        () if node(a) == node(b) => "PHB",
        () => "SYS",
    })
}

/// Whether a GPU may reach another one directly.
pub(crate) fn peers(scenario: &Scenario, env: &Environment, a: usize, b: usize) -> bool {
    let fallback = scenario.fault.iter().any(|f| f.kind == Kind::NcclShm);
    let reported = scenario.nvml_status(a, b, false) == 0 && scenario.can_access(a, b);
    let near = distance(scenario, a, b).is_some_and(|n| n <= env.p2p);
    let deaf = scenario.fault.iter().any(|f| f.kind == Kind::NcclDeaf);
    (near || deaf) && reported && !fallback
}

/// The transport from GPU `a` to `b`, whose ranks are in one process if `same_process`; `None` if there is none.
pub(crate) fn transport_between(
    scenario: &Scenario,
    env: &Environment,
    a: usize,
    b: usize,
    same_process: bool,
) -> Option<Transport> {
    let lost = scenario
        .fault
        .iter()
        .any(|f| f.kind == Kind::NcclNoTransport);
    let strict = !env.shm && !env.net_intra_node;
    match () {
        () if lost && strict => None,
        () if peers(scenario, env, a, b) => Some(match () {
            () if same_process && env.p2p_direct => Transport::Direct,
            () if scenario.machine.vmm => Transport::CuMem,
            () => Transport::Ipc,
        }),
        () if env.shm => Some(Transport::Shm),
        () if env.net_intra_node => Some(Transport::Net),
        () => None,
    }
}
