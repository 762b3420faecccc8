//! A batch of copies from one GPU to another, of odd sizes at odd addresses, which runs at the same time as the
//! batches of other pairs. The GPU that owns the target memory checks each copy byte by byte, with the memory
//! beside it, and restores the previous content where it is right.

mod result;
mod shape;

pub(in crate::suite) use result::{BatchResult, WrongCopy};
pub(in crate::suite) use shape::{CopyShape, GUARD, size_ladder, small_copies};

use super::transfer::{Engine, TransferKind};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::protocol::Activity;
use gpu::pattern::Counts;
use gpu::{
    Batch, BatchExpected, GpuError, Piece, PieceTable, Pinned, Span, Stream, Tally, is_cuda_lost,
    wrong_piece,
};
use machine::GpuId;
use std::time::Duration;

/// Time for everything other than copying.
const GRACE: Duration = Duration::from_secs(4);
/// The lowest rate of a healthy path, bytes per second.
const SLOWEST: u64 = 200_000_000;
/// The longest time limit for copying.
const LONGEST: Duration = Duration::from_secs(20);
/// Words that are fetched around a fault.
const WINDOW: u64 = 64;

/// The copies of one pair, and the GPU that checks them.
pub(in crate::suite) struct CopyBatch<'a> {
    /// `from` runs the copies, on the memory of `to`.
    pub(in crate::suite) pair: Pair,
    pub(in crate::suite) kind: TransferKind,
    pub(in crate::suite) pieces: Vec<Piece<'a>>,
    /// The copies are large: all threads of a kernel work on one after the other.
    pub(in crate::suite) wide: bool,
    /// How many times all copies are made.
    pub(in crate::suite) times: u32,
    pub(in crate::suite) expected: BatchExpected,
    /// A queue of the GPU that runs the copies, used by this batch alone.
    pub(in crate::suite) worker: &'a Stream,
    pub(in crate::suite) owner: TargetOwner<'a>,
}

/// The GPU that owns the targets' memory, with what it needs to check them.
#[derive(Debug, Clone, Copy)]
pub(in crate::suite) struct TargetOwner<'a> {
    pub(in crate::suite) gpu: GpuId,
    pub(in crate::suite) stream: &'a Stream,
    pub(in crate::suite) tally: &'a Tally,
    pub(in crate::suite) host: &'a Pinned,
    /// The memory that holds the targets and their guards.
    pub(in crate::suite) memory: Span<'a>,
}

impl CopyBatch<'_> {
    fn bytes(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.to.bytes)
            .sum::<u64>()
            .saturating_mul(u64::from(self.times))
    }

    fn patience(&self) -> Duration {
        GRACE + Duration::from_secs(self.bytes() / SLOWEST).min(LONGEST)
    }

    /// Words that a check reads.
    fn words(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| piece.looked(self.expected.guard).words())
            .sum()
    }

    fn doing(&self) -> String {
        format!("{}: {} {}s", self.pair, self.pieces.len(), self.kind)
    }

    fn start(&self, batch: Batch<'_>) -> Result<(), GpuError> {
        for _ in 0..self.times {
            match self.kind.engine {
                Engine::Sm => self.worker.batch_copy(batch, self.wide)?,
                Engine::Copy | Engine::Staged => {
                    for piece in &self.pieces {
                        self.worker.copy(piece.to, piece.from)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Runs all batches at the same time, then checks each of them; results are in the order of the batches.
/// Once a GPU hangs or breaks, results not yet known stay unknown.
pub(in crate::suite) fn run(
    context: &TestContext,
    table: &PieceTable,
    copy_batches: &[CopyBatch<'_>],
) -> Result<Vec<BatchResult>, GpuError> {
    let mut all: Vec<BatchResult> = copy_batches.iter().map(|_| BatchResult::Unknown).collect();
    let mut batches = Vec::new();
    let mut before = 0;
    for copy_batch in copy_batches {
        batches.push(table.put(before, &copy_batch.pieces)?);
        before += copy_batch.pieces.len() as u64;
    }
    if let Some(first) = copy_batches.first() {
        context.doing(Activity {
            what: format!("{}, {} pairs at once", first.doing(), copy_batches.len()),
            pair: Some(first.pair),
        });
    }
    let work = || copy_batches.iter().zip(&batches);
    for ((copy_batch, batch), result) in work().zip(&mut all) {
        note(result, copy_batch.start(*batch));
        if is_cuda_lost() {
            return Ok(all);
        }
    }
    for (copy_batch, result) in copy_batches.iter().zip(&mut all) {
        note(
            result,
            copy_batch
                .worker
                .finish(&copy_batch.doing(), copy_batch.patience()),
        );
        if is_cuda_lost() {
            return Ok(all);
        }
    }
    for wave in waves(&copy_batches.iter().map(|e| e.owner.gpu).collect::<Vec<_>>()) {
        let of = |n: &usize| Some((copy_batches.get(*n)?, *batches.get(*n)?));
        for (copy_batch, batch) in wave.iter().filter_map(of) {
            let TargetOwner { stream, tally, .. } = copy_batch.owner;
            stream.check_batch(batch, copy_batch.wide, &copy_batch.expected, tally)?;
        }
        for n in &wave {
            let (Some(copy_batch), Some(result)) = (copy_batches.get(*n), all.get_mut(*n)) else {
                continue;
            };
            let counts = copy_batch.counted()?;
            if matches!(result, BatchResult::Broken(_)) {
                continue;
            }
            *result = if counts.all_right(copy_batch.words()) {
                BatchResult::Correct
            } else {
                BatchResult::Wrong(counts)
            };
        }
    }
    Ok(all)
}

fn note(result: &mut BatchResult, outcome: Result<(), GpuError>) {
    if let (BatchResult::Unknown, Err(error)) = (&result, outcome) {
        *result = BatchResult::Broken(error);
    }
}

/// Indices of batches, in waves in which each owner occurs at most once, because it has only one tally.
fn waves(owners: &[GpuId]) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    for (n, owner) in owners.iter().enumerate() {
        let before = owners.iter().take(n).filter(|k| *k == owner).count();
        if waves.len() <= before {
            waves.resize(before + 1, Vec::new());
        }
        if let Some(wave) = waves.get_mut(before) {
            wave.push(n);
        }
    }
    waves
}

impl CopyBatch<'_> {
    fn counted(&self) -> Result<Counts, GpuError> {
        let doing = format!("GPU {}: checking what arrived", self.owner.gpu);
        self.owner.stream.finish(&doing, self.patience())?;
        Ok(self.owner.tally.checked().into())
    }

    /// Checks the first wrong copy again, and fetches words from the first wrong one on.
    pub(in crate::suite) fn inspect_wrong(
        &self,
        table: &PieceTable,
        counts: &Counts,
    ) -> Result<WrongCopy<'_>, GpuError> {
        let number = counts.first.map_or(0, |first| wrong_piece(first).0);
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let none = || {
            GpuError::Nonsense(format!(
                "{}: wrong in copy {number}, which does not exist",
                self.doing()
            ))
        };
        let piece = *self.pieces.get(place).ok_or_else(none)?;
        let TargetOwner {
            stream,
            tally,
            host,
            memory,
            ..
        } = self.owner;
        let batch = table.put(0, &[piece])?;
        let keep = BatchExpected {
            restore: false,
            ..self.expected
        };
        stream.check_batch(batch, self.wide, &keep, tally)?;
        let again = self.counted()?;
        let looked = piece.looked(self.expected.guard);
        let at = again
            .first
            .or(counts.first.map(|first| wrong_piece(first).1))
            .unwrap_or_default();
        let count = WINDOW.min(looked.words().saturating_sub(at));
        stream.copy_out(
            host.span(0, count * 4)?,
            memory.at(looked)?.part(at * 4, count * 4)?,
        )?;
        stream.finish("fetching what is wrong", GRACE)?;
        let found = host.words(0, count);
        Ok(WrongCopy {
            pair: self.pair,
            kind: self.kind,
            piece,
            expected: self.expected,
            wrong_in_batch: counts.wrong,
            again,
            at,
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_owner_checks_two_batches_at_a_time() {
        assert_eq!(
            waves(&GpuId::list([0, 1, 0, 2, 0, 1])),
            [vec![0, 1, 3], vec![2, 5], vec![4]]
        );
        assert!(waves(&[]).is_empty());
    }
}
