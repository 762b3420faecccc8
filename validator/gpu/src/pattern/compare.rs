//! Compares on the host what a GPU has already compared, and selects the parts of a long transfer to compare.

use super::{Nonces, word};
use crate::CheckCounts;
use serde::{Deserialize, Serialize};

/// The result of a comparison; the same numbers as the kernel `fl_check`'s. Positions are words, counted from
/// the first that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Words that were checked.
    pub looked: u64,
    /// Words that are wrong.
    pub wrong: u64,
    /// Of those, words that are 0.
    pub zeros: u64,
    /// Of those, words that are all ones.
    pub ones: u64,
    /// Of those, words that still hold the sentinel.
    pub sentinels: u64,
    /// The first wrong word; `None` when none is wrong.
    pub first: Option<u64>,
    /// The last wrong word.
    pub last: Option<u64>,
}

impl From<CheckCounts> for Counts {
    fn from(checked: CheckCounts) -> Self {
        let CheckCounts {
            looked,
            wrong,
            zeros,
            ones,
            sentinels,
            first,
            last,
        } = checked;
        Self {
            looked,
            wrong,
            zeros,
            ones,
            sentinels,
            first,
            last,
        }
    }
}

impl Counts {
    /// Whether all of this many words were checked and none is wrong.
    #[must_use]
    pub const fn all_right(&self, words: u64) -> bool {
        self.looked == words && self.wrong == 0
    }

    /// Whether the wrong words are all ones. Two exceptions are allowed: data may begin and end within a word.
    #[must_use]
    pub const fn are_ones(&self) -> bool {
        self.ones > 0 && self.ones.saturating_add(2) >= self.wrong
    }
}

/// Words that were copied to the host, and the position of the first of them in the transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Words before it.
    pub place: u64,
    /// The words found there.
    pub words: Vec<u32>,
}

/// Counts the words of `found` that are not `word(expected, first + k)`.
#[must_use]
pub fn compare(found: &[u32], first: u64, expected: u64, sentinel: u64) -> Counts {
    compare_to(found, (first..).map(|i| word(expected, i)), first, sentinel)
}

/// The same against any words; those of the sentinel count from `first` on.
#[must_use]
pub fn compare_to(
    found: &[u32],
    expected: impl Iterator<Item = u32>,
    first: u64,
    sentinel: u64,
) -> Counts {
    let mut counts = Counts {
        looked: 0,
        wrong: 0,
        zeros: 0,
        ones: 0,
        sentinels: 0,
        first: None,
        last: None,
    };
    for (k, (found, expected)) in (0_u64..).zip(found.iter().zip(expected)) {
        counts.looked += 1;
        if *found == expected {
            continue;
        }
        counts.wrong += 1;
        counts.zeros += u64::from(*found == 0);
        counts.ones += u64::from(*found == u32::MAX);
        counts.sentinels += u64::from(*found == word(sentinel, first + k));
        counts.first = counts.first.or(Some(k));
        counts.last = Some(k);
    }
    counts
}

/// Up to this size the host compares everything, bytes.
const WHOLE: u64 = 16 << 10;
/// One sample of a longer transfer, bytes.
const PIECE: u64 = 1 << 10;
/// Samples between its head and its tail.
const BETWEEN: u64 = 14;

/// The parts of `bytes` that the host compares, as offsets and lengths in bytes, at most 16 KiB in all:
/// everything, or head, tail and positions that `nonces` choose.
#[must_use]
pub fn pieces(bytes: u64, nonces: &mut Nonces) -> Vec<(u64, u64)> {
    if bytes <= WHOLE {
        return vec![(0, bytes)];
    }
    let last = bytes - PIECE;
    let places = (0..BETWEEN).map(|_| nonces.next() % (last / 4) * 4);
    [0, last]
        .into_iter()
        .chain(places)
        .map(|at| (at, PIECE))
        .collect()
}
