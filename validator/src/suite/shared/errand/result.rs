//! The result of an errand, and the kind of fault. Pure.

use super::super::transfer::{Cell, Fault, Kind, Traces, What};
use crate::gpu::pattern::Piece as Found;
use crate::gpu::pattern::{Counts, Evidence, Wrong, classify, word};
use crate::gpu::{BatchExpected, GpuError, Piece};
use crate::schedule::Pair;

/// The result of an errand.
#[derive(Debug)]
pub(in crate::suite) enum ErrandResult {
    /// All data arrived and nothing else changed.
    Correct,
    /// The check counted something else.
    Wrong(Counts),
    /// The errand could not be carried out.
    Broken(GpuError),
    /// Another operation failed first.
    Unknown,
}

/// A copy that went wrong.
#[derive(Debug, Clone)]
pub(in crate::suite) struct Mistake<'m> {
    pub(super) pair: Pair,
    pub(super) kind: Kind,
    pub(super) piece: Piece<'m>,
    pub(super) expected: BatchExpected,
    /// Wrong words of the whole errand.
    pub(super) crowd: u64,
    /// This copy's counts from a second check; the first word is the aligned one before its guard.
    pub(super) again: Counts,
    /// The number of the first wrong word, and the words found from there on.
    pub(super) at: u64,
    pub(super) found: Vec<u32>,
}

impl Mistake<'_> {
    /// The fault for the report; `amid`: other pairs moved data at the same time.
    pub(in crate::suite) fn fault(&self, amid: bool) -> Fault {
        let Self { pair, kind, piece, again, found, .. } = self;
        let looked = piece.looked(self.expected.guard);
        let shift = (piece.from.address % 4096, piece.to.address % 4096);
        let cell = Cell { pair: *pair, kind: *kind, bytes: piece.to.bytes, shift };
        let expected = (self.at..).take(found.len()).map(|k| self.word(k)).collect();
        let counts = Counts { wrong: again.wrong.max(self.crowd.min(1)), ..*again };
        let traces = Traces {
            counts: Counts { first: counts.first.or(Some(self.at)), ..counts },
            address: looked.address,
            first: 0,
            seed: self.expected.seed,
            found: found.iter().copied().take(super::super::transfer::SAMPLE).collect(),
            expected: Some(expected),
        };
        Fault { cell, what: self.what(), traces, times: None, amid }
    }

    /// The words of the target, counted from the aligned word before its guard.
    fn inside(&self) -> std::ops::Range<u64> {
        let begin = self.piece.looked(self.expected.guard).address;
        let from = (self.piece.to.address - begin) / 4;
        from..(self.piece.to.address + self.piece.to.bytes - begin).div_ceil(4)
    }

    fn what(&self) -> What {
        let words = self.piece.looked(self.expected.guard).words();
        if self.again.all_right(words) {
            return What::Data(Wrong::Late);
        }
        if self.again.wrong == 0 {
            return What::Checker("a check did not read every word");
        }
        let inside = self.inside();
        let (first, last) = (self.again.first.unwrap_or_default(), self.again.last.unwrap_or_default());
        if last < inside.start || first >= inside.end {
            return What::Beside;
        }
        // Pattern words line up with memory words only if both have the same alignment.
        let even = (self.piece.first % 4) == (self.piece.to.address % 4);
        let number = self.piece.first / 4;
        let place = first.saturating_sub(inside.start);
        let pieces = [Found { place, words: self.found.clone() }];
        let within = |n: u64| n.saturating_sub(inside.start);
        let counts = Counts {
            looked: inside.end - inside.start,
            first: Some(place),
            last: Some(within(last)),
            ..self.again
        };
        What::Data(classify(&Evidence {
            counts,
            first: number,
            expected: self.expected.seed,
            older: &[],
            pieces: if even { &pieces } else { &[] },
            again: None,
            through_peer: None,
            source: None,
            elsewhere: None,
        }))
    }

    /// The expected value of word `k`, counted from the aligned word before the guard.
    fn word(&self, k: u64) -> u32 {
        let Self { piece, expected, .. } = self;
        let begin = piece.looked(expected.guard).address + k * 4;
        let byte = |seed: u64, n: u64| {
            let [a, b, c, d] = word(seed, n / 4).to_le_bytes();
            match n % 4 {
                0 => a,
                1 => b,
                2 => c,
                _ => d,
            }
        };
        let of = |at: u64| match at.checked_sub(piece.to.address) {
            Some(n) if n < piece.to.bytes => byte(expected.seed, piece.first + n),
            Some(n) => byte(expected.sentinel, piece.place + n),
            None => byte(expected.sentinel, piece.place.wrapping_sub(piece.to.address - at)),
        };
        u32::from_le_bytes([of(begin), of(begin + 1), of(begin + 2), of(begin + 3)])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::transfer::{Engine, Memory, Way};
    use super::*;
    use crate::gpu::Span;

    fn mistake(change: impl FnOnce(&mut Counts)) -> Mistake<'static> {
        let kind = Kind { engine: Engine::Sm, way: Way::Write, memory: Memory::Plain };
        let (to, from) = (Span::fixture(0x10_0043, 401), Span::fixture(0x20_0001, 401));
        let piece = Piece { to, from, first: 9, place: 0x43 };
        let expected = BatchExpected { seed: 5, sentinel: 6, guard: 64, restore: true };
        let looked = piece.looked(64).words();
        let mut again =
            Counts { looked, wrong: 3, zeros: 0, ones: 0, sentinels: 0, first: Some(20), last: Some(22) };
        change(&mut again);
        let at = again.first.unwrap_or_default();
        Mistake { pair: Pair::of(0, 1), kind, piece, expected, crowd: 3, again, at, found: vec![7; 4] }
    }

    #[test]
    fn expected_words_of_guard_and_data_follow_their_patterns() {
        let mistake = mistake(|_| {});
        assert_eq!(mistake.word(0), word(6, 0), "the guard begins at a word boundary here");
        let first = mistake.inside().start;
        let [.., last] = mistake.word(first).to_le_bytes();
        assert_eq!(last, word(5, 2).to_le_bytes()[1], "three bytes of guard, then byte 9 of the data");
        let fault = mistake.fault(true);
        assert!(fault.amid && fault.cell.shift == (1, 0x43) && fault.traces.expected.unwrap().len() == 4);
    }

    #[test]
    fn wrong_guard_words_are_beside_the_target_and_data_that_is_right_later_is_late() {
        let beside = mistake(|c| (c.first, c.last) = (Some(2), Some(3)));
        assert_eq!(beside.what(), What::Beside);
        let late = mistake(|c| (c.wrong, c.first, c.last) = (0, None, None));
        assert_eq!(late.what(), What::Data(Wrong::Late));
        let zeros = mistake(|c| c.zeros = 3);
        assert!(
            matches!(zeros.what(), What::Data(Wrong::Partial { .. } | Wrong::Zeros)),
            "{:?}",
            zeros.what()
        );
        let blind = mistake(|c| (c.looked, c.wrong, c.first, c.last) = (0, 0, None, None));
        assert!(matches!(blind.what(), What::Checker(_)));
        assert_eq!(mistake(|_| {}).what(), What::Data(Wrong::Garbage));
    }
}
