//! Faults in the speeds of pairs, each with the figures that it is based on, which are measured again before the
//! fault counts. Pure.

use super::Basis;
use super::{LATENCY_CELL, Results};
use crate::floors::{
    Carrier, Mover, PairFigures, asymmetric, basis_of_both, contradicted_link, impossible_speed, outliers,
    pair_findings, slow_mover,
};
use crate::schedule::Pair;
use outcome::finding::Finding;

/// A finding, and the figures that it is based on: the matrix, and the pair in it.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) cells: Vec<(&'static str, Pair)>,
    pub(super) finding: Finding,
}

impl Suspect {
    fn of(cells: &[(&'static str, Pair)], finding: Finding) -> Self {
        Self { cells: cells.to_vec(), finding }
    }
}

const WRITES: Mover = Mover::WRITES;
const READS: Mover = Mover { kernel: false, read: true };
const KERNEL_WRITES: Mover = Mover { kernel: true, read: false };
const KERNEL_READS: Mover = Mover { kernel: true, read: true };
/// The matrices besides those of [`PairFigures`], how the data is moved, and, for matrices of both directions, the
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
/// The matrices in which each pair is compared with others of its path group.
const COMPARED_IN_GROUP: &[&str] = &[
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
/// Each matrix of both directions at once, and that of one direction alone.
const ALONE: &[(&str, &str)] =
    &[("ce.bi.write", "ce.write"), ("ce.bi.read", "ce.read"), ("sm.bi.write", "sm.write"), ("sm.bi.read", "sm.read")];
/// Matrices of one direction, and of both: no figure may exceed what the links carry, or twice that for both.
const ONE_WAY: &[&str] = &["sample.uni.on", "ce.write", "ce.read", "sm.write", "sm.read"];
const BOTH_WAYS: &[&str] = &["sample.bi.on", "ce.bi.write", "ce.bi.read", "sm.bi.write", "sm.bi.read"];

/// All faults, each with the figures that it is based on.
pub(super) fn suspects(results: &Results, basis: &Basis<'_>) -> Vec<Suspect> {
    let pairs: Vec<_> = basis.pairs().filter(|pair| pair.from != pair.to).collect();
    let mut all: Vec<_> = pairs.iter().flat_map(|pair| above_ceiling(results, basis, *pair)).collect();
    all.extend(pairs.iter().flat_map(|pair| below_floor(results, basis, *pair)));
    all.extend(pairs.iter().filter(|p| p.from < p.to).flat_map(|pair| asymmetric_engines(results, *pair)));
    all.extend(pairs.iter().flat_map(|pair| slow_engines(results, basis, *pair)));
    let known: Vec<_> = all.iter().flat_map(|suspect| suspect.cells.clone()).collect();
    // If one direction alone is slow, both at once are too, which is no fault of the other direction.
    let explained = |(name, pair): &(&'static str, Pair)| {
        let alone = ALONE.iter().find(|(both, _)| both == name);
        known.contains(&(name, *pair)) || alone.is_some_and(|(_, alone)| known.contains(&(alone, pair.back())))
    };
    let outliers_found = COMPARED_IN_GROUP.iter().flat_map(|name| group_outliers(results, basis, name));
    all.extend(outliers_found.filter(|suspect| !suspect.cells.iter().any(explained)));
    all
}

/// What carries a pair's data. If the links carry more than they report, the report is not used for the floor.
fn carrier(results: &Results, basis: &Basis<'_>, pair: Pair) -> Carrier {
    let carrier = (basis.carrier)(pair);
    let moved = results.grid.get("ce.write", pair).or_else(|| results.grid.get("ce.write", pair.back()));
    let own = (basis.own)(pair).or_else(|| (basis.ceiling)(pair));
    match (carrier.raw(), moved, own) {
        (Some(raw), Some(moved), Some(own)) if moved > raw && own > raw => carrier.with_raw(own),
        _ => carrier,
    }
}

/// Figures above what the links can carry.
fn above_ceiling(results: &Results, basis: &Basis<'_>, pair: Pair) -> Vec<Suspect> {
    let most = (basis.ceiling)(pair);
    let above = |(name, most): (&&'static str, Option<f64>)| {
        let finding = impossible_speed(pair, name, results.grid.get(name, pair)?, most)?;
        Some(Suspect::of(&[(*name, pair)], finding))
    };
    let one = ONE_WAY.iter().map(|name| (name, most));
    let both = BOTH_WAYS.iter().map(|name| (name, most.map(|most| most * 2.0)));
    let mut all: Vec<_> = one.chain(both).filter_map(above).collect();
    if all.is_empty() {
        let moved = results.grid.get("ce.write", pair);
        let contradiction =
            moved.and_then(|moved| contradicted_link(pair, moved, (basis.carrier)(pair).raw(), (basis.own)(pair)));
        all.extend(contradiction.map(|finding| Suspect::of(&[], finding)));
    }
    all
}

/// Compares the copy engine's writes with the capability of the links. Pairs without a figure have another finding.
fn below_floor(results: &Results, basis: &Basis<'_>, pair: Pair) -> Vec<Suspect> {
    let figure = |name| results.grid.get(name, pair);
    let Some(one_way) = figure("ce.write") else { return Vec::new() };
    let figures = PairFigures {
        pair,
        carrier: carrier(results, basis, pair),
        one_way,
        back: results.grid.get("ce.write", pair.back()),
        off: figure("sample.uni.off"),
        both_ways: figure("ce.bi.write"),
        latency_us: results.latency.get(LATENCY_CELL, pair),
    };
    let cells = [("ce.write", pair), ("ce.bi.write", pair), (LATENCY_CELL, pair)];
    pair_findings(&figures, basis.least).into_iter().map(|finding| Suspect::of(&cells, finding)).collect()
}

/// Compares each engine's speed in one direction with the opposite direction: the path is the same. If the copy
/// engine's writes already show the fault, the others would only repeat it.
fn asymmetric_engines(results: &Results, pair: Pair) -> Vec<Suspect> {
    let compare = |name: &'static str| {
        let figure = |pair| results.grid.get(name, pair);
        let finding = asymmetric(pair, name, figure(pair)?, figure(pair.back())?)?;
        Some(Suspect::of(&[(name, pair), (name, pair.back())], finding))
    };
    let writes = compare("ce.write");
    if writes.is_some() {
        return writes.into_iter().collect();
    }
    ONE_WAY.iter().filter_map(|name| compare(name)).collect()
}

/// Compares every other engine and direction with its own floor; staged pairs are reported by their writes.
fn slow_engines(results: &Results, basis: &Basis<'_>, pair: Pair) -> Vec<Suspect> {
    let carrier = carrier(results, basis, pair);
    let low = |(name, by, alone): &(&'static str, Mover, Option<&str>)| {
        let gb_s = results.grid.get(name, pair)?;
        let basis = match alone {
            None => None,
            Some(alone) => {
                let (one_way, back) = (results.grid.get(alone, pair)?, results.grid.get(alone, pair.back()));
                Some(basis_of_both(&carrier, *by, one_way, back)?)
            }
        };
        let finding = slow_mover(pair, name, *by, &carrier, (gb_s, basis))?;
        Some(Suspect::of(&[(*name, pair)], finding))
    };
    MOVERS.iter().filter_map(low).collect()
}

fn group_outliers(results: &Results, basis: &Basis<'_>, name: &'static str) -> Vec<Suspect> {
    let all = results.grid.all(name).filter(|(pair, _)| pair.from != pair.to);
    let all: Vec<_> = all.map(|(pair, gb_s)| (pair, gb_s, (basis.path_group)(pair))).collect();
    let suspect = |(pair, finding)| Suspect::of(&[(name, pair)], finding);
    outliers(name, &all).into_iter().map(suspect).collect()
}
