//! The content of the memory under test, and the transfers that move it. Pure: both nodes know the same plan.
//!
//! Each side has two regions of memory, called boxes: it sends from the first one and receives in the second one.

use gpu::pattern;
use serde::{Deserialize, Serialize};

/// The size of a box, bytes.
pub(super) const BOX: usize = 4 << 20;
/// Bytes that are compared at a time.
const BLOCK: usize = 4 << 10;
/// Bytes between two places where data arrives; they must not change.
const GAP: usize = 61;
/// The number of small transfers, and the largest of their sizes, bytes.
const SMALL: usize = 1000;
const SMALL_SIZES: usize = 64;
/// Sizes around every power of two at which cards change their behaviour: inline data, a cache line, a packet, a page, a
/// message of many packets.
const SIZES: [usize; 38] = [
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511,
    513, 1023, 1025, 2047, 2049, 4095, 4096, 4097, 8191, 16_385, 65_535, 65_537, 262_143,
    1_048_579,
];

/// One transfer: its offsets in both boxes and its size, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: usize,
}

/// A list of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plan {
    /// All sizes, and many small ones.
    Sizes,
    /// Transfers of this size through the whole box.
    Whole(usize),
}

impl Plan {
    /// The transfers, in the order of their addresses.
    pub(super) fn transfers(self) -> Vec<Transfer> {
        match self {
            Self::Whole(bytes) => {
                let bytes = bytes.clamp(1, BOX);
                (0..BOX / bytes)
                    .map(|n| Transfer {
                        from: n * bytes,
                        to: n * bytes,
                        bytes,
                    })
                    .collect()
            }
            Self::Sizes => {
                let (mut pieces, mut from, mut to) = (Vec::new(), 0, GAP);
                let small = (0..SMALL).map(|n| 1 + n % SMALL_SIZES);
                for bytes in SIZES.into_iter().chain(small) {
                    pieces.push(Transfer { from, to, bytes });
                    // Both sides are unaligned, with different offsets.
                    (from, to) = (from + bytes + 3, to + bytes + GAP);
                }
                pieces
            }
        }
    }
}

/// The content of a box with this seed: two words of the pattern at a time, because without optimization each step of a loop
/// costs more than a word.
pub(super) fn content(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; BOX];
    let mut number = 0;
    for eight in bytes.as_chunks_mut().0 {
        let (low, high) = (pattern::word(seed, number), pattern::word(seed, number + 1));
        *eight = ((high as u64) << 32 | low as u64).to_le_bytes();
        number += 2;
    }
    bytes
}

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    /// How many.
    pub count: u64,
    /// Where the first one is.
    pub at: u64,
    /// Its value, and the expected one.
    pub found: u8,
    /// See `found`.
    pub expected: u8,
    /// The size of the transfer that should have written it; `None`: none should have.
    pub transfer: Option<u64>,
}

/// Compares a box that was filled with `sentinel` with what the other side's data (`source`) should have made of it.
pub(super) fn compare(found: &[u8], plan: Plan, source: u64, sentinel: u64) -> Option<Wrong> {
    let pieces = plan.transfers();
    let expected = match plan {
        // Everything arrives where it was sent from.
        Plan::Whole(bytes) if BOX.is_multiple_of(bytes) => content(source),
        _ => transferred(&content(source), &pieces, content(sentinel)),
    };
    // Nearly all blocks are right, and comparing a whole block is many times faster.
    let blocks = found.chunks(BLOCK).zip(expected.chunks(BLOCK)).enumerate();
    let wrong_blocks = blocks.filter(|(_, (found, expected))| found != expected);
    let bytes = wrong_blocks.flat_map(|(nth, (found, expected))| {
        (nth * BLOCK..).zip(found.iter().copied().zip(expected))
    });
    let mut wrong = bytes.filter(|(_, (found, expected))| found != *expected);
    let (at, (found, expected)) = wrong.next()?;
    let transfer = pieces
        .iter()
        .find(|piece| (piece.to..piece.to + piece.bytes).contains(&at));
    Some(Wrong {
        count: 1 + wrong.count() as u64,
        at: at as u64,
        found,
        expected: *expected,
        transfer: transfer.map(|piece| piece.bytes as u64),
    })
}

/// A box with the content `to`, after the transfers from one with the content `from`.
fn transferred(from: &[u8], pieces: &[Transfer], mut to: Vec<u8>) -> Vec<u8> {
    for Transfer {
        from: at,
        to: there,
        bytes,
    } in pieces
    {
        if let (Some(into), Some(out)) =
            (to.get_mut(*there..there + bytes), from.get(*at..at + bytes))
        {
            into.copy_from_slice(out);
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(plan: Plan, source: u64, sentinel: u64) -> Vec<u8> {
        let (from, mut to) = (content(source), content(sentinel));
        for Transfer {
            from: at,
            to: there,
            bytes,
        } in plan.transfers()
        {
            to[there..there + bytes].copy_from_slice(&from[at..at + bytes]);
        }
        to
    }

    #[test]
    fn the_transfers_lie_in_the_boxes_and_do_not_touch() {
        for plan in [Plan::Sizes, Plan::Whole(65_536), Plan::Whole(1 << 20)] {
            let pieces = plan.transfers();
            for two in pieces.windows(2) {
                assert!(
                    two[0].to + two[0].bytes <= two[1].to
                        && two[0].from + two[0].bytes <= two[1].from
                );
            }
            let last = pieces.last().unwrap();
            assert!(
                last.to + last.bytes <= BOX && last.from + last.bytes <= BOX,
                "{last:?}"
            );
        }
        assert_eq!(Plan::Sizes.transfers().len(), SIZES.len() + SMALL);
    }

    #[test]
    fn a_wrong_a_missing_and_a_stray_byte_are_found() {
        for plan in [Plan::Sizes, Plan::Whole(65_536)] {
            let right = arrived(plan, 1, 2);
            assert_eq!(compare(&right, plan, 1, 2), None);
            assert!(
                compare(&right, plan, 3, 2).is_some()
                    && compare(&right, plan, 1, 3).is_some() == (plan == Plan::Sizes)
            );
            let piece = plan.transfers()[20];
            let mut wrong = right.clone();
            wrong[piece.to + 1] ^= 1;
            let found = compare(&wrong, plan, 1, 2).unwrap();
            assert_eq!(
                (found.count, found.at, found.transfer),
                (1, piece.to as u64 + 1, Some(piece.bytes as u64))
            );
        }
        let mut stray = arrived(Plan::Sizes, 1, 2);
        stray[GAP - 1] ^= 0x80;
        assert_eq!(compare(&stray, Plan::Sizes, 1, 2).unwrap().transfer, None);
        assert!(compare(&content(2), Plan::Sizes, 1, 2).unwrap().count > 1_000_000);
    }
}
