//! The words that the kernels write and check, and how to compare two runs of them without computing each word: the last
//! step of the hash is a bijection, so words are equal exactly where its inputs are.

/// The hash's factor for the low half of an index.
const LOW_FACTOR: u32 = 0x9E37_79B1;
/// The hash's factor for the high half of an index.
const HIGH_FACTOR: u32 = 0x85EB_CA6B;
const FIRST: u32 = 0x7FEB_352D;
const SECOND: u32 = 0x846C_A68B;

/// Word `i` of the pattern of `seed`.
#[must_use]
pub fn word(seed: u64, i: u64) -> u32 {
    mix(Premix::of(seed, i).at(0))
}

/// The finalizer `lowbias32`: a bijection that maps zero to zero.
fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(FIRST);
    h ^= h >> 15;
    h = h.wrapping_mul(SECOND);
    h ^ (h >> 16)
}

/// The inverse of [`mix`].
fn unmix(mut h: u32) -> u32 {
    const FIRST_INVERSE: u32 = inverse(FIRST);
    const SECOND_INVERSE: u32 = inverse(SECOND);
    h ^= h >> 16;
    h = h.wrapping_mul(SECOND_INVERSE);
    h ^= (h >> 15) ^ (h >> 30);
    h = h.wrapping_mul(FIRST_INVERSE);
    h ^ (h >> 16)
}

/// The inverse of an odd number modulo 2^32: each Newton step doubles the number of correct bits.
const fn inverse(odd: u32) -> u32 {
    let mut x = odd; // correct in 3 bits
    let mut bits = 3;
    while bits < 32 {
        x = x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x)));
        bits *= 2;
    }
    x
}

/// The low 32 bits.
fn low(x: u64) -> u32 {
    u32::try_from(x & 0xffff_ffff).unwrap_or_default()
}

/// The input of the finalizer for words whose indices share the same high half.
#[derive(Debug, Clone, Copy)]
struct Premix {
    low: u32,
    high: u32,
}

impl Premix {
    fn of(seed: u64, i: u64) -> Self {
        Self {
            low: low(i).wrapping_mul(LOW_FACTOR).wrapping_add(low(seed)),
            high: low(i >> 32)
                .wrapping_mul(HIGH_FACTOR)
                .wrapping_add(low(seed >> 32)),
        }
    }

    fn at(self, k: u32) -> u32 {
        self.low.wrapping_add(k.wrapping_mul(LOW_FACTOR)) ^ self.high
    }
}

/// A run of words: `word(seed, first + k) ^ flip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// The seed.
    pub seed: u64,
    /// The index of word 0.
    pub first: u64,
    /// Bits that are inverted in every word.
    pub flip: u32,
}

/// Where two runs of words are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EqualWords {
    /// Everywhere.
    All,
    /// At these words, in order.
    At(Vec<u64>),
    /// Some may be equal: the words must be computed.
    Unknown,
}

impl Pattern {
    /// Word `k`.
    #[must_use]
    pub fn at(self, k: u64) -> u32 {
        word(self.seed, self.first.wrapping_add(k)) ^ self.flip
    }

    /// The run that starts at word `k`.
    #[must_use]
    pub fn from(self, k: u64) -> Self {
        Self {
            first: self.first.wrapping_add(k),
            ..self
        }
    }

    /// Number of words before the high half of the index changes.
    #[must_use]
    pub fn until_carry(self) -> u64 {
        (1 << 32) - (self.first & 0xffff_ffff)
    }

    /// Writes the words from word 0 on, as they are stored in memory.
    pub fn write(self, out: &mut [[u8; 4]]) {
        let mut from = self;
        let mut rest = out;
        while !rest.is_empty() {
            let n = usize::try_from(from.until_carry())
                .unwrap_or(usize::MAX)
                .min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            let Premix { mut low, high } = Premix::of(from.seed, from.first);
            for slot in now {
                *slot = (mix(low ^ high) ^ from.flip).to_le_bytes();
                low = low.wrapping_add(LOW_FACTOR);
            }
            from = from.from(n as u64);
            rest = later;
        }
    }

    /// Where the first `n` words equal those of `other`; `n` is at most `until_carry()` of both.
    #[must_use]
    pub fn equal(self, other: Self, n: u64) -> EqualWords {
        let (a, b) = (
            Premix::of(self.seed, self.first),
            Premix::of(other.seed, other.first),
        );
        match (a.low == b.low, a.high == b.high) {
            (true, true) if self.flip != other.flip => return EqualWords::At(Vec::new()),
            // Different words with different bits inverted: they may be equal by chance.
            _ if self.flip != other.flip => return EqualWords::Unknown,
            (true, true) => return EqualWords::All,
            (true, false) | (false, true) => return EqualWords::At(Vec::new()),
            (false, false) => {}
        }
        // x ^ m == x + d has solutions only if d is a sum of +-2^i over the bits i of m: then (d + m) / 2 is a subset of
        // the bits of m, apart from the highest bit.
        let (m, d) = (a.high ^ b.high, b.low.wrapping_sub(a.low));
        let sum = d.wrapping_add(m);
        let half = (sum >> 1) & 0x7fff_ffff;
        let possible = sum & 1 == 0 && half & !m & 0x7fff_ffff == 0;
        if possible && n > 0 {
            EqualWords::Unknown
        } else {
            EqualWords::At(Vec::new())
        }
    }

    /// Where the first `n` words are `value`; `n` is at most `until_carry()`.
    #[must_use]
    pub fn equal_to(self, value: u32, n: u64) -> EqualWords {
        const LOW_FACTOR_INVERSE: u32 = inverse(LOW_FACTOR);
        let Premix { low, high } = Premix::of(self.seed, self.first);
        let k = u64::from(
            (unmix(value ^ self.flip) ^ high)
                .wrapping_sub(low)
                .wrapping_mul(LOW_FACTOR_INVERSE),
        );
        EqualWords::At(if k < n { vec![k] } else { Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernels' own test vectors.
    #[test]
    fn words_are_those_of_the_kernels() {
        let text = include_str!("../../../../validator/kernels/pattern-vectors.toml");
        let table: toml::Table = toml::from_str(text).unwrap();
        let vectors = table["vectors"].as_array().unwrap();
        assert!(vectors.len() > 10);
        for vector in vectors {
            let number = |key| {
                let text = vector[key].as_str().unwrap().strip_prefix("0x").unwrap();
                u64::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(
                u64::from(word(number("seed"), number("i"))),
                number("word"),
                "{vector}"
            );
        }
    }

    #[test]
    fn the_finalizer_can_be_undone() {
        for h in [0, 1, 0xdead_beef, 0x8000_0000, u32::MAX, 12345] {
            assert_eq!(unmix(mix(h)), h);
        }
        assert_eq!(mix(0), 0);
    }

    #[test]
    fn a_written_run_equals_its_words_one_by_one() {
        let pattern = Pattern {
            seed: 0x1234_5678_9abc_def0,
            first: (1 << 32) - 3,
            flip: 0,
        };
        let mut words = [[0; 4]; 8];
        pattern.write(&mut words);
        let each: Vec<_> = (0..8).map(|k| pattern.at(k)).collect();
        assert_eq!(words.map(u32::from_le_bytes).as_slice(), each);
    }

    #[test]
    fn the_index_of_a_word_is_found() {
        let pattern = Pattern {
            seed: 77,
            first: 1000,
            flip: 0,
        };
        assert_eq!(
            pattern.equal_to(pattern.at(123_456), 1 << 20),
            EqualWords::At(vec![123_456])
        );
        assert_eq!(
            pattern.equal_to(pattern.at(123_456), 123_456),
            EqualWords::At(vec![])
        );
    }

    #[test]
    fn runs_with_other_seeds_or_indices_differ() {
        let a = Pattern {
            seed: 7,
            first: 100,
            flip: 0,
        };
        assert_eq!(a.equal(a, 10), EqualWords::All);
        assert_eq!(a.equal(a.from(1), 10), EqualWords::At(vec![]));
        // A seed that compensates for the different index gives the same run.
        let alias = Pattern {
            seed: u64::from(7u32.wrapping_sub(LOW_FACTOR)),
            first: 101,
            flip: 0,
        };
        assert_eq!(a.equal(alias, 10), EqualWords::All);
        assert_eq!(a.at(5), alias.at(5));
    }

    #[test]
    fn no_word_is_equal_where_none_is_reported() {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state ^ (state >> 29)
        };
        for _ in 0..300 {
            let a = Pattern {
                seed: next(),
                first: next() & 0xffff,
                flip: 0,
            };
            // The seeds differ in few bits, where equal words are likely.
            let b = Pattern {
                seed: a.seed ^ (1 << (next() % 64)) ^ (1 << (next() % 64)),
                ..a
            };
            let found: Vec<_> = (0..500).filter(|k| a.at(*k) == b.at(*k)).collect();
            match a.equal(b, 500) {
                EqualWords::All => assert_eq!(found.len(), 500),
                EqualWords::At(none) => assert_eq!((none, found), (vec![], vec![])),
                EqualWords::Unknown => {}
            }
        }
    }
}
