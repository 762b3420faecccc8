//! Which transfers run at the same time. Pure.

use crate::schedule::Pair;
use std::fmt;

/// Transfers at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) kind: Kind,
    pub(super) pairs: Vec<Pair>,
}

/// What they look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each GPU to the next.
    Ring,
    /// Each GPU to the one before.
    RingBack,
    /// Every GPU to every other.
    All,
    /// All others to this one.
    ToOne(usize),
    /// This one to all others.
    FromOne(usize),
    /// Pairs that share nothing: this round of the plan.
    Round(usize),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring => f.write_str("ring"),
            Self::RingBack => f.write_str("ring backwards"),
            Self::All => f.write_str("all to all"),
            Self::ToOne(n) => write!(f, "all to GPU {n}"),
            Self::FromOne(n) => write!(f, "GPU {n} to all"),
            Self::Round(n) => write!(f, "pairs of round {n}"),
        }
    }
}

impl Pattern {
    /// The unordered pairs that need peer access.
    pub(super) fn access(&self) -> Vec<Pair> {
        let mut pairs: Vec<_> = self.pairs.iter().map(|pair| pair.sorted()).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// All patterns of so many GPUs; `rounds`: unordered pairs that share nothing.
pub(super) fn patterns(gpus: usize, rounds: &[Vec<Pair>]) -> Vec<Pattern> {
    let all = || (0..gpus).flat_map(|a| (0..gpus).map(move |b| Pair::new(a, b))).filter(|p| p.from != p.to);
    let ring = || (0..gpus).map(|n| Pair::new(n, (n + 1) % gpus));
    let mut patterns = vec![
        Pattern { kind: Kind::Ring, pairs: ring().collect() },
        Pattern { kind: Kind::RingBack, pairs: ring().map(Pair::back).collect() },
        Pattern { kind: Kind::All, pairs: all().collect() },
    ];
    let ones = (0..gpus).flat_map(|n| {
        let to = all().filter(|p| p.to == n).collect();
        let from = all().filter(|p| p.from == n).collect();
        [(Kind::ToOne(n), to), (Kind::FromOne(n), from)].map(|(kind, pairs)| Pattern { kind, pairs })
    });
    // Of two GPUs the ring is all of it.
    patterns.extend(ones.filter(|_| gpus > 2));
    let directions =
        rounds.iter().flat_map(|round| [round.clone(), round.iter().map(|p| p.back()).collect()]);
    let rounds = (1..).zip(directions).map(|(n, pairs)| Pattern { kind: Kind::Round(n), pairs });
    patterns.extend(rounds.filter(|p| p.pairs.len() > 1));
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Plan, Routes};

    fn of(gpus: usize, rounds: &[Vec<Pair>]) -> Vec<String> {
        let told = |p: &Pattern| format!("{}: {}", p.kind, p.pairs.len());
        patterns(gpus, rounds).iter().map(told).collect()
    }

    #[test]
    fn four_gpus_have_every_pattern() {
        let rounds = [vec![Pair::new(0, 1), Pair::new(2, 3)]];
        let told = of(4, &rounds);
        assert_eq!(told[..3], ["ring: 4", "ring backwards: 4", "all to all: 12"]);
        assert!(told.contains(&"all to GPU 2: 3".to_owned()) && told.contains(&"GPU 0 to all: 3".to_owned()));
        assert_eq!(told[told.len() - 2..], ["pairs of round 1: 2", "pairs of round 2: 2"]);
    }

    #[test]
    fn two_gpus_have_a_ring_in_which_both_send() {
        let rounds = Plan::unordered(&Routes::staged(&[])).rounds;
        assert_eq!(of(2, &rounds), ["ring: 2", "ring backwards: 2", "all to all: 2"]);
    }

    #[test]
    fn access_is_asked_for_once_for_each_pair() {
        let all = patterns(3, &[]).remove(2);
        assert_eq!(all.access(), [Pair::new(0, 1), Pair::new(0, 2), Pair::new(1, 2)]);
    }
}
