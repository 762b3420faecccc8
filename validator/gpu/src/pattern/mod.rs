//! The content of tested memory, and what a deviation means: the words of the pattern (the same as the
//! kernels' `word.cuh`), fresh seeds for every round, comparing on the host, and classifying faults from what
//! was found. Pure: the tests move the data.

mod compare;
mod fault;
mod origin;
mod product;

pub use compare::{Counts, Excerpt, compare, compare_to, pieces};
pub use fault::{ActualLocation, DataFault, Evidence, Source, classify};
pub use origin::{Nonces, displacement, index_of, origin};
pub use product::{PRODUCTS, product_sum};

/// Makes neighbouring numbers unlike each other: 2^32 over the golden ratio, odd.
const STEP: u32 = 0x9e37_79b1;
/// The same for the upper half of a word's number.
const UPPER_STEP: u32 = 0x85eb_ca6b;
/// The two multipliers of the finalizer `lowbias32` (constants by Chris Wellons' hash prospector).
const MIX: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// Word number `i` of the pattern with this seed. Tests compute millions of them without optimization: there the
/// calls would cost more than the words.
#[must_use]
#[inline(always)]
pub const fn word(seed: u64, i: u64) -> u32 {
    let mut h = low(i).wrapping_mul(STEP).wrapping_add(low(seed));
    h ^= high(i).wrapping_mul(UPPER_STEP).wrapping_add(high(seed));
    h ^= h >> 16;
    h = h.wrapping_mul(MIX[0]);
    h ^= h >> 15;
    h = h.wrapping_mul(MIX[1]);
    h ^ (h >> 16)
}

#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower half is what is wanted"
)]
const fn low(n: u64) -> u32 {
    n as u32
}

#[inline(always)]
const fn high(n: u64) -> u32 {
    low(n >> 32)
}

#[cfg(test)]
mod tests {
    //! Checks the pattern against known values, and each kind of fault against its traces.

    use super::*;

    const NEW: u64 = 0x1357_9bdf_0246_8ace;
    const OLD: u64 = 0xfeed_beef_dead_cafe;
    const SENTINEL: u64 = 0x9e37_79b9_7f4a_7c15;
    const FIRST: u64 = 50_000;
    const WORDS: u64 = 10_000;

    #[test]
    fn words_are_those_of_the_kernels() {
        let text = include_str!("../../../kernels/pattern-vectors.toml");
        let table: toml::Table = text.parse().unwrap();
        let vectors = table["vectors"].as_array().unwrap();
        assert!(vectors.len() >= 16);
        for vector in vectors {
            let hex = |key: &str| {
                u64::from_str_radix(vector[key].as_str().unwrap().trim_start_matches("0x"), 16)
                    .unwrap()
            };
            assert_eq!(
                u64::from(word(hex("seed"), hex("i"))),
                hex("word"),
                "{vector}"
            );
        }
    }

    #[test]
    fn a_word_reveals_its_number() {
        for i in [0, 1, 7, 65_535, 1 << 24, 0xffff_ffff] {
            assert_eq!(u64::from(index_of(NEW, word(NEW, i))), i);
        }
        let found: Vec<_> = (600..608).map(|i| word(NEW, i)).collect();
        assert_eq!(origin(&found, NEW, &(0..1 << 24)), Some(600));
        assert_eq!(origin(&found, OLD, &(0..1 << 24)), None);
        assert_eq!(
            origin(&found, NEW, &(0..600)),
            None,
            "it does not belong there"
        );
        assert_eq!(
            origin(&found[..1], NEW, &(0..1 << 24)),
            None,
            "one word of many may be chance"
        );
        assert_eq!(origin(&found[..1], NEW, &(600..601)), Some(600));
    }

    #[test]
    fn nonces_never_repeat_and_are_well_mixed() {
        let mut nonces = Nonces::from(0);
        let first = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ];
        assert_eq!(
            first.map(|_| nonces.next()),
            first,
            "the published values of SplitMix64"
        );
        assert_ne!(Nonces::new().next(), Nonces::new().next());
    }

    #[test]
    fn the_host_compares_all_of_short_and_parts_of_long_transfers() {
        let mut nonces = Nonces::from(1);
        assert_eq!(pieces(4, &mut nonces), [(0, 4)]);
        assert_eq!(pieces(16 << 10, &mut nonces), [(0, 16 << 10)]);
        for bytes in [(16 << 10) + 4, (2 << 20) - 4, 64 << 20] {
            let parts = pieces(bytes, &mut nonces);
            assert!(parts[0].0 == 0 && parts[1].0 + parts[1].1 == bytes);
            assert!(parts.iter().all(|(at, n)| at % 4 == 0 && at + n <= bytes));
            assert_eq!(parts.iter().map(|(_, n)| n).sum::<u64>(), 16 << 10);
        }
    }

    #[test]
    fn comparing_counts_what_the_kernel_counts() {
        let mut found = right();
        assert!(compare(&found, FIRST, NEW, SENTINEL).all_right(WORDS));
        (found[3], found[5]) = (0, word(SENTINEL, FIRST + 5));
        let counts = compare(&found, FIRST, NEW, SENTINEL);
        let expected = Counts {
            looked: WORDS,
            wrong: 2,
            zeros: 1,
            ones: 0,
            sentinels: 1,
            first: Some(3),
            last: Some(5),
        };
        assert_eq!(counts, expected);
    }

    fn words(seed: u64, first: u64) -> Vec<u32> {
        (first..first + WORDS).map(|i| word(seed, i)).collect()
    }

    fn right() -> Vec<u32> {
        words(NEW, FIRST)
    }

    fn with(change: impl FnOnce(&mut Evidence<'_>), found: &[u32]) -> DataFault {
        let counts = compare(found, FIRST, NEW, SENTINEL);
        let from = usize::try_from(counts.first.unwrap()).unwrap();
        let to = (from + 32).min(found.len());
        let pieces = [Excerpt {
            place: counts.first.unwrap(),
            words: found[from..to].to_vec(),
        }];
        let mut evidence = Evidence {
            counts,
            first: FIRST,
            expected: NEW,
            older: &[OLD],
            pieces: &pieces,
            again: Some(counts),
            through_peer: Some(counts),
            source: None,
            elsewhere: None,
        };
        change(&mut evidence);
        classify(&evidence)
    }

    fn classified(found: &[u32]) -> DataFault {
        with(|_| {}, found)
    }

    #[test]
    fn zeros_old_data_and_ones_are_distinguished() {
        assert_eq!(classified(&[0; 10_000]), DataFault::Zeros);
        assert_eq!(classified(&words(SENTINEL, FIRST)), DataFault::Stale);
        assert_eq!(classified(&[u32::MAX; 10_000]), DataFault::Ones);
        let mut part = right();
        part[5000..9000].fill(u32::MAX);
        assert_eq!(
            classified(&part),
            DataFault::Ones,
            "a window that ends is not decoded behind its end"
        );
        // Parts of a word at both ends.
        (part[4999], part[9000]) = (0xff12_3456, 0x0012_34ff);
        assert_eq!(classified(&part), DataFault::Ones);
        part[100] = 7;
        assert_eq!(classified(&part), DataFault::Garbage);
        assert_eq!(classified(&words(OLD, FIRST)), DataFault::OldRound);
        assert_eq!(classified(&words(0x1234, FIRST)), DataFault::Garbage);
    }

    #[test]
    fn data_that_only_the_writer_sees_is_a_mirror_and_data_that_comes_later_is_late() {
        let good = compare(&right(), FIRST, NEW, SENTINEL);
        let stale = words(SENTINEL, FIRST);
        assert_eq!(
            with(|e| e.through_peer = Some(good), &stale),
            DataFault::Mirror
        );
        assert_eq!(with(|e| e.again = Some(good), &stale), DataFault::Late);
        let never_ran = Counts { looked: 0, ..good };
        assert_eq!(
            with(|e| e.again = Some(never_ran), &stale),
            DataFault::Stale
        );
    }

    #[test]
    fn shifted_data_is_reported_with_its_distance_and_direction() {
        assert_eq!(classified(&words(NEW, FIRST + 16)), DataFault::Offset(-64));
        let mut behind = words(SENTINEL, FIRST);
        behind[1024..].copy_from_slice(&right()[..8976]);
        let wrong = with(
            |e| e.elsewhere = Some(ActualLocation::Shifted(4096)),
            &behind,
        );
        assert_eq!(
            wrong,
            DataFault::Offset(4096),
            "nothing has arrived at its beginning"
        );
        assert_eq!(
            with(
                |e| e.elsewhere = Some(ActualLocation::Gpu(3.into())),
                &behind
            ),
            DataFault::OtherGpu(3.into())
        );
    }

    #[test]
    fn a_read_from_a_wrong_place_names_the_place() {
        const AROUND: u64 = 0x0bad_cafe_1234_5678;
        let source = Some(Source {
            seed: AROUND,
            first: 20_000,
        });
        let read = |found: &[u32]| with(|e| e.source = source, found);
        assert_eq!(read(&words(AROUND, 20_000 + 1024)), DataFault::From(4096));
        assert_eq!(
            read(&words(NEW, FIRST + 16)),
            DataFault::From(64),
            "within the data itself"
        );
        assert_eq!(read(&words(AROUND, 19_000)), DataFault::From(-4000));
        assert_eq!(read(&words(OLD, FIRST)), DataFault::OldRound);
        assert_eq!(read(&words(SENTINEL, FIRST)), DataFault::Stale);
    }

    #[test]
    fn a_missing_part_is_reported_by_its_bytes() {
        for (from, to) in [(5000, 10_000), (0, 100), (40, 60)] {
            let bytes = DataFault::Partial {
                from: from as u64 * 4,
                to: to as u64 * 4,
            };
            let mut found = right();
            found[from..to].fill(0);
            assert_eq!(classified(&found), bytes);
            let mut found = right();
            found[from..to].copy_from_slice(&words(SENTINEL, FIRST)[from..to]);
            assert_eq!(classified(&found), bytes);
        }
        let mut found = right();
        found.iter_mut().step_by(100).for_each(|w| *w = 0);
        assert_eq!(classified(&found), DataFault::Holes);
    }

    #[test]
    fn a_flipped_bit_is_not_garbage() {
        let mut found = right();
        found[777] ^= 1 << 9;
        assert_eq!(classified(&found), DataFault::Flip);
    }

    #[test]
    fn a_single_word_is_classified_too() {
        let one = |found: u32| {
            let counts = compare(&[found], FIRST, NEW, SENTINEL);
            let pieces = [Excerpt {
                place: 0,
                words: vec![found],
            }];
            classify(&Evidence {
                counts,
                first: FIRST,
                expected: NEW,
                older: &[],
                pieces: &pieces,
                again: None,
                through_peer: None,
                source: None,
                elsewhere: None,
            })
        };
        assert_eq!(one(0), DataFault::Zeros);
        assert_eq!(one(u32::MAX), DataFault::Ones);
        assert_eq!(one(word(SENTINEL, FIRST)), DataFault::Stale);
        assert_eq!(one(12), DataFault::Garbage);
    }
}
