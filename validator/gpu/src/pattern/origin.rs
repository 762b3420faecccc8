//! The intended place of found words. The pattern is a permutation of a word's number, so a word found in the
//! wrong place reveals where it belongs.

use super::{MIX, STEP, high, low, word};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// This many consecutive words do not match by chance.
const SURE: usize = 2;
/// In a range this small one word is enough: 4096 of 2^32.
const SMALL: u64 = 4096;

/// The number below 2^32 whose word this is.
#[must_use]
pub const fn index_of(seed: u64, found: u32) -> u32 {
    let mut h = found ^ (found >> 16);
    h = h.wrapping_mul(inverse(MIX[1]));
    h ^= (h >> 15) ^ (h >> 30);
    h = h.wrapping_mul(inverse(MIX[0]));
    h ^= h >> 16;
    h ^= high(seed);
    h.wrapping_sub(low(seed)).wrapping_mul(inverse(STEP))
}

/// The number in `meant` of the first word of `found`, if it and the following words come from there.
#[must_use]
pub fn origin(found: &[u32], seed: u64, meant: &Range<u64>) -> Option<u64> {
    let begin = u64::from(index_of(seed, *found.first()?));
    if !meant.contains(&begin) {
        return None;
    }
    let run = found
        .iter()
        .zip(begin..meant.end)
        .take_while(|(f, i)| **f == word(seed, *i))
        .count();
    let few = meant.end.saturating_sub(meant.start) <= SMALL;
    (run >= SURE || few).then_some(begin)
}

/// How many words after number `here` (before it if negative) the words of `found` belong. A single word counts
/// only if its place is near `here`: 2^21 of 2^32 numbers are.
#[must_use]
pub fn displacement(found: &[u32], seed: u64, here: u64) -> Option<i64> {
    const NEAR: u64 = 1 << 20;
    let begin = u64::from(index_of(seed, *found.first()?));
    let run = found
        .iter()
        .zip(begin..)
        .take_while(|(f, i)| **f == word(seed, *i))
        .count();
    (run >= SURE || begin.abs_diff(here) < NEAR)
        .then(|| begin.checked_signed_diff(here))
        .flatten()
}

/// The multiplicative inverse of an odd number: each step of Newton's method doubles the number of right bits.
const fn inverse(odd: u32) -> u32 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

// Fresh seeds: used neither in an earlier round nor, because they start at random, in an earlier run, whose
// data may still be in a GPU's memory.

/// 2^64 over the golden ratio, odd: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A source of seeds, each well mixed (the pattern uses its halves separately) and none repeated: SplitMix64
/// by Steele, Lea and Flood, a permutation of a counter.
#[derive(Debug, Clone)]
pub struct Nonces(u64);

impl Nonces {
    /// Starts at random; the standard library asks the kernel.
    #[must_use]
    pub fn new() -> Self {
        Self::from(RandomState::new().build_hasher().finish())
    }

    /// The next seed.
    #[must_use]
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Default for Nonces {
    fn default() -> Self {
        Self::new()
    }
}

/// Reproduces the same seeds from a known start.
impl From<u64> for Nonces {
    fn from(base: u64) -> Self {
        Self(base)
    }
}
