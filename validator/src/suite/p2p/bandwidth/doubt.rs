//! What is wrong with the speeds of pairs, each with the figures that it rests on: those are measured
//! again before it counts. Pure.

use super::asked::Asked;
use super::{LATENCY_CELL, Seen};
use crate::floors::{Carrier, Figures, Mover, asymmetric, contradicted, impossible, mover, outliers, pair};
use crate::outcome::finding::Finding;
use crate::schedule::Pair;

/// A finding, and the figures that it rests on: the matrix, and the pair in it.
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
/// Matrices beside those of [`Figures`], who moves the data, and the matrix of one direction alone where
/// it is of both. The row's GPU acts.
const MOVERS: &[(&str, Mover, Option<&str>)] = &[
    ("sample.uni.on", WRITES, None),
    ("ce.read", READS, None),
    ("sm.write", KERNEL_WRITES, None),
    ("sm.read", KERNEL_READS, None),
    ("ce.bi.read", READS, Some("ce.read")),
    ("sm.bi.write", KERNEL_WRITES, Some("sm.write")),
    ("sm.bi.read", KERNEL_READS, Some("sm.read")),
];
/// Of these one pair is held against others like it.
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
/// Of these no figure is above what the links carry, or twice that.
const ONE_WAY: &[&str] = &["sample.uni.on", "ce.write", "ce.read", "sm.write", "sm.read"];
const BOTH_WAYS: &[&str] = &["sample.bi.on", "ce.bi.write", "ce.bi.read", "sm.bi.write", "sm.bi.read"];

/// Everything that is wrong.
pub(super) fn doubts(seen: &Seen, asked: &Asked<'_>) -> Vec<Doubt> {
    let pairs: Vec<_> = asked.pairs().filter(|pair| pair.from != pair.to).collect();
    let mut all: Vec<_> = pairs.iter().flat_map(|pair| beyond(seen, asked, *pair)).collect();
    all.extend(pairs.iter().flat_map(|pair| one(seen, asked, *pair)));
    all.extend(pairs.iter().filter(|p| p.from < p.to).flat_map(|pair| lopsided(seen, *pair)));
    all.extend(pairs.iter().flat_map(|pair| movers(seen, asked, *pair)));
    let known: Vec<_> = all.iter().flat_map(|doubt| doubt.cells.clone()).collect();
    let apart = ALIKE.iter().flat_map(|name| alike(seen, asked, name));
    all.extend(apart.filter(|doubt| !doubt.cells.iter().any(|cell| known.contains(cell))));
    all
}

/// What carries a pair's data. Links that carry more than they say are not what sets the floor.
fn carrier(seen: &Seen, asked: &Asked<'_>, pair: Pair) -> Carrier {
    let carrier = (asked.carrier)(pair);
    let moved = seen.grid.get("ce.write", pair).or_else(|| seen.grid.get("ce.write", pair.back()));
    let own = (asked.own)(pair).or_else(|| (asked.ceiling)(pair));
    match (carrier.raw(), moved, own) {
        (Some(raw), Some(moved), Some(own)) if moved > raw && own > raw => carrier.with_raw(own),
        _ => carrier,
    }
}

/// More than the links can.
fn beyond(seen: &Seen, asked: &Asked<'_>, pair: Pair) -> Vec<Doubt> {
    let most = (asked.ceiling)(pair);
    let above = |(name, most): (&&'static str, Option<f64>)| {
        let finding = impossible(&pair, name, seen.grid.get(name, pair)?, most)?;
        Some(Doubt::of(&[(*name, pair)], finding))
    };
    let one = ONE_WAY.iter().map(|name| (name, most));
    let both = BOTH_WAYS.iter().map(|name| (name, most.map(|most| most * 2.0)));
    let mut all: Vec<_> = one.chain(both).filter_map(above).collect();
    if all.is_empty() {
        let moved = seen.grid.get("ce.write", pair);
        let told = moved
            .and_then(|moved| contradicted(&pair, moved, (asked.carrier)(pair).raw(), (asked.own)(pair)));
        all.extend(told.map(|finding| Doubt::of(&[], finding)));
    }
    all
}

/// The copy engine's writes against what carries them. Pairs without a figure have a finding of their own.
fn one(seen: &Seen, asked: &Asked<'_>, way: Pair) -> Vec<Doubt> {
    let figure = |name| seen.grid.get(name, way);
    let Some(one_way) = figure("ce.write") else { return Vec::new() };
    let figures = Figures {
        pair: way,
        carrier: carrier(seen, asked, way),
        one_way,
        off: figure("sample.uni.off"),
        both_ways: figure("ce.bi.write"),
        latency_us: seen.latency.get(LATENCY_CELL, way),
    };
    let cells = [("ce.write", way), ("ce.bi.write", way), (LATENCY_CELL, way)];
    pair(&figures, asked.least).into_iter().map(|finding| Doubt::of(&cells, finding)).collect()
}

/// Each engine and direction there against back: whatever the way, it is the same both times. Where writes of the
/// copy engine show it already, the others would say it again.
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

/// Every other engine and direction against its own floor; staged pairs are told by their writes.
fn movers(seen: &Seen, asked: &Asked<'_>, pair: Pair) -> Vec<Doubt> {
    let carrier = carrier(seen, asked, pair);
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

fn alike(seen: &Seen, asked: &Asked<'_>, name: &'static str) -> Vec<Doubt> {
    let all = seen.grid.all(name).filter(|(pair, _)| pair.from != pair.to);
    let all: Vec<_> = all.map(|(pair, gb_s)| (pair, gb_s, (asked.like)(pair))).collect();
    let doubt = |(pair, finding)| Doubt::of(&[(name, pair)], finding);
    outliers(name, &all).into_iter().map(doubt).collect()
}
