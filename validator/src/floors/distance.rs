//! Groups of pairs against each other: GPUs that are near each other reach at least what GPUs farther apart reach. Where
//! they do not, their data takes a detour, which a comparison within one group cannot show.

use super::rounded;
use crate::schedule::Pair;
use machine::pcie::model::PathKind;
use machine::pcie::topo::Cell;
use outcome::finding::{Code, Finding, Severity, Subject};
use report::stats::median;
use std::collections::BTreeMap;

/// A nearer group reaches at least this fraction of what a farther one does: comparable pairs of a healthy machine
/// differ by 9 %.
const NEARER: f64 = 0.9;
/// Below this multiple of a farther group, pairs of different NUMA nodes are as slow as those.
const ALIKE: f64 = 1.05;
/// This fraction of the links' rate is full speed, which near and far pairs may both have: the floor of near pairs.
const FULL: f64 = 0.75;

/// How far apart two GPUs are over PCIe: nearer is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    /// By the bridges and nodes between them.
    pub kind: PathKind,
    /// The kernel's distance of their NUMA nodes; `None` where unknown.
    pub nodes: Option<u32>,
}

/// The speed of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathFigure {
    /// The sender and the receiver.
    pub pair: Pair,
    /// How far apart they are.
    pub distance: Distance,
    /// GB/s.
    pub gb_s: f64,
    /// What the narrowest link between them carries, GB/s.
    pub raw: f64,
}

/// Groups of near pairs that are no faster than a group of pairs farther apart, each with its pairs. The speeds count as
/// fractions of what the links carry, so that narrow slots make no difference.
#[must_use]
pub fn near_no_faster(all: &[PathFigure]) -> Vec<(Vec<Pair>, Finding)> {
    let mut groups: BTreeMap<Distance, Vec<&PathFigure>> = BTreeMap::new();
    for figure in all
        .iter()
        .filter(|figure| figure.raw > 0.0 && figure.gb_s.is_finite())
    {
        groups.entry(figure.distance).or_default().push(figure);
    }
    let middle = |group: &[&PathFigure], of: fn(&PathFigure) -> f64| {
        median(&group.iter().map(|figure| of(figure)).collect::<Vec<_>>()).ok()
    };
    let part = |group: &[&PathFigure]| middle(group, |figure| figure.gb_s / figure.raw);
    let one = |(near, group): (&Distance, &Vec<&PathFigure>)| {
        let own = part(group)?;
        let farther = groups.iter().filter(|(far, _)| is_farther(**far, *near));
        let (far, far_part, least) = farther
            .filter_map(|(far, others)| {
                let far_part = part(others)?;
                let nodes_only = near.kind == PathKind::Sys && far.kind == PathKind::Sys;
                let least = if nodes_only {
                    (far_part * ALIKE).min(FULL)
                } else {
                    0.0
                };
                Some((far, far_part, least.max(far_part * NEARER)))
            })
            .max_by(|a, b| a.2.total_cmp(&b.2))?;
        if own >= least {
            return None;
        }
        let (gb_s, raw) = (middle(group, |f| f.gb_s)?, middle(group, |f| f.raw)?);
        let expected = least * raw;
        let message = format!(
            "{} near pairs ({}) move {gb_s:.2} GB/s, {own:.2} of what their links carry, expected at least \
             {expected:.2} GB/s: pairs farther apart ({}) move {far_part:.2} of it",
            group.len(),
            words(*near),
            words(*far)
        );
        let finding = Code::P2pSlow.finding(Severity::Warn, Subject::Machine, message);
        let lines = group
            .iter()
            .map(|f| format!("{}: {:.2} GB/s", f.pair, f.gb_s))
            .collect();
        let finding = finding
            .values(rounded(gb_s), rounded(expected), Some("GB/s"))
            .seen_all(lines);
        Some((group.iter().map(|figure| figure.pair).collect(), finding))
    };
    groups.iter().filter_map(one).collect()
}

/// Whether `far` is certainly farther than `near`: an unknown distance of nodes says nothing.
fn is_farther(far: Distance, near: Distance) -> bool {
    far.kind > near.kind
        || far.kind == near.kind
            && far
                .nodes
                .zip(near.nodes)
                .is_some_and(|(far, near)| far > near)
}

/// `SYS at distance 12`
fn words(distance: Distance) -> String {
    let nodes = distance
        .nodes
        .map_or(String::new(), |nodes| format!(" at distance {nodes}"));
    format!("{}{nodes}", Cell::Pcie(distance.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: PathKind, nodes: u32, gb_s: f64, raw: f64) -> Vec<PathFigure> {
        let distance = Distance {
            kind,
            nodes: Some(nodes),
        };
        let one = |to: usize| PathFigure {
            pair: Pair::of(0, to),
            distance,
            gb_s,
            raw,
        };
        (1..4).map(one).collect()
    }

    fn found(near: (PathKind, u32, f64), far: (PathKind, u32, f64)) -> usize {
        let of = |(kind, nodes, gb_s)| group(kind, nodes, gb_s, 31.5);
        near_no_faster(&[of(near), of(far)].concat()).len()
    }

    #[test]
    fn near_pairs_as_slow_as_far_ones_are_one_finding_with_their_pairs() {
        use PathKind::Sys;
        let all = [group(Sys, 12, 21.5, 31.5), group(Sys, 32, 21.4, 31.5)].concat();
        let found = near_no_faster(&all);
        assert_eq!(
            (found.len(), found[0].0.len(), found[0].1.severity),
            (1, 3, Severity::Warn)
        );
        assert!(
            found[0].1.message.starts_with(
                "3 near pairs (SYS at distance 12) move 21.50 GB/s, 0.68 of what their links carry, expected at least \
                 22.47 GB/s: pairs farther apart (SYS at distance 32)"
            ),
            "{}",
            found[0].1.message
        );
    }

    #[test]
    fn near_pairs_below_far_ones_are_found_whatever_the_path() {
        assert_eq!(
            found((PathKind::Pix, 10, 23.7), (PathKind::Phb, 10, 26.5)),
            1
        );
        assert_eq!(
            found((PathKind::Phb, 10, 24.5), (PathKind::Sys, 32, 26.0)),
            0,
            "healthy pairs differ as much"
        );
    }

    #[test]
    fn full_speed_everywhere_and_usual_differences_are_silent() {
        use PathKind::{Node, Phb, Sys};
        assert_eq!(found((Sys, 12, 25.7), (Sys, 32, 21.5)), 0);
        assert_eq!(
            found((Sys, 12, 25.7), (Sys, 32, 25.8)),
            0,
            "the GPUs' links limit both"
        );
        assert_eq!(found((Node, 10, 25.7), (Phb, 10, 25.8)), 0);
        // An x8 slot: half of the speed, and the same part of what its links carry.
        let mixed = [group(Sys, 12, 12.9, 15.75), group(Sys, 32, 21.5, 31.5)].concat();
        assert_eq!(near_no_faster(&mixed), []);
        let unknown = [group(Sys, 12, 12.9, 0.0), group(Sys, 32, 21.5, 31.5)].concat();
        assert_eq!(near_no_faster(&unknown), []);
    }
}
