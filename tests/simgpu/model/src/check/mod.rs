//! Computes from extents what `fl_check` counts: the same numbers as from words, without generating the words.

pub mod batch;
pub mod values;

use crate::content::{Content, WORD};
use crate::extents::{Piece, bytes};
use crate::pattern::{EqualWords, Pattern};

/// The two patterns that words are compared with. Word 0 is the first word that is checked.
#[derive(Debug, Clone, Copy)]
pub struct CheckPatterns {
    /// The words that should be there.
    pub expected: Pattern,
    /// The words that were there before.
    pub sentinel: Pattern,
}

/// The counts of a check, with word numbers from the first checked word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Words that differ from the expected ones.
    pub bad: u64,
    /// How many of those are zero.
    pub zeros: u64,
    /// How many of those are all ones.
    pub ones: u64,
    /// How many of those are the sentinel's word.
    pub sentinels: u64,
    /// The first bad word; `u64::MAX` when there is none.
    pub first: u64,
    /// The last bad word; 0 when there is none.
    pub last: u64,
}

impl Counts {
    /// No bad word.
    pub const NONE: Self = Self {
        bad: 0,
        zeros: 0,
        ones: 0,
        sentinels: 0,
        first: u64::MAX,
        last: 0,
    };

    fn add(&mut self, at: u64, word: u32, wanted: &CheckPatterns) {
        if word != wanted.expected.at(at) {
            self.bad += 1;
            self.zeros += u64::from(word == 0);
            self.ones += u64::from(word == u32::MAX);
            self.sentinels += u64::from(word == wanted.sentinel.at(at));
            self.first = self.first.min(at);
            self.last = self.last.max(at);
        }
    }

    fn plus(&mut self, at: u64, other: Self) {
        self.bad += other.bad;
        self.zeros += other.zeros;
        self.ones += other.ones;
        self.sentinels += other.sentinels;
        if other.bad > 0 {
            self.first = self.first.min(at + other.first);
            self.last = self.last.max(at + other.last);
        }
    }
}

/// Counts over `pieces`, whose total length is a multiple of the word size.
#[must_use]
pub fn count(pieces: &[Piece], wanted: &CheckPatterns) -> Counts {
    let mut counts = Counts::NONE;
    let mut at = 0;
    // Pieces that do not begin and end at a word boundary are joined until they do.
    let mut odd: Vec<Piece> = Vec::new();
    for (n, content) in pieces {
        let (mut n, mut content) = (*n, content.clone().unwrap_or(Content::ZEROS));
        let pending = odd.iter().map(|(n, _)| n).sum::<u64>();
        let need = (WORD - pending % WORD) % WORD;
        if pending > 0 {
            let take = need.min(n);
            odd.push((take, Some(content.clone())));
            (n, content) = (n - take, content.skip(take));
            if take == need {
                at += count_words(&bytes(&odd), at, wanted, &mut counts);
                odd.clear();
            }
        }
        let whole = n / WORD;
        count_run(&content, whole, at, wanted, &mut counts);
        at += whole;
        if n % WORD > 0 {
            odd.push((n % WORD, Some(content.skip(whole * WORD))));
        }
    }
    counts
}

/// Adds the counts of `words` words of one content, starting at word `at`.
fn count_run(content: &Content, words: u64, at: u64, wanted: &CheckPatterns, counts: &mut Counts) {
    let (mut content, mut left, mut at) = (content.clone(), words, at);
    while left > 0 {
        let now = CheckPatterns {
            expected: wanted.expected.from(at),
            sentinel: wanted.sentinel.from(at),
        };
        let own = if let Content::Pattern(p, _) = &content {
            p.until_carry()
        } else {
            u64::MAX
        };
        let n = left
            .min(own)
            .min(now.expected.until_carry())
            .min(now.sentinel.until_carry());
        match count_symbolically(&content, n, &now) {
            Some(found) => counts.plus(at, found),
            None => count_generated(&content, n, at, wanted, counts),
        }
        content = content.skip(n * WORD);
        (left, at) = (left - n, at + n);
    }
}

/// The counts without generating words; `None` if they are unknown without that.
fn count_symbolically(content: &Content, n: u64, wanted: &CheckPatterns) -> Option<Counts> {
    let none = || EqualWords::At(Vec::new());
    let (right, zero, ones, sentinel) = match content {
        Content::Pattern(p, 0) => {
            let [zero, ones] = [0, u32::MAX].map(|word| p.equal_to(word, n));
            (
                p.equal(wanted.expected, n),
                zero,
                ones,
                p.equal(wanted.sentinel, n),
            )
        }
        Content::Byte(b) => {
            let value = u32::from_le_bytes([*b; 4]);
            let [zero, ones] =
                [0, 0xff].map(|byte| if *b == byte { EqualWords::All } else { none() });
            (
                wanted.expected.equal_to(value, n),
                zero,
                ones,
                wanted.sentinel.equal_to(value, n),
            )
        }
        _ => return None,
    };
    let right = match right {
        EqualWords::All => return Some(Counts::NONE),
        EqualWords::At(at) => at,
        EqualWords::Unknown => return None,
    };
    let also = |hits: EqualWords| match hits {
        EqualWords::All => Some(n - right.len() as u64),
        EqualWords::At(at) => Some(at.iter().filter(|k| !right.contains(k)).count() as u64),
        EqualWords::Unknown => None,
    };
    let bad = n - right.len() as u64;
    if bad == 0 {
        return Some(Counts::NONE);
    }
    let first = (0..n).find(|k| !right.contains(k))?;
    let last = (0..n).rev().find(|k| !right.contains(k))?;
    Some(Counts {
        bad,
        zeros: also(zero)?,
        ones: also(ones)?,
        sentinels: also(sentinel)?,
        first,
        last,
    })
}

/// Words generated at a time.
const CHUNK: u64 = 4096;

fn count_generated(
    content: &Content,
    words: u64,
    at: u64,
    wanted: &CheckPatterns,
    counts: &mut Counts,
) {
    let mut done = 0;
    while done < words {
        let n = CHUNK.min(words - done);
        let piece = (n * WORD, Some(content.skip(done * WORD)));
        count_words(&bytes(&[piece]), at + done, wanted, counts);
        done += n;
    }
}

/// Checks each word of `bytes`; returns the number of words.
fn count_words(bytes: &[u8], at: u64, wanted: &CheckPatterns, counts: &mut Counts) -> u64 {
    let (words, _) = bytes.as_chunks::<4>();
    for (k, word) in (at..).zip(words) {
        counts.add(k, u32::from_le_bytes(*word), wanted);
    }
    words.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: CheckPatterns = CheckPatterns {
        expected: Pattern {
            seed: 0xfeed_0000_0001,
            first: 64,
            flip: 0,
        },
        sentinel: Pattern {
            seed: 0xbead_0000_0002,
            first: 64,
            flip: 0,
        },
    };

    fn word_by_word(pieces: &[Piece]) -> Counts {
        let mut counts = Counts::NONE;
        count_words(&bytes(pieces), 0, &WANTED, &mut counts);
        counts
    }

    #[test]
    fn extents_count_like_words() {
        let right = |k: u64| Some(Content::pattern(WANTED.expected.seed, 64 + k));
        let old = |k: u64| Some(Content::pattern(WANTED.sentinel.seed, 64 + k));
        let cases = [
            vec![(4096, right(0))],
            vec![(400, right(0)), (400, old(100)), (400, right(200))],
            vec![(400, right(0)), (400, None), (400, right(200))],
            vec![(400, right(1)), (400, Some(Content::Byte(7)))],
            vec![(400, right(0)), (400, Some(Content::Byte(0xff)))],
            vec![
                (4, old(0)),
                (4, right(1)),
                (8, Some(Content::bytes(vec![1, 2, 3, 4, 0, 0, 0, 0]))),
            ],
            // A flip inside a word, and a piece that begins in the middle of one.
            vec![(3, right(0)), (1, Some(Content::Byte(1))), (4, right(1))],
            vec![(401, right(0)), (399, right(100).map(|c| c.skip(1)))],
            vec![(6, right(0)), (1, old(0)), (1, None), (8, right(2))],
        ];
        for pieces in cases {
            assert_eq!(count(&pieces, &WANTED), word_by_word(&pieces), "{pieces:?}");
        }
    }

    #[test]
    fn twenty_gigabytes_are_counted_symbolically() {
        let words = 20 << 28;
        let pieces = [(
            words * WORD,
            Some(Content::pattern(WANTED.sentinel.seed, 64)),
        )];
        let counts = count(&pieces, &WANTED);
        assert_eq!((counts.first, counts.last), (0, words - 1));
        assert!(counts.bad + 8 > words, "{counts:?}");
        assert_eq!(counts.bad, counts.sentinels);
        let pieces = [(
            words * WORD,
            Some(Content::pattern(WANTED.expected.seed, 64)),
        )];
        assert_eq!(count(&pieces, &WANTED), Counts::NONE);
    }

    #[test]
    fn an_expected_zero_is_not_counted() {
        let seed = (0..)
            .find(|s| {
                Pattern {
                    seed: *s,
                    first: 0,
                    flip: 0,
                }
                .equal_to(0, 1)
                    != EqualWords::At(vec![])
            })
            .unwrap();
        let wanted = CheckPatterns {
            expected: Pattern {
                seed,
                first: 0,
                flip: 0,
            },
            sentinel: Pattern {
                seed: 99,
                first: 0,
                flip: 0,
            },
        };
        let counts = count(&[(16, None)], &wanted);
        assert_eq!(
            (counts.bad, counts.zeros, counts.first, counts.last),
            (3, 3, 1, 3)
        );
    }
}
