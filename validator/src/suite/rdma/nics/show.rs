//! What the report shows about network cards: the lines of `ibdev2netdev`, every port with its state, rate
//! and address, and the distance from every GPU to every card.

use machine::GpuId;
use machine::host::rdma::{Hca, Port};
use machine::pcie::path::{NicPaths, letters};
use outcome::table::{
    self, GpuWithAddress, Ibdev2netdevRow, NearestCards, NicPathRow, PortRow, Table,
};
use std::collections::BTreeMap;

/// `2 of 4 ports ACTIVE: mlx5_0 100 Gb/s; GPUs to their nearest: 1 PHB, 7 SYS`
pub(super) fn summary(ports: &[(&Hca, &Port)], nic_paths: &[NicPaths]) -> String {
    let active: Vec<_> = ports.iter().filter(|(_, port)| port.is_active()).collect();
    let names = active
        .iter()
        .map(|(hca, port)| format!("{} {} Gb/s", hca.name, port.rate.gbit_s));
    let names = names.collect::<Vec<_>>().join(", ");
    let mut counts = BTreeMap::new();
    for (kind, _) in nic_paths.iter().filter_map(NicPaths::nearest) {
        *counts.entry(kind).or_insert(0) += 1;
    }
    let nearest: Vec<_> = counts
        .into_iter()
        .map(|(kind, n)| format!("{n} {}", letters(kind)))
        .collect();
    let mut text = format!("{} of {} ports ACTIVE", active.len(), ports.len());
    if !active.is_empty() {
        text += &format!(": {names}");
    }
    if !nearest.is_empty() {
        text += &format!("; GPUs to their nearest card: {}", nearest.join(", "));
    }
    text
}

/// In the format of `ibdev2netdev`.
pub(super) fn ibdev2netdev(hcas: &[Hca]) -> Table {
    Table::Ibdev2netdev(
        hcas.iter()
            .flat_map(Hca::ibdev2netdev)
            .map(|line| Ibdev2netdevRow { line })
            .collect(),
    )
}

pub(super) fn ports(ports: &[(&Hca, &Port)]) -> Table {
    let row = |(hca, port): &(&Hca, &Port)| {
        let (netdev, gid) = (port.netdev.as_ref(), port.roce_v2_ipv4());
        PortRow {
            device: hca.name.clone(),
            port: port.number,
            state: port.state.to_string(),
            physical: port.physical.clone(),
            layer: port.layer.clone(),
            rate: port.rate.gbit_s,
            lanes: port.rate.lanes,
            interface: netdev.map(|n| n.name.clone()),
            interface_state: netdev.map(|n| n.operstate.clone()),
            interface_mbit_s: netdev.and_then(|n| n.mbit_s),
            gid_index: gid.map(|g| g.index),
            address: gid.and_then(|g| g.ipv4),
        }
    };
    Table::Ports(ports.iter().map(row).collect())
}

/// A row for each GPU: the distance letters to every card, then the nearest.
pub(super) fn nic_paths(hcas: &[Hca], nic_paths: &[NicPaths]) -> Table {
    let row = |(gpu, nic_paths): (GpuId, &NicPaths)| {
        let to = |hca: &Hca| {
            nic_paths
                .to
                .iter()
                .find(|(name, _)| *name == hca.name)
                .map(|(_, kind)| letters(*kind))
        };
        let nearest = nic_paths.nearest();
        NicPathRow {
            gpu: GpuWithAddress {
                gpu,
                address: nic_paths.gpu,
            },
            to: hcas.iter().map(to).collect(),
            nearest: NearestCards {
                distance: nearest.as_ref().map(|(kind, _)| letters(*kind)),
                cards: nearest.map(|(_, names)| names.join(" ")),
            },
        }
    };
    let cards = hcas.iter().map(|hca| hca.name.clone()).collect();
    Table::NicPaths(Box::new(table::NicPaths {
        cards,
        rows: GpuId::each(nic_paths).map(row).collect(),
    }))
}
