//! Many copies of any size, between any addresses, in one launch, and one check of the results: see
//! `kernels/batch.cu`. The table of the copies is in page-locked memory of the host, where all GPUs read it.

use super::device::Gpu;
use super::error::GpuError;
use super::launch::{THREADS, at};
use super::stream::{Stream, same_size};
use super::tally::Tally;
use crate::cuda::memory::pinned::Pinned;
use crate::cuda::memory::span::{Extent, Span};
use std::marker::PhantomData;

/// One copy; everything is in bytes, and nothing needs to be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'m> {
    /// The target.
    pub to: Span<'m>,
    /// The source, of the same size.
    pub from: Span<'m>,
    /// The number of the first byte in the data's pattern.
    pub first: u64,
    /// The number of the target's first byte in the pattern around it; equal to `to`'s address modulo 4.
    pub place: u64,
}

impl Piece<'_> {
    /// The aligned words that a check with this many guard bytes reads.
    #[must_use]
    pub fn looked(&self, guard: u64) -> Extent {
        let begin = (self.to.address - guard) / 4 * 4;
        let end = (self.to.address + self.to.bytes + guard).next_multiple_of(4);
        Extent {
            address: begin,
            bytes: end - begin,
        }
    }
}

/// 64-bit numbers that describe a piece in the table.
const NUMBERS: u64 = 5;
const BYTES: u64 = NUMBERS * 8;

/// Memory for the descriptions of pieces.
#[derive(Debug)]
pub struct PieceTable {
    host: Pinned,
    room: u64,
}

/// Pieces in a table; it borrows the table and the memory of its pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch<'m> {
    address: u64,
    count: u64,
    memory: PhantomData<Span<'m>>,
}

impl PieceTable {
    /// A table with room for `room` pieces.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu, room: u64) -> Result<Self, GpuError> {
        Ok(Self {
            host: Pinned::alloc(gpu, room.max(1) * BYTES)?,
            room,
        })
    }

    /// Stores `pieces` after the first `before` ones. No GPU may be reading there.
    ///
    /// # Errors
    /// [`GpuError::Bounds`] if there is no room, or a source and its target differ in size.
    pub fn put<'m>(&'m self, before: u64, pieces: &[Piece<'m>]) -> Result<Batch<'m>, GpuError> {
        let count = pieces.len() as u64;
        if before.saturating_add(count) > self.room {
            return Err(GpuError::Bounds {
                offset: before,
                bytes: count,
                of: self.room,
            });
        }
        for (n, piece) in (before..).zip(pieces) {
            let Piece {
                to,
                from,
                first,
                place,
            } = *piece;
            same_size(to, from)?;
            for (k, number) in
                (n * NUMBERS..).zip([to.address, from.address, to.bytes, first, place])
            {
                let [low, high] = halves(number);
                self.host.set_word(k * 2, low);
                self.host.set_word(k * 2 + 1, high);
            }
        }
        let table = self.host.span(before * BYTES, count * BYTES)?;
        Ok(Batch {
            address: table.address,
            count,
            memory: PhantomData,
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are kept")]
const fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// The expected content of pieces and of the memory beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchExpected {
    /// The data's pattern.
    pub seed: u64,
    /// The pattern around the targets.
    pub sentinel: u64,
    /// Bytes beside each target that are checked too.
    pub guard: u64,
    /// Whether right data is overwritten again with the pattern around it.
    pub restore: bool,
}

/// In a batch check's word numbers, the bits below this one are the word and those above the piece.
const PIECE_BIT: u32 = 40;

/// The piece of a wrong word's number, and the word among those that were checked there.
#[must_use]
pub const fn wrong_piece(number: u64) -> (u64, u64) {
    (number >> PIECE_BIT, number & ((1 << PIECE_BIT) - 1))
}

impl Stream {
    /// Copies pieces with the multiprocessors; with `wide`, meant for large pieces, all threads work on one piece
    /// after the other.
    ///
    /// # Errors
    /// The driver's error.
    pub fn batch_copy(&self, batch: Batch<'_>, wide: bool) -> Result<(), GpuError> {
        let mut a = (batch.address, batch.count, u32::from(wide));
        let list = [at(&raw mut a.0), at(&raw mut a.1), at(&raw mut a.2)];
        let blocks = self.blocks(batch, wide);
        self.launch(
            self.kernels().batch_copy,
            blocks,
            THREADS,
            &list,
            "fl_batch_copy",
        )
    }

    /// Counts wrong words in and beside pieces, which must all be in this GPU's memory.
    ///
    /// # Errors
    /// The driver's error.
    pub fn check_batch(
        &self,
        batch: Batch<'_>,
        wide: bool,
        expected: &BatchExpected,
        tally: &Tally,
    ) -> Result<(), GpuError> {
        let out = tally.preset(self, 3)?;
        let mut a = (
            batch.address,
            batch.count,
            u32::from(wide),
            expected.seed,
            expected.sentinel,
        );
        let mut b = (expected.guard, u32::from(expected.restore), out.address);
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
            at(&raw mut a.4),
            at(&raw mut b.0),
            at(&raw mut b.1),
            at(&raw mut b.2),
        ];
        let blocks = self.blocks(batch, wide);
        self.launch(
            self.kernels().batch_check,
            blocks,
            THREADS,
            &list,
            "fl_batch_check",
        )?;
        tally.fetch(self)
    }

    fn blocks(&self, batch: Batch<'_>, wide: bool) -> u32 {
        // As many as keep the GPU busy, or one for each piece if those are fewer.
        self.grid(if wide {
            u64::MAX
        } else {
            batch.count.saturating_mul(u64::from(THREADS))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_reads_whole_words_around_the_data() {
        let (to, from) = (Span::fixture(0x1003, 2), Span::fixture(0, 2));
        let piece = Piece {
            to,
            from,
            first: 0,
            place: 3,
        };
        assert_eq!(
            piece.looked(64),
            Extent {
                address: 0x1003 - 67,
                bytes: 136
            }
        );
        assert_eq!(
            piece.looked(0),
            Extent {
                address: 0x1000,
                bytes: 8
            }
        );
    }

    #[test]
    fn a_wrong_word_names_its_piece() {
        assert_eq!(wrong_piece(3 << 40 | 17), (3, 17));
        assert_eq!(halves(0x1_0000_0002), [2, 1]);
    }
}
