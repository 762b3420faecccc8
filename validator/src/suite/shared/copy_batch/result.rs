//! The result of a batch of copies, and the kind of its fault. Pure.

use super::super::transfer::{Circumstance, Fault, FaultKind, Traces, Transfer, TransferKind};
use crate::schedule::Pair;
use gpu::pattern::Excerpt;
use gpu::pattern::{Counts, DataFault, Evidence, classify, word};
use gpu::{BatchExpected, GpuError, Piece};

/// The result of a batch of copies.
#[derive(Debug)]
pub(in crate::suite) enum BatchResult {
    /// All data arrived and nothing else changed.
    Correct,
    /// The check found wrong words, or did not read all of them.
    Wrong(Counts),
    /// CUDA or a GPU failed.
    Broken(GpuError),
    /// Not known, because another operation failed first.
    Unknown,
}

/// A copy with wrong data or with changes beside its target.
#[derive(Debug, Clone)]
pub(in crate::suite) struct WrongCopy<'m> {
    pub(super) pair: Pair,
    pub(super) kind: TransferKind,
    pub(super) piece: Piece<'m>,
    pub(super) expected: BatchExpected,
    /// Wrong words of the whole batch.
    pub(super) wrong_in_batch: u64,
    /// This copy's counts from a second check; the first word is the aligned one before its guard.
    pub(super) again: Counts,
    /// The number of the first wrong word, and the words found from there on.
    pub(super) at: u64,
    pub(super) found: Vec<u32>,
}

impl WrongCopy<'_> {
    /// The fault for the report.
    pub(in crate::suite) fn fault(&self, circumstance: Circumstance) -> Fault {
        let Self {
            pair,
            kind,
            piece,
            again,
            found,
            ..
        } = self;
        let looked = piece.looked(self.expected.guard);
        let shift = (piece.from.address % 4096, piece.to.address % 4096);
        let transfer = Transfer {
            pair: *pair,
            kind: *kind,
            bytes: piece.to.bytes,
            shift,
        };
        let expected = (self.at..)
            .take(found.len())
            .map(|k| self.word(k))
            .collect();
        let counts = Counts {
            wrong: again.wrong.max(self.wrong_in_batch.min(1)),
            ..*again
        };
        let traces = Traces {
            counts: Counts {
                first: counts.first.or(Some(self.at)),
                ..counts
            },
            address: looked.address,
            first: 0,
            seed: self.expected.seed,
            found: found
                .iter()
                .copied()
                .take(super::super::transfer::SAMPLE)
                .collect(),
            expected: Some(expected),
        };
        Fault {
            transfer,
            what: self.what(),
            traces,
            times: None,
            circumstance,
        }
    }

    /// The words of the target, counted from the aligned word before its guard.
    fn inside(&self) -> std::ops::Range<u64> {
        let begin = self.piece.looked(self.expected.guard).address;
        let from = (self.piece.to.address - begin) / 4;
        from..(self.piece.to.address + self.piece.to.bytes - begin).div_ceil(4)
    }

    fn what(&self) -> FaultKind {
        let words = self.piece.looked(self.expected.guard).words();
        if self.again.all_right(words) {
            return FaultKind::Data(DataFault::Late);
        }
        if self.again.wrong == 0 {
            return FaultKind::Checker("a check did not read every word");
        }
        let inside = self.inside();
        let (first, last) = (
            self.again.first.unwrap_or_default(),
            self.again.last.unwrap_or_default(),
        );
        if last < inside.start || first >= inside.end {
            return FaultKind::Beside;
        }
        // Pattern words line up with memory words only if both have the same alignment.
        let even = (self.piece.first % 4) == (self.piece.to.address % 4);
        let number = self.piece.first / 4;
        let place = first.saturating_sub(inside.start);
        let pieces = [Excerpt {
            place,
            words: self.found.clone(),
        }];
        let within = |n: u64| n.saturating_sub(inside.start);
        let counts = Counts {
            looked: inside.end - inside.start,
            first: Some(place),
            last: Some(within(last)),
            ..self.again
        };
        FaultKind::Data(classify(&Evidence {
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
        let Self {
            piece, expected, ..
        } = self;
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
            None => byte(
                expected.sentinel,
                piece.place.wrapping_sub(piece.to.address - at),
            ),
        };
        u32::from_le_bytes([of(begin), of(begin + 1), of(begin + 2), of(begin + 3)])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::transfer::{Direction, Engine, Memory};
    use super::*;
    use gpu::Span;

    fn wrong_copy(change: impl FnOnce(&mut Counts)) -> WrongCopy<'static> {
        let kind = TransferKind {
            engine: Engine::Sm,
            direction: Direction::Write,
            memory: Memory::Plain,
        };
        let (to, from) = (Span::fixture(0x10_0043, 401), Span::fixture(0x20_0001, 401));
        let piece = Piece {
            to,
            from,
            first: 9,
            place: 0x43,
        };
        let expected = BatchExpected {
            seed: 5,
            sentinel: 6,
            guard: 64,
            restore: true,
        };
        let looked = piece.looked(64).words();
        let mut again = Counts {
            looked,
            wrong: 3,
            zeros: 0,
            ones: 0,
            sentinels: 0,
            first: Some(20),
            last: Some(22),
        };
        change(&mut again);
        let at = again.first.unwrap_or_default();
        WrongCopy {
            pair: Pair::of(0, 1),
            kind,
            piece,
            expected,
            wrong_in_batch: 3,
            again,
            at,
            found: vec![7; 4],
        }
    }

    #[test]
    fn expected_words_of_guard_and_data_follow_their_patterns() {
        let wrong_copy = wrong_copy(|_| {});
        assert_eq!(
            wrong_copy.word(0),
            word(6, 0),
            "the guard begins at a word boundary here"
        );
        let first = wrong_copy.inside().start;
        let [.., last] = wrong_copy.word(first).to_le_bytes();
        assert_eq!(
            last,
            word(5, 2).to_le_bytes()[1],
            "three bytes of guard, then byte 9 of the data"
        );
        let fault = wrong_copy.fault(Circumstance::OtherPairsActive);
        assert!(
            fault.circumstance == Circumstance::OtherPairsActive
                && fault.transfer.shift == (1, 0x43)
                && fault.traces.expected.unwrap().len() == 4
        );
    }

    #[test]
    fn wrong_guard_words_are_beside_the_target_and_data_that_is_right_later_is_late() {
        let beside = wrong_copy(|c| (c.first, c.last) = (Some(2), Some(3)));
        assert_eq!(beside.what(), FaultKind::Beside);
        let late = wrong_copy(|c| (c.wrong, c.first, c.last) = (0, None, None));
        assert_eq!(late.what(), FaultKind::Data(DataFault::Late));
        let zeros = wrong_copy(|c| c.zeros = 3);
        assert!(
            matches!(
                zeros.what(),
                FaultKind::Data(DataFault::Partial { .. } | DataFault::Zeros)
            ),
            "{:?}",
            zeros.what()
        );
        let blind = wrong_copy(|c| (c.looked, c.wrong, c.first, c.last) = (0, 0, None, None));
        assert!(matches!(blind.what(), FaultKind::Checker(_)));
        assert_eq!(
            wrong_copy(|_| {}).what(),
            FaultKind::Data(DataFault::Garbage)
        );
    }
}
