//! Unused seeds: not used in an earlier round nor, because they start at random, in an earlier run whose data
//! may still be in a GPU's memory.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// 2^64 over the golden ratio, odd: the step of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

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
        self.0 = self.0.wrapping_add(STEP);
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

/// The same seeds again, from a known start.
impl From<u64> for Nonces {
    fn from(base: u64) -> Self {
        Self(base)
    }
}
