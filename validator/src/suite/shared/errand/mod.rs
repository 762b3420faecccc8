//! Errands: many copies from one GPU to another, of odd sizes at odd addresses, which run at the same time as
//! those of other pairs. The GPU that owns the target memory checks each copy byte by byte, with the memory
//! beside it, and restores the previous content where it is right.

mod result;
mod shape;

pub(in crate::suite) use result::{ErrandResult, Mistake};
pub(in crate::suite) use shape::{GUARD, Shape, ladder, small};

use super::transfer::{Engine, Kind};
use crate::gpu::pattern::Counts;
use crate::gpu::{
    Batch, BatchExpected, GpuError, Piece, Pinned, Span, Stream, Table, Tally, is_spoiled, wrong_piece,
};
use crate::machine::GpuId;
use crate::schedule::Pair;
use crate::suite::Machine;
use std::time::Duration;

/// Time for everything other than copying.
const GRACE: Duration = Duration::from_secs(4);
/// No healthy path is slower; bytes per second.
const SLOWEST: u64 = 200_000_000;
/// No errand takes longer than this.
const LONGEST: Duration = Duration::from_secs(20);
/// Words that are fetched around a fault.
const WINDOW: u64 = 64;

/// The copies of one pair.
pub(in crate::suite) struct Errand<'a> {
    /// `from` runs the copies, on the memory of `to`.
    pub(in crate::suite) pair: Pair,
    pub(in crate::suite) kind: Kind,
    pub(in crate::suite) pieces: Vec<Piece<'a>>,
    /// The copies are large: all threads of a kernel work on one after the other.
    pub(in crate::suite) wide: bool,
    /// How many times all copies are made.
    pub(in crate::suite) times: u32,
    pub(in crate::suite) expected: BatchExpected,
    /// A queue of the GPU that runs the copies, used by this errand alone.
    pub(in crate::suite) worker: &'a Stream,
    pub(in crate::suite) keeper: Keeper<'a>,
}

/// The GPU that owns the targets' memory, with what it needs to check them.
#[derive(Debug, Clone, Copy)]
pub(in crate::suite) struct Keeper<'a> {
    pub(in crate::suite) gpu: GpuId,
    pub(in crate::suite) stream: &'a Stream,
    pub(in crate::suite) tally: &'a Tally,
    pub(in crate::suite) host: &'a Pinned,
    /// The memory that holds the targets and their guards.
    pub(in crate::suite) memory: Span<'a>,
}

impl Errand<'_> {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.to.bytes).sum::<u64>().saturating_mul(u64::from(self.times))
    }

    fn patience(&self) -> Duration {
        GRACE + Duration::from_secs(self.bytes() / SLOWEST).min(LONGEST)
    }

    /// Words that a check reads.
    fn words(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.looked(self.expected.guard).words()).sum()
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

/// Runs all errands at the same time, then checks the result of each; results are in the order of the
/// errands. Once a GPU hangs or breaks, results not yet known stay unknown.
pub(in crate::suite) fn run(
    machine: &Machine,
    table: &Table,
    errands: &[Errand<'_>],
) -> Result<Vec<ErrandResult>, GpuError> {
    let mut all: Vec<ErrandResult> = errands.iter().map(|_| ErrandResult::Unknown).collect();
    let mut batches = Vec::new();
    let mut before = 0;
    for errand in errands {
        batches.push(table.put(before, &errand.pieces)?);
        before += errand.pieces.len() as u64;
    }
    if let Some(first) = errands.first() {
        machine.doing(&format!("{}, {} pairs at once", first.doing(), errands.len()));
    }
    let work = || errands.iter().zip(&batches);
    for ((errand, batch), result) in work().zip(&mut all) {
        note(result, errand.start(*batch));
        if is_spoiled() {
            return Ok(all);
        }
    }
    for (errand, result) in errands.iter().zip(&mut all) {
        note(result, errand.worker.finish(&errand.doing(), errand.patience()));
        if is_spoiled() {
            return Ok(all);
        }
    }
    for wave in waves(&errands.iter().map(|e| e.keeper.gpu).collect::<Vec<_>>()) {
        let of = |n: &usize| Some((errands.get(*n)?, *batches.get(*n)?));
        for (errand, batch) in wave.iter().filter_map(of) {
            let Keeper { stream, tally, .. } = errand.keeper;
            stream.check_batch(batch, errand.wide, &errand.expected, tally)?;
        }
        for n in &wave {
            let (Some(errand), Some(result)) = (errands.get(*n), all.get_mut(*n)) else { continue };
            let counts = errand.counted()?;
            if matches!(result, ErrandResult::Broken(_)) {
                continue;
            }
            *result = if counts.all_right(errand.words()) {
                ErrandResult::Correct
            } else {
                ErrandResult::Wrong(counts)
            };
        }
    }
    Ok(all)
}

fn note(result: &mut ErrandResult, outcome: Result<(), GpuError>) {
    if let (ErrandResult::Unknown, Err(error)) = (&result, outcome) {
        *result = ErrandResult::Broken(error);
    }
}

/// Indices of errands by keeper, in waves in which each keeper occurs at most once.
fn waves(keepers: &[GpuId]) -> Vec<Vec<usize>> {
    let mut waves: Vec<Vec<usize>> = Vec::new();
    for (n, keeper) in keepers.iter().enumerate() {
        let before = keepers.iter().take(n).filter(|k| *k == keeper).count();
        if waves.len() <= before {
            waves.resize(before + 1, Vec::new());
        }
        if let Some(wave) = waves.get_mut(before) {
            wave.push(n);
        }
    }
    waves
}

impl Errand<'_> {
    fn counted(&self) -> Result<Counts, GpuError> {
        let doing = format!("GPU {}: checking what arrived", self.keeper.gpu);
        self.keeper.stream.finish(&doing, self.patience())?;
        Ok(self.keeper.tally.checked().into())
    }

    /// A closer look at the first copy that went wrong.
    pub(in crate::suite) fn closer(&self, table: &Table, counts: &Counts) -> Result<Mistake<'_>, GpuError> {
        let number = counts.first.map_or(0, |first| wrong_piece(first).0);
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        let none =
            || GpuError::Nonsense(format!("{}: wrong in copy {number}, which does not exist", self.doing()));
        let piece = *self.pieces.get(place).ok_or_else(none)?;
        let Keeper { stream, tally, host, memory, .. } = self.keeper;
        let batch = table.put(0, &[piece])?;
        let keep = BatchExpected { restore: false, ..self.expected };
        stream.check_batch(batch, self.wide, &keep, tally)?;
        let again = self.counted()?;
        let looked = piece.looked(self.expected.guard);
        let at = again.first.or(counts.first.map(|first| wrong_piece(first).1)).unwrap_or_default();
        let count = WINDOW.min(looked.words().saturating_sub(at));
        stream.copy_out(host.span(0, count * 4)?, memory.at(looked)?.part(at * 4, count * 4)?)?;
        stream.finish("fetching what is wrong", GRACE)?;
        let found = host.words(0, count);
        Ok(Mistake {
            pair: self.pair,
            kind: self.kind,
            piece,
            expected: self.expected,
            crowd: counts.wrong,
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
    fn no_keeper_checks_two_errands_at_a_time() {
        assert_eq!(waves(&GpuId::list([0, 1, 0, 2, 0, 1])), [vec![0, 1, 3], vec![2, 5], vec![4]]);
        assert!(waves(&[]).is_empty());
    }
}
