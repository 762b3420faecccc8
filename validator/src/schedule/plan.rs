//! The plan: rounds of transfers that share no resource, made by first-fit in the order of the circle method,
//! and the resources that keep pairs from running together. The same topology always gives the same plan.

use super::{Pair, Resource, Routes};
use machine::pcie::model::Bdf;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Which pairs run together, and what prevents more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The GPUs' addresses by number.
    pub gpus: Vec<Bdf>,
    /// Whether every pair occurs once for each direction.
    pub ordered: bool,
    /// One after the other; the pairs of one round run at the same time.
    pub rounds: Vec<Vec<Pair>>,
    /// Resources that pairs of different GPUs share, so that they cannot run together, the most shared first.
    pub shared: Vec<Shared>,
}

/// One resource that pairs of different GPUs share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shared {
    /// The resource.
    pub resource: Resource,
    /// How many pairs of the plan use it: the plan has at least as many rounds.
    pub pairs: usize,
}

impl Plan {
    /// Every direction of every pair is a separate transfer.
    #[must_use]
    pub fn ordered(routes: &Routes) -> Self {
        // A GPU is occupied whether it sends or receives, so the two directions of a matching are two
        // matchings.
        let both = |round: Vec<Pair>| [round.clone(), round.into_iter().map(Pair::back).collect()];
        let offers = circle(routes.gpus().len())
            .into_iter()
            .flat_map(both)
            .flatten();
        Self::first_fit(routes, true, offers)
    }

    /// Every pair is one transfer, in both directions at once.
    #[must_use]
    pub fn unordered(routes: &Routes) -> Self {
        Self::first_fit(
            routes,
            false,
            circle(routes.gpus().len()).into_iter().flatten(),
        )
    }

    fn first_fit(routes: &Routes, ordered: bool, offers: impl Iterator<Item = Pair>) -> Self {
        let ids = ResourceIds::of(routes);
        let mut rounds: Vec<Round> = Vec::new();
        for pair in offers {
            let needs = ids.set_of(routes, pair);
            match rounds.iter_mut().find(|round| round.is_free(&needs)) {
                Some(round) => round.take(pair, &needs),
                None => rounds.push(Round {
                    pairs: vec![pair],
                    used: needs,
                }),
            }
        }
        let rounds = rounds.into_iter().map(Round::sorted).collect();
        Self {
            gpus: routes.gpus().to_vec(),
            ordered,
            rounds,
            shared: shared(routes, ordered),
        }
    }

    /// The number of transfers.
    #[must_use]
    pub fn transfers(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }
}

/// A number for each resource, so that a set of resources is a bit set of a few words.
struct ResourceIds<'a>(BTreeMap<&'a Resource, usize>);

/// A set of resources by their numbers, 64 to a word.
type ResourceSet = Vec<u64>;

impl<'a> ResourceIds<'a> {
    fn of(routes: &'a Routes) -> Self {
        let all: BTreeSet<_> = routes.all().flat_map(|r| &r.resources).collect();
        Self(all.into_iter().zip(0..).collect())
    }

    fn set_of(&self, routes: &Routes, pair: Pair) -> ResourceSet {
        let mut bits = vec![0; self.0.len().div_ceil(64)];
        let resources = routes.get(pair).into_iter().flat_map(|r| &r.resources);
        for id in resources.filter_map(|r| self.0.get(r)) {
            if let Some(word) = bits.get_mut(id / 64) {
                *word |= 1_u64 << (id % 64);
            }
        }
        bits
    }
}

/// A round under construction.
struct Round {
    pairs: Vec<Pair>,
    used: ResourceSet,
}

impl Round {
    fn is_free(&self, needs: &ResourceSet) -> bool {
        self.used
            .iter()
            .zip(needs)
            .all(|(used, need)| used & need == 0)
    }

    fn take(&mut self, pair: Pair, needs: &ResourceSet) {
        self.pairs.push(pair);
        self.used
            .iter_mut()
            .zip(needs)
            .for_each(|(used, need)| *used |= need);
    }

    fn sorted(mut self) -> Vec<Pair> {
        self.pairs.sort_unstable();
        self.pairs
    }
}

/// All resources except the GPUs themselves that two pairs without a common GPU both use.
fn shared(routes: &Routes, ordered: bool) -> Vec<Shared> {
    let mut users: BTreeMap<&Resource, (usize, BTreeSet<&Resource>)> = BTreeMap::new();
    let is_gpu = |r: &&Resource| matches!(r, Resource::Gpu(_));
    for route in routes.all() {
        let gpus = || route.resources.iter().filter(is_gpu);
        for resource in route.resources.iter().filter(|r| !is_gpu(r)) {
            let (pairs, ends) = users.entry(resource).or_default();
            *pairs += if ordered { 2 } else { 1 };
            ends.extend(gpus());
        }
    }
    // A port above one GPU is used by many pairs, which already cannot run together because of that GPU:
    // there are k - 1 pairs of k GPUs with one in common.
    let matters = |pairs: usize, ends: usize| pairs > (ends - 1) * if ordered { 2 } else { 1 };
    let mut shared: Vec<_> = users
        .into_iter()
        .filter(|(_, (pairs, ends))| !ends.is_empty() && matters(*pairs, ends.len()))
        .map(|(resource, (pairs, _))| Shared {
            resource: resource.clone(),
            pairs,
        })
        .collect();
    shared.sort_by(|a, b| {
        b.pairs
            .cmp(&a.pairs)
            .then_with(|| a.resource.cmp(&b.resource))
    });
    shared
}

/// Every unordered pair of `gpus` GPUs, smaller number first, one tournament round after the other: the circle method of
/// round-robin tournaments. Its rounds are perfect matchings, so that first-fit reaches the bound where only the GPUs
/// themselves are shared: N-1 rounds for even N, N for odd N.
pub(crate) fn circle(gpus: usize) -> Vec<Vec<Pair>> {
    // One GPU keeps its seat and the others move around it by one seat a round; with an odd number an empty
    // seat is kept.
    let Some(seats) = gpus
        .checked_next_multiple_of(2)
        .and_then(|m| m.checked_sub(1))
    else {
        return Vec::new();
    };
    (0..seats)
        .map(|round| matching(gpus, seats, round))
        .collect()
}

fn matching(gpus: usize, seats: usize, round: usize) -> Vec<Pair> {
    let facing = |k: usize| Pair::of((round + k) % seats, (round + seats - k) % seats);
    let still = Pair::of(round, seats);
    let pairs = std::iter::once(still).chain((1..=seats / 2).map(facing));
    pairs
        .map(Pair::sorted)
        .filter(|p| p.to.index() < gpus)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_round_is_a_matching_and_together_they_are_all_pairs() {
        for gpus in 2..=17 {
            let rounds = circle(gpus);
            assert_eq!(rounds.len(), if gpus % 2 == 0 { gpus - 1 } else { gpus });
            for round in &rounds {
                assert_eq!(round.len(), gpus / 2);
                let ends: BTreeSet<_> = round.iter().flat_map(|p| [p.from, p.to]).collect();
                assert_eq!(ends.len(), 2 * round.len(), "{round:?}");
            }
            let all: BTreeSet<_> = rounds.concat().into_iter().collect();
            assert_eq!(all.len(), gpus * (gpus - 1) / 2);
        }
    }

    #[test]
    fn one_gpu_has_no_pairs() {
        assert!(circle(0).concat().is_empty());
        assert!(circle(1).concat().is_empty());
    }
}
