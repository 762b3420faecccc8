//! The way between two functions: which bridges traffic crosses, how far that is in the letters
//! of `nvidia-smi topo -m`, and what the narrowest link on it can carry. Pure.

use super::link::raw_gb_s;
use super::model::{Bdf, Device, Kind, Link, Path, PathKind};
use super::tree::Tree;

/// The way from `a` to `b`; `None` when either is not in the tree.
#[must_use]
pub fn between(tree: &Tree, a: Bdf, b: Bdf) -> Option<Path> {
    let (from, to) = (tree.get(a)?, tree.get(b)?);
    let (kind, ports) = route(tree, from, to);
    let raw_gb_s = narrowest(from, to, &ports);
    Some(Path { a, b, kind, ports: ports.iter().map(|p| p.bdf).collect(), raw_gb_s })
}

/// Every unordered GPU-GPU pair, then every GPU-NIC pair.
#[must_use]
pub fn all(tree: &Tree, gpus: &[Bdf], nics: &[Bdf]) -> Vec<Path> {
    let peers = gpus.iter().enumerate().flat_map(|(n, a)| gpus.iter().skip(n + 1).map(move |b| (*a, *b)));
    let network = gpus.iter().flat_map(|a| nics.iter().map(move |b| (*a, *b)));
    peers.chain(network).filter_map(|(a, b)| between(tree, a, b)).collect()
}

fn route<'a>(tree: &Tree<'a>, from: &'a Device, to: &'a Device) -> (PathKind, Vec<&'a Device>) {
    if same_slot(from.bdf, to.bdf) {
        return (PathKind::Pix, Vec::new());
    }
    let (up, down) = (tree.above(from.bdf), tree.above(to.bdf));
    let turn = up.iter().find(|u| down.iter().any(|d| d.bdf == u.bdf)).copied();
    let until_turn = |chain: Vec<&'a Device>| -> Vec<&'a Device> {
        chain.into_iter().take_while(|d| turn.is_none_or(|t| t.bdf != d.bdf)).collect()
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

/// Functions of one card reach each other inside of it.
fn same_slot(a: Bdf, b: Bdf) -> bool {
    (a.domain, a.bus, a.device) == (b.domain, b.bus, b.device)
}

/// A switch is counted at its upstream port, wherever the way enters, leaves or turns in it; a
/// bridge of another kind counts for itself.
fn switches(ports: &[&Device], turn: &Device) -> usize {
    let counts = |d: &&Device| matches!(d.kind, Kind::Upstream | Kind::Bridge | Kind::Other);
    ports.iter().copied().chain([turn]).filter(counts).count()
}

/// How far apart two functions are that share no bridge. A machine whose firmware names no NUMA
/// node has one; functions of which only one has a node are taken to be far apart.
fn apart(from: &Device, to: &Device) -> PathKind {
    if from.root_bus.is_some() && from.root_bus == to.root_bus {
        PathKind::Phb
    } else if from.numa == to.numa {
        PathKind::Node
    } else {
        PathKind::Sys
    }
}

/// GB/s of the narrowest link, to the MB/s: a number that JSON keeps. A link is seen at both of its ends, so
/// that the slower end decides. Lanes are counted as they are; the rate is the fastest, because links that have
/// nothing to do are slowed down.
fn narrowest(from: &Device, to: &Device, ports: &[&Device]) -> f64 {
    if from.config.gone || to.config.gone {
        return 0.0;
    }
    let can = |link: &Link| if link.gts > 0.0 { raw_gb_s(link.max_gts, link.width) } else { 0.0 };
    let links = ports.iter().copied().chain([from, to]).filter_map(|d| d.link.as_ref());
    let narrowest = links.map(can).reduce(f64::min).unwrap_or(0.0);
    (narrowest * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
