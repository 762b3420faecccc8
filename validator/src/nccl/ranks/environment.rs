//! The complete environment of an arm's processes. Every variable is set in every arm, because NCCL reads
//! unset ones from `/etc/nccl.conf` (its `src/misc/param.cc`), which may contain an earlier verdict's settings.
//! An empty value selects NCCL's own default.

use super::{Arm, Network, NetworkKind, Setup};
use crate::nccl::advice::{HCA, MERGE};
use crate::nccl::nvls;
use crate::process::partner;
use std::net::SocketAddr;

/// The part of the environment that differs from launch to launch: paths and addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct LaunchContext {
    /// The search path of the driver's and NCCL's libraries, as set for the worker.
    pub(super) library_path: Option<String>,
    /// The file for NCCL's topology dump.
    pub(super) topology: String,
    /// The file for NCCL's graph dump.
    pub(super) graph: String,
    /// The address at which NCCL reports its state; `None` turns that off.
    pub(super) ras: Option<SocketAddr>,
}

/// Names and values.
pub(super) fn environment(setup: &Setup, context: &LaunchContext) -> Vec<(String, String)> {
    let flag = |on: bool| if on { "1" } else { "0" };
    let channels = setup.channels.map(|n| n.to_string()).unwrap_or_default();
    let ras = context.ras.map(|at| at.to_string()).unwrap_or_default();
    let off = matches!(setup.arm, Arm::Off | Arm::Withheld);
    let strict = matches!(setup.arm, Arm::Strict | Arm::Withheld);
    let pairs = [
        // CUDA numbers GPUs like NVML and the report, not the fastest first.
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        partner::ONE_CONNECTION,
        // Excludes the user's home; `/etc/nccl.conf` cannot be excluded.
        ("NCCL_CONF_FILE", "/dev/null"),
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,ENV,GRAPH,P2P,SHM,NET"),
        // Standard output instead of a file.
        ("NCCL_DEBUG_FILE", ""),
        ("NCCL_P2P_DISABLE", flag(off)),
        ("NCCL_P2P_LEVEL", if off { "LOC" } else { "SYS" }),
        ("NCCL_SHM_DISABLE", flag(strict)),
        ("NCCL_NET_DISABLE_INTRA", flag(strict)),
        // 2: on GPUs that support it.
        (nvls::VARIABLE, if setup.nvls { "2" } else { "0" }),
        ("NCCL_MNNVL_ENABLE", "0"),
        ("NCCL_SOCKET_IFNAME", "lo"),
        // Connections are made and logged at their first use: starting is quick, and what is logged was used.
        ("NCCL_RUNTIME_CONNECT", "1"),
        ("NCCL_MIN_NCHANNELS", &channels),
        ("NCCL_MAX_NCHANNELS", &channels),
        ("NCCL_TOPO_DUMP_FILE", &context.topology),
        ("NCCL_GRAPH_DUMP_FILE", &context.graph),
        ("NCCL_RAS_ENABLE", flag(context.ras.is_some())),
        ("NCCL_RAS_ADDR", &ras),
        // From 2.31 on NCCL tests each pair itself when it makes a communicator; earlier ones do not know the variable.
        (
            "NCCL_RUN_DIAGNOSTICS",
            flag(setup.arm == Arm::Strict && !setup.processes),
        ),
    ];
    let library_path = context
        .library_path
        .as_deref()
        .map(|path| ("LD_LIBRARY_PATH", path));
    let all = library_path.into_iter().chain(pairs);
    let mut all: Vec<_> = all
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in setup.part.iter().flat_map(|part| network(&part.network)) {
        all.retain(|(other, _)| other != name);
        all.push((name.to_owned(), value));
    }
    all
}

/// The variables for the network between nodes. GPUDirect is allowed at any distance between card and GPU (SYS), so that
/// it is tested wherever it can be; NCCL's own limit is PXB.
fn network(network: &Network) -> Vec<(&'static str, String)> {
    // An empty NCCL_NET would select a network without a name, which does not exist.
    let (net, no_ib, direct) = match network.kind {
        NetworkKind::Any => (None, "0", ""),
        NetworkKind::Socket => (Some("Socket"), "1", "LOC"),
        NetworkKind::Rdma => (Some("IB"), "0", "LOC"),
        NetworkKind::Gdr => (Some("IB"), "0", "SYS"),
    };
    let mut all = vec![
        ("NCCL_IB_DISABLE", no_ib.to_owned()),
        ("NCCL_NET_GDR_LEVEL", direct.to_owned()),
        ("NCCL_SOCKET_IFNAME", format!("={}", network.interface)),
        (HCA, network.hcas.clone()),
        (
            MERGE,
            network
                .merge
                .map(|on| u8::from(on).to_string())
                .unwrap_or_default(),
        ),
        // Between GPUs of one node the network is not used.
        ("NCCL_NET_DISABLE_INTRA", "1".to_owned()),
    ];
    all.extend(net.map(|net| ("NCCL_NET", net.to_owned())));
    all.extend(network.host_id.iter().map(|id| ("NCCL_HOSTID", id.clone())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::GpuId;
    use std::collections::BTreeMap;

    fn setup(arm: Arm) -> Setup {
        Setup {
            arm,
            processes: false,
            gpus: GpuId::all(2).collect(),
            nvls: false,
            channels: None,
            most_bytes: 8,
            room: 8,
            library_path: Vec::new(),
            library: None,
            part: None,
        }
    }

    fn context() -> LaunchContext {
        LaunchContext {
            library_path: Some("/drivers".to_owned()),
            topology: "/proc/self/fd/7".to_owned(),
            graph: "/proc/self/fd/8".to_owned(),
            ras: Some(([127, 0, 0, 1], 4711).into()),
        }
    }

    fn of(setup: &Setup) -> BTreeMap<String, String> {
        let all = environment(setup, &context());
        let map: BTreeMap<_, _> = all.iter().cloned().collect();
        assert_eq!(all.len(), map.len(), "each name is unique");
        map
    }

    #[test]
    fn the_p2p_arms_environment_is_complete() {
        let said: Vec<_> = environment(&setup(Arm::P2p), &context())
            .iter()
            .map(|(n, v)| format!("{n}={v}"))
            .collect();
        let expected = "LD_LIBRARY_PATH=/drivers CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_DEVICE_MAX_CONNECTIONS=1 \
            NCCL_CONF_FILE=/dev/null NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,GRAPH,P2P,SHM,NET NCCL_DEBUG_FILE= \
            NCCL_P2P_DISABLE=0 NCCL_P2P_LEVEL=SYS NCCL_SHM_DISABLE=0 NCCL_NET_DISABLE_INTRA=0 \
            NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_SOCKET_IFNAME=lo NCCL_RUNTIME_CONNECT=1 \
            NCCL_MIN_NCHANNELS= NCCL_MAX_NCHANNELS= NCCL_TOPO_DUMP_FILE=/proc/self/fd/7 \
            NCCL_GRAPH_DUMP_FILE=/proc/self/fd/8 NCCL_RAS_ENABLE=1 NCCL_RAS_ADDR=127.0.0.1:4711 NCCL_RUN_DIAGNOSTICS=0";
        assert_eq!(said.join(" "), expected);
    }

    #[test]
    fn the_other_arms_differ_only_in_what_they_forbid() {
        let peers = of(&setup(Arm::P2p));
        let changed = |setup: &Setup| -> Vec<String> {
            let other = of(setup);
            assert!(
                other.keys().eq(peers.keys()),
                "every variable is set in every arm"
            );
            let differ = other
                .iter()
                .filter(|(name, value)| peers.get(*name) != Some(*value));
            differ
                .map(|(name, value)| format!("{name}={value}"))
                .collect()
        };
        assert_eq!(
            changed(&setup(Arm::Off)),
            ["NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=LOC"]
        );
        let strict = [
            "NCCL_NET_DISABLE_INTRA=1",
            "NCCL_RUN_DIAGNOSTICS=1",
            "NCCL_SHM_DISABLE=1",
        ];
        assert_eq!(changed(&setup(Arm::Strict)), strict);
        let none = [
            "NCCL_NET_DISABLE_INTRA=1",
            "NCCL_P2P_DISABLE=1",
            "NCCL_P2P_LEVEL=LOC",
            "NCCL_SHM_DISABLE=1",
        ];
        assert_eq!(changed(&setup(Arm::Withheld)), none);
        let more = Setup {
            channels: Some(16),
            nvls: true,
            ..setup(Arm::P2p)
        };
        let more = changed(&more);
        assert_eq!(
            more,
            [
                "NCCL_MAX_NCHANNELS=16",
                "NCCL_MIN_NCHANNELS=16",
                "NCCL_NVLS_ENABLE=2"
            ]
        );
    }

    #[test]
    fn between_nodes_the_network_is_set_and_every_variable_is_set_once() {
        let with = |kind| {
            let (interface, hcas) = ("eth0".to_owned(), "=mlx5_0:1".to_owned());
            let network = Network {
                kind,
                interface,
                hcas,
                merge: Some(false),
                host_id: Some("a".to_owned()),
            };
            of(&Setup {
                part: Some(super::super::CommunicatorPart {
                    first: 2.into(),
                    ranks: 4,
                    network,
                }),
                ..setup(Arm::P2p)
            })
        };
        let all = with(NetworkKind::Socket);
        for (name, value) in [
            ("NCCL_NET", "Socket"),
            ("NCCL_IB_DISABLE", "1"),
            ("NCCL_SOCKET_IFNAME", "=eth0"),
            ("NCCL_IB_HCA", "=mlx5_0:1"),
            ("NCCL_IB_MERGE_NICS", "0"),
            ("NCCL_HOSTID", "a"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        let level = |kind| with(kind).remove("NCCL_NET_GDR_LEVEL").unwrap();
        assert_eq!(
            [level(NetworkKind::Rdma), level(NetworkKind::Gdr)],
            ["LOC", "SYS"]
        );
        let others = all.keys().filter(|name| *name != "NCCL_NET");
        assert!(
            with(NetworkKind::Any).keys().eq(others),
            "every variable is set in every arm"
        );
    }

    #[test]
    fn without_a_port_ras_is_off() {
        let context = LaunchContext {
            ras: None,
            library_path: None,
            ..context()
        };
        let all = environment(&setup(Arm::P2p), &context);
        let of = |name: &str| {
            all.iter()
                .find(|(n, _)| n == name)
                .map(|(_, value)| value.as_str())
        };
        assert_eq!(
            (of("NCCL_RAS_ENABLE"), of("NCCL_RAS_ADDR")),
            (Some("0"), Some(""))
        );
        assert_eq!(of("LD_LIBRARY_PATH"), None);
    }
}
