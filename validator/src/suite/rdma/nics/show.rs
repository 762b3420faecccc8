//! What the report shows about network cards: the lines of `ibdev2netdev`, every port with its state, rate
//! and address, and the distance from every GPU to every card.

use crate::suite::benchmark::table;
use machine::host::rdma::{Hca, Port};
use machine::pcie::path::{NicPaths, letters};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `2 of 4 ports ACTIVE: mlx5_0 100 Gb/s; GPUs to their nearest: 1 PHB, 7 SYS`
pub(super) fn summary(ports: &[(&Hca, &Port)], nic_paths: &[NicPaths]) -> String {
    let active: Vec<_> = ports.iter().filter(|(_, port)| port.is_active()).collect();
    let names = active.iter().map(|(hca, port)| format!("{} {} Gb/s", hca.name, port.rate.gbit_s));
    let names = names.collect::<Vec<_>>().join(", ");
    let mut counts = BTreeMap::new();
    for (kind, _) in nic_paths.iter().filter_map(NicPaths::nearest) {
        *counts.entry(kind).or_insert(0) += 1;
    }
    let nearest: Vec<_> = counts.into_iter().map(|(kind, n)| format!("{n} {}", letters(kind))).collect();
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
pub(super) fn ibdev2netdev(hcas: &[Hca]) -> Value {
    let rows: Vec<_> = hcas.iter().flat_map(Hca::ibdev2netdev).map(|line| vec![json!(line)]).collect();
    table("ibdev2netdev", &[("line", "")], &rows)
}

pub(super) fn ports(ports: &[(&Hca, &Port)]) -> Value {
    let columns = [
        ("device", ""),
        ("port", ""),
        ("state", ""),
        ("physical state", ""),
        ("link layer", ""),
        ("rate", "Gb/s"),
        ("lanes", ""),
        ("interface", ""),
        ("interface state", ""),
        ("interface speed", "Mb/s"),
        ("RoCE v2 IPv4 GID index", ""),
        ("RoCE v2 IPv4 address", ""),
    ];
    let row = |(hca, port): &(&Hca, &Port)| {
        let (netdev, gid) = (port.netdev.as_ref(), port.roce_v2_ipv4());
        vec![
            json!(hca.name),
            json!(port.number),
            json!(port.state.to_string()),
            json!(port.physical),
            json!(port.layer),
            json!(port.rate.gbit_s),
            json!(port.rate.lanes),
            json!(netdev.map(|n| &n.name)),
            json!(netdev.map(|n| &n.operstate)),
            json!(netdev.and_then(|n| n.mbit_s)),
            json!(gid.map(|g| g.index)),
            json!(gid.and_then(|g| g.ipv4).map(|a| a.to_string())),
        ]
    };
    table("rdma ports", &columns, &ports.iter().map(row).collect::<Vec<_>>())
}

/// A row for each GPU: the distance letters to every card, then the nearest.
pub(super) fn nic_paths(hcas: &[Hca], nic_paths: &[NicPaths]) -> Value {
    let mut columns = vec![("GPU", ""), ("address", "")];
    columns.extend(hcas.iter().map(|hca| (hca.name.as_str(), "")));
    columns.extend([("nearest", ""), ("nearest cards", "")]);
    let row = |(n, nic_paths): (usize, &NicPaths)| {
        let to = |hca: &Hca| nic_paths.to.iter().find(|(name, _)| *name == hca.name).map(|(_, kind)| letters(*kind));
        let nearest = nic_paths.nearest();
        let mut row = vec![json!(n), json!(nic_paths.gpu)];
        row.extend(hcas.iter().map(|hca| json!(to(hca))));
        row.push(json!(nearest.as_ref().map(|(kind, _)| letters(*kind))));
        row.push(json!(nearest.map(|(_, names)| names.join(" "))));
        row
    };
    table("GPU to network card", &columns, &nic_paths.iter().enumerate().map(row).collect::<Vec<_>>())
}
