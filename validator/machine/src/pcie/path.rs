//! The path between two functions: which bridges traffic crosses, the distance in the letters of `nvidia-smi
//! topo -m`, and what the narrowest link can carry. Pure.

use super::link::raw_gb_s;
use super::model::{Bdf, Device, Fabric, Kind, Link, Path, PathKind};
use super::topo::Cell;
use super::tree::Tree;

/// The path from `a` to `b`; `None` if either is not in the tree.
#[must_use]
pub fn between(tree: &Tree, a: Bdf, b: Bdf) -> Option<Path> {
    let (from, to) = (tree.get(a)?, tree.get(b)?);
    let (kind, ports) = route(tree, from, to);
    let raw_gb_s = narrowest(from, to, &ports);
    Some(Path {
        a,
        b,
        kind,
        ports: ports.iter().map(|p| p.bdf).collect(),
        raw_gb_s,
    })
}

/// Every unordered GPU-GPU pair, then every GPU-NIC pair.
#[must_use]
pub fn all(tree: &Tree, gpus: &[Bdf], nics: &[Bdf]) -> Vec<Path> {
    let peers = gpus
        .iter()
        .enumerate()
        .flat_map(|(n, a)| gpus.iter().skip(n + 1).map(move |b| (*a, *b)));
    let network = gpus.iter().flat_map(|a| nics.iter().map(move |b| (*a, *b)));
    peers
        .chain(network)
        .filter_map(|(a, b)| between(tree, a, b))
        .collect()
}

fn route<'a>(tree: &Tree<'a>, from: &'a Device, to: &'a Device) -> (PathKind, Vec<&'a Device>) {
    if same_slot(from.bdf, to.bdf) {
        return (PathKind::Pix, Vec::new());
    }
    let (up, down) = (tree.above(from.bdf), tree.above(to.bdf));
    let turn = up
        .iter()
        .find(|u| down.iter().any(|d| d.bdf == u.bdf))
        .copied();
    let until_turn = |chain: Vec<&'a Device>| -> Vec<&'a Device> {
        chain
            .into_iter()
            .take_while(|d| turn.is_none_or(|t| t.bdf != d.bdf))
            .collect()
    };
    let mut ports = until_turn(up);
    ports.extend(until_turn(down).into_iter().rev());
    let kind = match turn {
        Some(turn) if switches(&ports, turn) <= 1 => PathKind::Pix,
        Some(_) => PathKind::Pxb,
        None => apart(from, to),
    };
    (kind, ports)
}

/// Functions of one card reach each other inside it.
fn same_slot(a: Bdf, b: Bdf) -> bool {
    (a.domain, a.bus, a.device) == (b.domain, b.bus, b.device)
}

/// A switch is counted at its upstream port, wherever the path enters, leaves or turns in it; other bridges
/// count individually.
fn switches(ports: &[&Device], turn: &Device) -> usize {
    let counts = |d: &&Device| matches!(d.kind, Kind::Upstream | Kind::Bridge | Kind::Other);
    ports.iter().copied().chain([turn]).filter(counts).count()
}

/// The distance of two functions that share no bridge. A machine whose firmware names no NUMA node has one;
/// if only one of the two functions has a node, they are assumed to be far apart.
fn apart(from: &Device, to: &Device) -> PathKind {
    if from.root_bus.is_some() && from.root_bus == to.root_bus {
        PathKind::Phb
    } else if from.numa == to.numa {
        PathKind::Node
    } else {
        PathKind::Sys
    }
}

/// GB/s of the narrowest link, rounded to MB/s so that JSON keeps the number exactly. A link is seen at both
/// of its ends, so the slower end decides. The lanes in use count; the rate is the fastest possible, because
/// idle links are slowed down.
fn narrowest(from: &Device, to: &Device, ports: &[&Device]) -> f64 {
    if from.config.gone || to.config.gone {
        return 0.0;
    }
    let can = |link: &Link| {
        if link.gts > 0.0 {
            raw_gb_s(link.max_gts, link.width)
        } else {
            0.0
        }
    };
    let links = ports
        .iter()
        .copied()
        .chain([from, to])
        .filter_map(|d| d.link.as_ref());
    let narrowest = links.map(can).reduce(f64::min).unwrap_or(0.0);
    (narrowest * 1000.0).round() / 1000.0
}

// The distance of every GPU to every RDMA device, and the nearest devices. Pure.

/// The distances from one GPU to all RDMA devices, in the devices' order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicPaths {
    /// The GPU.
    pub gpu: Bdf,
    /// Name of a device and the path to it.
    pub to: Vec<(String, PathKind)>,
}

/// The letters of a path.
#[must_use]
pub fn letters(kind: PathKind) -> String {
    Cell::Pcie(kind).to_string()
}

/// The paths of every GPU, ordered by address.
#[must_use]
pub fn nic_paths<F>(fabric: &Fabric<F>) -> Vec<NicPaths> {
    let tree = Tree::of(fabric);
    let to = |gpu: Bdf| {
        let way = |bdf| between(&tree, gpu, bdf).map(|p| p.kind);
        fabric
            .rdma
            .iter()
            .filter_map(|r| Some((r.name.clone(), way(r.bdf)?)))
            .collect()
    };
    fabric
        .gpus
        .iter()
        .map(|gpu| NicPaths {
            gpu: *gpu,
            to: to(*gpu),
        })
        .collect()
}

impl NicPaths {
    /// The nearest devices and their distance.
    #[must_use]
    pub fn nearest(&self) -> Option<(PathKind, Vec<&str>)> {
        let kind = self.to.iter().map(|(_, kind)| *kind).min()?;
        let names = self
            .to
            .iter()
            .filter(|(_, k)| *k == kind)
            .map(|(name, _)| name.as_str());
        Some((kind, names.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::sample::{bdf, device, gpu, two_gpus};

    #[track_caller]
    fn way(devices: &[Device], a: &str, b: &str) -> (PathKind, Vec<String>) {
        let path = between(&Tree::new(devices), bdf(a), bdf(b)).unwrap();
        (
            path.kind,
            path.ports.iter().map(ToString::to_string).collect(),
        )
    }

    /// Root port, switch with two GPUs, and a second switch with a GPU behind its third port.
    fn switches() -> Vec<Device> {
        vec![
            device("0000:00:01.0", Kind::RootPort, None),
            device("0000:01:00.0", Kind::Upstream, Some("0000:00:01.0")),
            device("0000:02:08.0", Kind::Downstream, Some("0000:01:00.0")),
            device("0000:02:09.0", Kind::Downstream, Some("0000:01:00.0")),
            device("0000:02:0a.0", Kind::Downstream, Some("0000:01:00.0")),
            gpu("0000:03:00.0", "0000:02:08.0"),
            gpu("0000:04:00.0", "0000:02:09.0"),
            device("0000:05:00.0", Kind::Upstream, Some("0000:02:0a.0")),
            device("0000:06:00.0", Kind::Downstream, Some("0000:05:00.0")),
            gpu("0000:07:00.0", "0000:06:00.0"),
        ]
    }

    #[test]
    fn inside_one_switch_is_pix_and_turns_below_the_upstream_port() {
        let (kind, ports) = way(&switches(), "0000:03:00.0", "0000:04:00.0");
        assert_eq!(kind, PathKind::Pix);
        assert_eq!(ports, ["0000:02:08.0", "0000:02:09.0"]);
    }

    #[test]
    fn through_two_switches_is_pxb() {
        let (kind, ports) = way(&switches(), "0000:03:00.0", "0000:07:00.0");
        assert_eq!(kind, PathKind::Pxb);
        assert_eq!(
            ports,
            [
                "0000:02:08.0",
                "0000:02:0a.0",
                "0000:05:00.0",
                "0000:06:00.0"
            ]
        );
    }

    #[test]
    fn the_return_path_is_the_path_reversed() {
        let (there, back) = (
            way(&switches(), "0000:03:00.0", "0000:07:00.0"),
            way(&switches(), "0000:07:00.0", "0000:03:00.0"),
        );
        assert_eq!(there.0, back.0);
        assert_eq!(there.1, back.1.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn functions_of_one_card_are_pix_without_a_port() {
        let mut devices = two_gpus();
        devices.push(gpu("0000:01:00.1", "0000:00:01.0"));
        assert_eq!(
            way(&devices, "0000:01:00.0", "0000:01:00.1"),
            (PathKind::Pix, vec![])
        );
    }

    #[test]
    fn root_ports_of_one_host_bridge_are_phb() {
        let (kind, ports) = way(&two_gpus(), "0000:01:00.0", "0000:02:00.0");
        assert_eq!(kind, PathKind::Phb);
        assert_eq!(ports, ["0000:00:01.0", "0000:00:02.0"]);
    }

    #[test]
    fn host_bridges_of_one_numa_node_are_node_and_of_two_are_sys() {
        let mut devices = two_gpus();
        devices[3].root_bus = Some("pci0000:40".into());
        assert_eq!(
            way(&devices, "0000:01:00.0", "0000:02:00.0").0,
            PathKind::Node
        );
        devices[3].numa = Some(1);
        assert_eq!(
            way(&devices, "0000:01:00.0", "0000:02:00.0").0,
            PathKind::Sys
        );
    }

    #[test]
    fn a_missing_node_is_not_the_same_node_and_unread_root_buses_are_not_one() {
        let mut devices = two_gpus();
        devices[2].root_bus = None;
        devices[3].root_bus = None;
        assert_eq!(
            way(&devices, "0000:01:00.0", "0000:02:00.0").0,
            PathKind::Node
        );
        devices[3].numa = None;
        assert_eq!(
            way(&devices, "0000:01:00.0", "0000:02:00.0").0,
            PathKind::Sys
        );
    }

    #[track_caller]
    fn speed(devices: &[Device]) -> f64 {
        between(
            &Tree::new(devices),
            bdf("0000:03:00.0"),
            bdf("0000:07:00.0"),
        )
        .unwrap()
        .raw_gb_s
    }

    #[test]
    fn the_narrowest_link_decides() {
        let mut devices = switches();
        assert!((speed(&devices) - 31.508).abs() < 0.001);
        devices[7].link.as_mut().unwrap().width = 4;
        assert!(
            (speed(&devices) - 7.877).abs() < 0.001,
            "the inner switch's uplink"
        );
    }

    #[test]
    fn an_idle_link_counts_at_its_best_rate_and_the_slower_end_decides() {
        let mut devices = switches();
        devices[5].link.as_mut().unwrap().gts = 2.5;
        devices[2].link.as_mut().unwrap().gts = 2.5;
        assert!((speed(&devices) - 31.508).abs() < 0.001, "it is idle");
        devices[2].link.as_mut().unwrap().max_gts = 8.0;
        assert!(
            (speed(&devices) - 15.754).abs() < 0.001,
            "the port supports no more"
        );
    }

    #[test]
    fn a_link_beside_the_path_does_not_count() {
        let mut devices = switches();
        devices[1].link.as_mut().unwrap().width = 1;
        assert!(
            (speed(&devices) - 31.508).abs() < 0.001,
            "the outer switch's uplink is not crossed"
        );
    }

    #[test]
    fn a_link_that_is_down_or_an_end_that_is_gone_has_no_speed() {
        let mut devices = switches();
        devices[9].config.gone = true;
        assert!(speed(&devices).abs() < f64::EPSILON);
        let mut devices = switches();
        devices[8].link.as_mut().unwrap().width = 0;
        assert!(speed(&devices).abs() < f64::EPSILON);
    }

    #[test]
    fn every_unordered_pair_is_listed_once() {
        let devices = switches();
        let gpus = ["0000:03:00.0", "0000:04:00.0", "0000:07:00.0"].map(bdf);
        let nics = [bdf("0000:02:08.0")];
        assert_eq!(all(&Tree::new(&devices), &gpus, &nics).len(), 3 + 3);
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let mut devices = two_gpus();
        devices[0].parent = Some(bdf("0000:00:02.0"));
        devices[1].parent = Some(bdf("0000:00:01.0"));
        assert!(
            between(
                &Tree::new(&devices),
                bdf("0000:01:00.0"),
                bdf("0000:02:00.0")
            )
            .is_some()
        );
    }
}

#[cfg(test)]
mod near_tests {
    use super::super::model::{Kind, Rdma};
    use super::super::sample;
    use super::*;

    #[test]
    fn the_nearest_devices_have_the_shortest_path() {
        let mut devices = sample::two_gpus();
        let nic = |at: &str, parent| {
            let nic = sample::device(at, Kind::Endpoint, parent);
            super::super::model::Device {
                class: "0x020000".into(),
                ..nic
            }
        };
        let far = nic("0000:81:00.0", None);
        devices.push(nic("0000:01:00.1", Some("0000:00:01.0")));
        devices.push(super::super::model::Device {
            numa: Some(1),
            root_bus: Some("pci0000:80".into()),
            ..far
        });
        let mut fabric = sample::fabric(devices);
        let rdma = |name: &str, at| Rdma {
            name: name.into(),
            bdf: sample::bdf(at),
        };
        fabric.rdma = vec![
            rdma("mlx5_0", "0000:01:00.1"),
            rdma("mlx5_1", "0000:81:00.0"),
        ];
        let nic_paths = nic_paths(&fabric);
        assert_eq!(
            nic_paths[0].nearest(),
            Some((PathKind::Pix, vec!["mlx5_0"]))
        );
        assert_eq!(
            nic_paths[1].nearest(),
            Some((PathKind::Phb, vec!["mlx5_0"]))
        );
        assert_eq!(letters(nic_paths[1].to[1].1), "SYS");
        assert_eq!(
            NicPaths {
                gpu: nic_paths[0].gpu,
                to: vec![]
            }
            .nearest(),
            None
        );
    }
}
