//! Faults in the speeds of pairs, each with the figures that it is based on, which are measured again before the
//! fault counts. Pure.

use super::Basis;
use super::{LATENCY_CELL, Seen};
use crate::floors::{Carrier, Figures, Mover, asymmetric, contradicted, impossible, mover, outliers, pair};
use crate::outcome::finding::Finding;
use crate::schedule::Pair;

/// A finding, and the figures that it is based on: the matrix, and the pair in it.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) cells: Vec<(&'static str, Pair)>,
    pub(super) finding: Finding,
}

impl Doubt {
    fn of(cells: &[(&'static str, Pair)], finding: Finding) -> Self {
        Self { cells: cells.to_vec(), finding }
    }
}

const WRITES: Mover = Mover::WRITES;
const READS: Mover = Mover { kernel: false, read: true };
const KERNEL_WRITES: Mover = Mover { kernel: true, read: false };
const KERNEL_READS: Mover = Mover { kernel: true, read: true };
/// The matrices besides those of [`Figures`], how the data is moved, and, for matrices of both directions, the
/// matrix of one direction alone. The row's GPU acts.
const MOVERS: &[(&str, Mover, Option<&str>)] = &[
    ("sample.uni.on", WRITES, None),
    ("ce.read", READS, None),
    ("sm.write", KERNEL_WRITES, None),
    ("sm.read", KERNEL_READS, None),
    ("ce.bi.read", READS, Some("ce.read")),
    ("sm.bi.write", KERNEL_WRITES, Some("sm.write")),
    ("sm.bi.read", KERNEL_READS, Some("sm.read")),
];
/// In these, each pair is compared with others of its group.
const ALIKE: &[&str] = &[
    "sample.uni.on",
    "ce.write",
    "ce.read",
    "sm.write",
    "sm.read",
    "ce.bi.write",
    "ce.bi.read",
    "sm.bi.write",
    "sm.bi.read",
];
/// In these, no figure may exceed what the links carry, or twice that for both directions.
const ONE_WAY: &[&str] = &["sample.uni.on", "ce.write", "ce.read", "sm.write", "sm.read"];
const BOTH_WAYS: &[&str] = &["sample.bi.on", "ce.bi.write", "ce.bi.read", "sm.bi.write", "sm.bi.read"];

/// All faults.
pub(super) fn doubts(seen: &Seen, basis: &Basis<'_>) -> Vec<Doubt> {
    let pairs: Vec<_> = basis.pairs().filter(|pair| pair.from != pair.to).collect();
    let mut all: Vec<_> = pairs.iter().flat_map(|pair| beyond(seen, basis, *pair)).collect();
    all.extend(pairs.iter().flat_map(|pair| one(seen, basis, *pair)));
    all.extend(pairs.iter().filter(|p| p.from < p.to).flat_map(|pair| lopsided(seen, *pair)));
    all.extend(pairs.iter().flat_map(|pair| movers(seen, basis, *pair)));
    let known: Vec<_> = all.iter().flat_map(|doubt| doubt.cells.clone()).collect();
    let apart = ALIKE.iter().flat_map(|name| alike(seen, basis, name));
    all.extend(apart.filter(|doubt| !doubt.cells.iter().any(|cell| known.contains(cell))));
    all
}

/// What carries a pair's data. If the links carry more than they report, the report is not used for the floor.
fn carrier(seen: &Seen, basis: &Basis<'_>, pair: Pair) -> Carrier {
    let carrier = (basis.carrier)(pair);
    let moved = seen.grid.get("ce.write", pair).or_else(|| seen.grid.get("ce.write", pair.back()));
    let own = (basis.own)(pair).or_else(|| (basis.ceiling)(pair));
    match (carrier.raw(), moved, own) {
        (Some(raw), Some(moved), Some(own)) if moved > raw && own > raw => carrier.with_raw(own),
        _ => carrier,
    }
}

/// Figures above what the links can carry.
fn beyond(seen: &Seen, basis: &Basis<'_>, pair: Pair) -> Vec<Doubt> {
    let most = (basis.ceiling)(pair);
    let above = |(name, most): (&&'static str, Option<f64>)| {
        let finding = impossible(&pair, name, seen.grid.get(name, pair)?, most)?;
        Some(Doubt::of(&[(*name, pair)], finding))
    };
    let one = ONE_WAY.iter().map(|name| (name, most));
    let both = BOTH_WAYS.iter().map(|name| (name, most.map(|most| most * 2.0)));
    let mut all: Vec<_> = one.chain(both).filter_map(above).collect();
    if all.is_empty() {
        let moved = seen.grid.get("ce.write", pair);
        let contradiction = moved
            .and_then(|moved| contradicted(&pair, moved, (basis.carrier)(pair).raw(), (basis.own)(pair)));
        all.extend(contradiction.map(|finding| Doubt::of(&[], finding)));
    }
    all
}

/// Compares the copy engine's writes with the capability of the links. Pairs without a figure have another finding.
fn one(seen: &Seen, basis: &Basis<'_>, way: Pair) -> Vec<Doubt> {
    let figure = |name| seen.grid.get(name, way);
    let Some(one_way) = figure("ce.write") else { return Vec::new() };
    let figures = Figures {
        pair: way,
        carrier: carrier(seen, basis, way),
        one_way,
        off: figure("sample.uni.off"),
        both_ways: figure("ce.bi.write"),
        latency_us: seen.latency.get(LATENCY_CELL, way),
    };
    let cells = [("ce.write", way), ("ce.bi.write", way), (LATENCY_CELL, way)];
    pair(&figures, basis.least).into_iter().map(|finding| Doubt::of(&cells, finding)).collect()
}

/// Compares each engine's speed in one direction with the opposite direction: the path is the same. If the copy
/// engine's writes already show the fault, the others would only repeat it.
fn lopsided(seen: &Seen, pair: Pair) -> Vec<Doubt> {
    let one = |name: &'static str| {
        let figure = |pair| seen.grid.get(name, pair);
        let finding = asymmetric(pair, name, figure(pair)?, figure(pair.back())?)?;
        Some(Doubt::of(&[(name, pair), (name, pair.back())], finding))
    };
    let writes = one("ce.write");
    if writes.is_some() {
        return writes.into_iter().collect();
    }
    ONE_WAY.iter().filter_map(|name| one(name)).collect()
}

/// Compares every other engine and direction with its own floor; staged pairs are reported by their writes.
fn movers(seen: &Seen, basis: &Basis<'_>, pair: Pair) -> Vec<Doubt> {
    let carrier = carrier(seen, basis, pair);
    let low = |(name, by, alone): &(&'static str, Mover, Option<&str>)| {
        let gb_s = seen.grid.get(name, pair)?;
        let alone = alone.map(|alone| seen.grid.get(alone, pair));
        if alone == Some(None) {
            return None;
        }
        let finding = mover(pair, name, *by, &carrier, (gb_s, alone.flatten()))?;
        Some(Doubt::of(&[(*name, pair)], finding))
    };
    MOVERS.iter().filter_map(low).collect()
}

fn alike(seen: &Seen, basis: &Basis<'_>, name: &'static str) -> Vec<Doubt> {
    let all = seen.grid.all(name).filter(|(pair, _)| pair.from != pair.to);
    let all: Vec<_> = all.map(|(pair, gb_s)| (pair, gb_s, (basis.like)(pair))).collect();
    let doubt = |(pair, finding)| Doubt::of(&[(name, pair)], finding);
    outliers(name, &all).into_iter().map(doubt).collect()
}
