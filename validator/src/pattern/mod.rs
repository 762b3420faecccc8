//! What tested memory must hold, and what it means when it does not: the words of the pattern (the
//! same as the kernels' `word.cuh`), fresh seeds for every round, comparing on the host, and telling
//! from what was found how data went wrong. Pure: moving data is the tests' matter.

mod compare;
mod nonce;
mod origin;
#[cfg(test)]
mod tests;
mod wrong;

pub use compare::{Counts, Piece, compare, pieces};
pub use nonce::Nonces;
pub use origin::{from, index, origin};
pub use wrong::{Elsewhere, Evidence, Source, Wrong, classify};

/// Makes neighbouring numbers unlike each other: 2^32 over the golden ratio, odd.
const STEP: u32 = 0x9e37_79b1;
/// The same for the upper half of a word's number.
const UPPER_STEP: u32 = 0x85eb_ca6b;
/// The two multipliers of the finalizer `lowbias32` (constants by Chris Wellons' hash prospector).
const MIX: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// Word number `i` of the pattern with this seed.
#[must_use]
pub const fn word(seed: u64, i: u64) -> u32 {
    let mut h = low(i).wrapping_mul(STEP).wrapping_add(low(seed));
    h ^= high(i).wrapping_mul(UPPER_STEP).wrapping_add(high(seed));
    h ^= h >> 16;
    h = h.wrapping_mul(MIX[0]);
    h ^= h >> 15;
    h = h.wrapping_mul(MIX[1]);
    h ^ (h >> 16)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
const fn low(n: u64) -> u32 {
    n as u32
}

const fn high(n: u64) -> u32 {
    low(n >> 32)
}
