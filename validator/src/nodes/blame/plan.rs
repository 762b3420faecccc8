//! Chooses the pairs of nodes that are measured at the same time.

use super::{Inference, Port};
use crate::schedule::circle;
use std::collections::BTreeMap;

/// The number of proven partners with which a suspect is tried again.
const RETRY_PARTNERS: usize = 3;

/// Pairs of nodes that are measured at the same time, on one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The rail.
    pub rail: usize,
    /// The pairs; no node is in two of them.
    pub pairs: Vec<(usize, usize)>,
}

/// Every pair of nodes on every rail: with N nodes, N-1 rounds for each rail, or N rounds if N is odd, because then one
/// node of each round has no partner. The rails take turns.
#[must_use]
pub fn rounds(nodes: usize, rails: usize) -> Vec<Round> {
    let pairs = circle(nodes).into_iter().filter(|round| !round.is_empty());
    let pairs = pairs.map(|round| {
        round
            .iter()
            .map(|pair| (pair.from.index(), pair.to.index()))
            .collect::<Vec<_>>()
    });
    pairs
        .flat_map(|pairs| {
            (0..rails).map(move |rail| Round {
                rail,
                pairs: pairs.clone(),
            })
        })
        .collect()
}

/// Rounds that try the suspects again, each with some proven partners of its rail. Empty if there are no suspects or
/// no proven ports.
#[must_use]
pub fn retry_rounds(inference: &Inference) -> Vec<Round> {
    let by_rail = |ports: &[Port]| {
        let mut rails = BTreeMap::<usize, Vec<usize>>::new();
        ports
            .iter()
            .for_each(|port| rails.entry(port.rail).or_default().push(port.node));
        rails
    };
    let proven = by_rail(&inference.proven);
    let mut rounds = Vec::new();
    for (rail, suspects) in by_rail(&inference.suspects) {
        let Some(proven) = proven.get(&rail) else {
            continue;
        };
        for suspects in suspects.chunks(proven.len()) {
            for turn in 0..RETRY_PARTNERS.min(proven.len()) {
                let partners = proven.iter().cycle().skip(turn);
                let pairs = suspects
                    .iter()
                    .zip(partners)
                    .map(|(a, b)| (*a.min(b), *a.max(b)));
                rounds.push(Round {
                    rail,
                    pairs: pairs.collect(),
                });
            }
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_pair_is_measured_once_on_each_rail_and_rails_take_turns() {
        for nodes in [2, 3, 4, 5, 8, 17, 64] {
            let all = rounds(nodes, 2);
            assert_eq!(
                all.len(),
                2 * if nodes % 2 == 0 { nodes - 1 } else { nodes },
                "{nodes}"
            );
            assert!(
                all.chunks(2)
                    .all(|two| two[0].rail == 0 && two[1].rail == 1)
            );
            let mut seen = BTreeSet::new();
            for round in &all {
                assert_eq!(round.pairs.len(), nodes / 2);
                let ends: BTreeSet<_> = round.pairs.iter().flat_map(|(a, b)| [a, b]).collect();
                assert_eq!(ends.len(), 2 * round.pairs.len());
                seen.extend(round.pairs.iter().map(|pair| (round.rail, *pair)));
            }
            assert_eq!(seen.len(), nodes * (nodes - 1));
        }
        assert!(rounds(1, 4).is_empty() && rounds(4, 0).is_empty());
    }

    #[test]
    fn suspects_meet_several_proven_partners_and_no_node_is_used_twice_at_a_time() {
        let port = |node| Port { node, rail: 1 };
        let inference = Inference {
            suspects: (0..5).map(port).collect(),
            proven: (5..8).map(port).collect(),
            ..Inference::default()
        };
        let all = retry_rounds(&inference);
        assert_eq!(all.len(), 6);
        for round in &all {
            let ends: BTreeSet<_> = round.pairs.iter().flat_map(|(a, b)| [a, b]).collect();
            assert_eq!((round.rail, ends.len()), (1, 2 * round.pairs.len()));
        }
        for suspect in 0..5 {
            let partners: BTreeSet<_> = all
                .iter()
                .flat_map(|r| &r.pairs)
                .filter(|(a, _)| *a == suspect)
                .map(|(_, b)| *b)
                .collect();
            assert_eq!(partners.len(), 3);
        }
        assert!(
            retry_rounds(&Inference {
                proven: Vec::new(),
                ..inference
            })
            .is_empty()
        );
    }
}
