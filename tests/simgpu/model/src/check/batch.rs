//! Computes from extents what `fl_batch_check` counts in one piece of a table.

use crate::check::Counts;
use crate::content::{Content, WORD};
use crate::extents::{Piece, after, bytes, cut};
use crate::pattern::Pattern;

/// One copy of a table, as the kernels read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCopy {
    /// Target address.
    pub to: u64,
    /// Source address.
    pub from: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Index of its first byte in the data's pattern.
    pub first: u64,
    /// Index of its target's first byte in the pattern of the memory around it.
    pub place: u64,
}

impl TableCopy {
    /// The whole words that contain the target and `guard` bytes on both sides: address and length.
    #[must_use]
    pub fn checked_range(&self, guard: u64) -> (u64, u64) {
        let begin = (self.to - guard) / WORD * WORD;
        (
            begin,
            (self.to + self.bytes + guard).next_multiple_of(WORD) - begin,
        )
    }

    /// The correct contents of those words.
    #[must_use]
    pub fn expected(&self, guard: u64, seed: u64, sentinel: u64) -> Vec<Piece> {
        let (begin, all) = self.checked_range(guard);
        let before = self.to - begin;
        vec![
            (before, Some(pattern_from(sentinel, self.place - before))),
            (self.bytes, Some(pattern_from(seed, self.first))),
            (
                all - before - self.bytes,
                Some(pattern_from(sentinel, self.place + self.bytes)),
            ),
        ]
    }
}

/// A pattern, starting at one of its bytes.
#[must_use]
pub fn pattern_from(seed: u64, byte: u64) -> Content {
    let first = u8::try_from(byte % WORD).unwrap_or_default();
    Content::Pattern(
        Pattern {
            seed,
            first: byte / WORD,
            flip: 0,
        },
        first,
    )
}

/// Differing stretches that are longer than this are counted as a whole, not word by word.
const MAX_EXPANDED: u64 = 1 << 20;

/// Counts the words of `found` that differ from `expected`; `before` is the sentinel. All have the same length.
#[must_use]
pub fn count(found: &[Piece], expected: &[Piece], before: &[Piece]) -> Counts {
    let mut counts = Counts::NONE;
    let mut at = 0;
    for (from, to) in differing(found, expected) {
        // Widened to whole words, without counting a word twice.
        let (from, to) = ((from / WORD * WORD).max(at), to.next_multiple_of(WORD));
        if to - from > MAX_EXPANDED {
            let [f, b] = [found, before].map(|p| cut(&after(p, from), to - from));
            let zeros = f
                .iter()
                .all(|(_, c)| matches!(c, None | Some(Content::Byte(0))));
            let ones = f
                .iter()
                .all(|(_, c)| matches!(c, Some(Content::Byte(0xff))));
            counts.bad += (to - from) / WORD;
            counts.zeros += if zeros { (to - from) / WORD } else { 0 };
            counts.ones += if ones { (to - from) / WORD } else { 0 };
            counts.sentinels += if differing(&f, &b).is_empty() {
                (to - from) / WORD
            } else {
                0
            };
            (counts.first, counts.last) = (
                counts.first.min(from / WORD),
                counts.last.max(to / WORD - 1),
            );
        } else {
            let real = [found, expected, before].map(|p| bytes(&cut(&after(p, from), to - from)));
            let [f, e, b] = real.each_ref().map(|bytes| bytes.as_chunks::<4>().0);
            let words = (from / WORD..).zip(f.iter().zip(e).zip(b));
            for (k, (f, b)) in words
                .filter(|(_, ((f, e), _))| f != e)
                .map(|(k, ((f, _), b))| (k, (f, b)))
            {
                counts.bad += 1;
                counts.zeros += u64::from(*f == [0; 4]);
                counts.ones += u64::from(*f == [0xff; 4]);
                counts.sentinels += u64::from(f == b);
                (counts.first, counts.last) = (counts.first.min(k), counts.last.max(k));
            }
        }
        at = to;
    }
    counts
}

/// The byte ranges in which the two differ, judging by their symbolic contents, in order.
#[must_use]
pub fn differing(a: &[Piece], b: &[Piece]) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let long = |p: &&Piece| p.0 > 0;
    let (mut a, mut b) = (
        a.iter().filter(long).cloned(),
        b.iter().filter(long).cloned(),
    );
    let (mut x, mut y) = (None, None);
    let mut at = 0;
    loop {
        let next = |open: &mut Option<Piece>, rest: &mut dyn Iterator<Item = Piece>| {
            open.take().or_else(|| rest.next())
        };
        let (Some((n, c)), Some((m, d))) = (next(&mut x, &mut a), next(&mut y, &mut b)) else {
            return found;
        };
        let both = n.min(m);
        let [c, d] = [c, d].map(|c| c.unwrap_or(Content::ZEROS));
        if !same(&c, &d) {
            match found.last_mut().filter(|(_, end)| *end == at) {
                Some(last) => last.1 = at + both,
                None => found.push((at, at + both)),
            }
        }
        x = (n > both).then(|| (n - both, Some(c.skip(both))));
        y = (m > both).then(|| (m - both, Some(d.skip(both))));
        at += both;
    }
}

fn same(a: &Content, b: &Content) -> bool {
    match (a, b) {
        (Content::Byte(a), Content::Byte(b)) => a == b,
        (Content::Pattern(a, i), Content::Pattern(b, j)) => (a, i) == (b, j),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: TableCopy = TableCopy {
        to: 0x1003,
        from: 0x5001,
        bytes: 4001,
        first: 77,
        place: 4003,
    };

    fn count_found(found: &[Piece]) -> Counts {
        let expected = COPY.expected(64, 1, 2);
        let (begin, all) = COPY.checked_range(64);
        let before = [(all, Some(pattern_from(2, COPY.place - (COPY.to - begin))))];
        count(found, &expected, &before)
    }

    #[test]
    fn expected_contents_count_as_correct_symbolic_or_as_bytes() {
        let expected = COPY.expected(64, 1, 2);
        assert_eq!(
            expected.iter().map(|(n, _)| n).sum::<u64>(),
            COPY.checked_range(64).1
        );
        assert_eq!(count_found(&expected), Counts::NONE);
        let real = bytes(&expected);
        let n = real.len() as u64;
        assert_eq!(
            count_found(&[(n, Some(Content::bytes(real)))]),
            Counts::NONE
        );
    }

    #[test]
    fn wrong_words_are_counted_with_their_indices() {
        let expected = COPY.expected(64, 1, 2);
        let mut real = bytes(&expected);
        let n = real.len() as u64;
        real[70] ^= 1;
        let found = count_found(&[(n, Some(Content::bytes(real)))]);
        assert_eq!((found.bad, found.first, found.last), (1, 17, 17));
        let (begin, all) = COPY.checked_range(64);
        let nothing = count_found(&[(all, Some(pattern_from(2, COPY.place - (COPY.to - begin))))]);
        assert_eq!((nothing.bad, nothing.sentinels), (1001, 1001));
        assert_eq!(nothing.first, (COPY.to - begin) / 4);
    }
}
