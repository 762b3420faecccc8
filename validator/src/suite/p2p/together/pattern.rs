//! Which transfers run at the same time. Pure.

use crate::schedule::Pair;
use machine::GpuId;
use std::fmt;

/// A set of transfers that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) kind: PatternKind,
    pub(super) pairs: Vec<Pair>,
}

/// Which GPUs send to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternKind {
    /// Each GPU to the next.
    Ring,
    /// Each GPU to the one before.
    RingBack,
    /// Every GPU to every other.
    All,
    /// All others to this one.
    ToOne(GpuId),
    /// This one to all others.
    FromOne(GpuId),
    /// Each GPU to the one `n` further.
    Shift(usize),
    /// Each GPU to the `n` that follow it: for GPUs that cannot have all others as peers.
    Next(usize),
}

impl fmt::Display for PatternKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring => f.write_str("ring"),
            Self::RingBack => f.write_str("ring backwards"),
            Self::All => f.write_str("all to all"),
            Self::ToOne(n) => write!(f, "all to GPU {n}"),
            Self::FromOne(n) => write!(f, "GPU {n} to all"),
            Self::Shift(n) => write!(f, "each to the GPU {n} further"),
            Self::Next(n) => write!(f, "each to the next {n} GPUs"),
        }
    }
}

impl Pattern {
    /// The unordered pairs that need peer access.
    pub(super) fn access(&self) -> Vec<Pair> {
        unordered(&self.pairs)
    }
}

/// The unordered pairs among these, each once.
pub(super) fn unordered(pairs: &[Pair]) -> Vec<Pair> {
    let mut pairs: Vec<_> = pairs.iter().map(|pair| pair.sorted()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// This many shifts show what the links between the GPUs carry.
const SHIFTS: usize = 8;
/// Without NVSwitch a GPU has access to at most eight others: four that it sends to, and four that send to
/// it.
const NEXT: usize = 4;

/// All patterns of this many GPUs.
pub(super) fn patterns(gpus: usize) -> Vec<Pattern> {
    let all = || Pair::all(gpus).filter(|p| p.from != p.to);
    let mut patterns = vec![
        shift(gpus, PatternKind::Ring, 1),
        shift(gpus, PatternKind::RingBack, gpus.saturating_sub(1)),
        Pattern {
            kind: PatternKind::All,
            pairs: nearest(gpus, gpus.saturating_sub(1)),
        },
    ];
    let ones = GpuId::all(gpus).flat_map(|n| {
        let to = all().filter(|p| p.to == n).collect();
        let from = all().filter(|p| p.from == n).collect();
        [(PatternKind::ToOne(n), to), (PatternKind::FromOne(n), from)]
            .map(|(kind, pairs)| Pattern { kind, pairs })
    });
    // With two GPUs the ring is everything.
    patterns.extend(ones.filter(|_| gpus > 2));
    let between = 2..gpus.saturating_sub(1);
    let step = between.len().div_ceil(SHIFTS).max(1);
    // In the shift by half, every transfer crosses the middle.
    let shifts = between
        .step_by(step)
        .filter(|n| *n != gpus / 2)
        .chain((gpus > 3).then_some(gpus / 2));
    patterns.extend(shifts.map(|n| shift(gpus, PatternKind::Shift(n), n)));
    patterns
}

/// Replaces all to all where that needs more peers than a GPU can have.
pub(super) fn fewer_peers(gpus: usize) -> Option<Pattern> {
    (gpus > 2 * NEXT).then(|| Pattern {
        kind: PatternKind::Next(NEXT),
        pairs: nearest(gpus, NEXT),
    })
}

/// All ordered pairs in parts in each of which no GPU has more peers than it can have without NVSwitch.
pub(super) fn few_peers_each(gpus: usize) -> Vec<Vec<Pair>> {
    let shifts: Vec<_> = (1..gpus).collect();
    let part = |some: &[usize]| by_shift(gpus, some.iter().copied());
    shifts.chunks(NEXT).map(part).collect()
}

/// Each GPU to the `most` that follow it.
fn nearest(gpus: usize, most: usize) -> Vec<Pair> {
    by_shift(gpus, 1..=most)
}

/// The pairs of these shifts, one shift after the other: then GPUs that send one transfer after the other never send to the
/// same GPU. In the order of the senders all would begin with GPU 0, and healthy machines would reach half of what the links
/// allow.
fn by_shift(gpus: usize, shifts: impl IntoIterator<Item = usize>) -> Vec<Pair> {
    let one = |n| shifted(gpus, n);
    shifts.into_iter().flat_map(one).collect()
}

fn shift(gpus: usize, kind: PatternKind, n: usize) -> Pattern {
    Pattern {
        kind,
        pairs: shifted(gpus, n).collect(),
    }
}

fn shifted(gpus: usize, n: usize) -> impl Iterator<Item = Pair> {
    (0..gpus).map(move |gpu| Pair::of(gpu, (gpu + n) % gpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gpus: usize) -> Vec<String> {
        patterns(gpus)
            .iter()
            .map(|p| format!("{}: {}", p.kind, p.pairs.len()))
            .collect()
    }

    #[test]
    fn four_gpus_have_every_pattern() {
        let lines = of(4);
        assert_eq!(
            lines[..3],
            ["ring: 4", "ring backwards: 4", "all to all: 12"]
        );
        assert!(
            lines.contains(&"all to GPU 2: 3".to_owned())
                && lines.contains(&"GPU 0 to all: 3".to_owned())
        );
        assert_eq!(lines[11..], ["each to the GPU 2 further: 4"]);
    }

    #[test]
    fn all_to_all_is_every_shift_one_after_the_other() {
        let all = patterns(4)
            .into_iter()
            .find(|p| p.kind == PatternKind::All)
            .unwrap()
            .pairs;
        assert_eq!(
            all[..5],
            [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)].map(|(from, to)| Pair::of(from, to))
        );
        assert_eq!(all.len(), 12);
    }

    #[test]
    fn two_gpus_have_a_ring_in_which_both_send() {
        assert_eq!(of(2), ["ring: 2", "ring backwards: 2", "all to all: 2"]);
        assert_eq!(of(3).len(), 9);
    }

    #[test]
    fn many_gpus_have_some_shifts_and_the_one_halfway() {
        for gpus in [5, 8, 16, 64] {
            let shifts: Vec<_> = of(gpus)
                .into_iter()
                .filter(|p| p.starts_with("each"))
                .collect();
            assert!(shifts.len() <= SHIFTS + 1, "{shifts:?}");
            assert_eq!(
                shifts.last(),
                Some(&format!("each to the GPU {} further: {gpus}", gpus / 2))
            );
        }
    }

    #[test]
    fn access_is_asked_for_once_for_each_pair() {
        let all = patterns(3).remove(2);
        assert_eq!(
            all.access(),
            [Pair::of(0, 1), Pair::of(0, 2), Pair::of(1, 2)]
        );
    }

    #[test]
    fn parts_with_few_peers_have_every_pair_once() {
        for gpus in 2..=16 {
            let parts = few_peers_each(gpus);
            let mut all: Vec<_> = parts.concat();
            all.sort_unstable();
            let expected: Vec<_> = Pair::all(gpus)
                .filter(|pair| pair.from != pair.to)
                .collect();
            assert_eq!(all, expected, "{gpus}");
            for part in parts {
                let of_gpu_0 = part
                    .iter()
                    .filter(|p| p.from.index() == 0 || p.to.index() == 0);
                let peers: std::collections::BTreeSet<_> =
                    of_gpu_0.map(|pair| pair.sorted()).collect();
                assert!(peers.len() <= 2 * NEXT, "{gpus}: {peers:?}");
            }
        }
    }

    #[test]
    fn many_to_many_is_tried_with_few_peers() {
        assert_eq!(fewer_peers(8), None);
        let next = fewer_peers(9).unwrap();
        assert_eq!(
            (next.pairs.len(), next.kind.to_string().as_str()),
            (36, "each to the next 4 GPUs")
        );
        let peers = next
            .access()
            .iter()
            .filter(|p| p.from.index() == 0 || p.to.index() == 0)
            .count();
        assert_eq!(peers, 8);
    }
}
