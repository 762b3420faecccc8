//! The order in which pairs are offered to a plan: the circle method of round-robin tournaments. Its rounds
//! are perfect matchings, so that first-fit reaches the bound where only the GPUs themselves are shared: N-1
//! rounds for even N, N for odd N.

use super::Pair;

/// Every unordered pair of `gpus` GPUs, smaller number first, one tournament round after the other.
pub(crate) fn circle(gpus: usize) -> Vec<Vec<Pair>> {
    // One GPU keeps its seat and the others move around it by one seat a round; with an odd number an empty
    // seat is kept.
    let Some(seats) = gpus.checked_next_multiple_of(2).and_then(|m| m.checked_sub(1)) else {
        return Vec::new();
    };
    (0..seats).map(|round| matching(gpus, seats, round)).collect()
}

fn matching(gpus: usize, seats: usize, round: usize) -> Vec<Pair> {
    let facing = |k: usize| Pair::new((round + k) % seats, (round + seats - k) % seats);
    let still = Pair::new(round, seats);
    let pairs = std::iter::once(still).chain((1..=seats / 2).map(facing));
    pairs.map(Pair::sorted).filter(|p| p.to < gpus).collect()
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
