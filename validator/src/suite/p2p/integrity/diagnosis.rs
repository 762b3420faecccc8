//! Classifies the fault of a transfer that went wrong, and searches all memory for unintended changes.

use super::bench::{IntegrityBench, PastTransfer, PreparedTransfer, TransferChecks};
use super::test_gpu::{SentinelBuffer, TestGpu, counts};
use crate::suite::protocol::Activity;
use crate::suite::shared::held_memory::ChangedMemory;
use crate::suite::shared::transfer::{
    Circumstance, Direction, Engine, Fault, FaultKind, SAMPLE, Traces, TransferKind,
};
use gpu::pattern::{ActualLocation, Counts, Evidence, Source, classify, origin};
use gpu::{GpuError, Span};

/// Words that are fetched around a fault.
const WINDOW: u64 = 64;

/// Buffers that a GPU may have.
const BUFFERS: usize = 3;

/// A part of a buffer that does not hold its sentinel.
struct ChangedSpan<'b, 'm> {
    test_gpu: &'b TestGpu<'m>,
    span: Span<'b>,
    /// Number of the span's first word within its buffer.
    first: u64,
    sentinel: u64,
    counts: Counts,
}

impl<'m> IntegrityBench<'m> {
    /// Classifies the fault; one that is not about data stays as it is.
    pub(super) fn classify_fault(
        &self,
        prepared: &PreparedTransfer<'_, 'm>,
        what: FaultKind,
        checks: &TransferChecks,
    ) -> Result<FaultKind, GpuError> {
        let FaultKind::Data(_) = what else {
            return Ok(what);
        };
        let PreparedTransfer {
            transfer,
            seed,
            first,
            receiver,
            target,
            ..
        } = prepared;
        let sentinel = prepared.to.sentinel();
        let again = receiver.check(*target, *first, *seed, sentinel)?;
        let through_peer = match transfer.kind {
            // Without peer access a GPU must not touch its peer's memory.
            TransferKind {
                direction: Direction::Read,
                ..
            }
            | TransferKind {
                engine: Engine::Staged,
                ..
            } => None,
            TransferKind {
                direction: Direction::Write,
                ..
            } => {
                self.context.doing(Activity::of_pair(
                    transfer.pair,
                    "reading back what was written",
                ));
                Some(
                    self.test_gpu(transfer.pair.from)?
                        .check(*target, *first, *seed, sentinel)?,
                )
            }
        };
        let source = (transfer.kind.direction == Direction::Read).then(|| Source {
            seed: prepared.from.sentinel(),
            first: (prepared.source.address - prepared.from.whole().address) / 4,
        });
        let mut pieces = Vec::new();
        for place in [checks.data.first, checks.data.last].into_iter().flatten() {
            pieces.push(receiver.words(*target, place.saturating_sub(WINDOW / 4), WINDOW)?);
        }
        let older = self.older.borrow();
        Ok(FaultKind::Data(classify(&Evidence {
            counts: checks.data,
            first: *first,
            expected: *seed,
            older: &older,
            pieces: &pieces,
            again: Some(again),
            through_peer,
            source,
            elsewhere: self.elsewhere(prepared)?,
        })))
    }

    /// Other places that hold the data.
    fn elsewhere(
        &self,
        prepared: &PreparedTransfer<'_, 'm>,
    ) -> Result<Option<ActualLocation>, GpuError> {
        let meant = prepared.first..prepared.first + prepared.target.words();
        for changed in self.find_changes(&[
            (prepared.from, prepared.source),
            (prepared.to, prepared.target),
        ])? {
            let place = changed.counts.first.unwrap_or_default();
            let found = changed.test_gpu.words(changed.span, place, WINDOW)?.words;
            let Some(begin) = origin(&found, prepared.seed, &meant) else {
                continue;
            };
            let n = changed.test_gpu.gpu.id();
            if n != prepared.receiver.gpu.id() {
                return Ok(Some(ActualLocation::Gpu(n)));
            }
            let landed = changed.span.address + place * 4;
            let shift =
                landed.checked_signed_diff(prepared.target.address + (begin - prepared.first) * 4);
            return Ok(shift.map(ActualLocation::Shifted));
        }
        Ok(None)
    }

    /// Checks that every buffer holds its sentinels again. A change is attributed to the transfer whose data is found
    /// there, else to the last transfer.
    pub(super) fn find_strays(&self, faults: &mut Vec<Fault>) -> Result<(), GpuError> {
        let since = self.since.take();
        let Some(last) = since.last() else {
            return Ok(());
        };
        let (pair, kind) = (last.transfer.pair, last.transfer.kind);
        self.context.doing(Activity::of_pair(
            pair,
            format!("checking all other memory after {kind}s"),
        ));
        let changed = self.find_changes(&[])?;
        for it in &changed {
            let place = it.counts.first.unwrap_or_default();
            let mut found = it.test_gpu.words(it.span, place, WINDOW)?.words;
            let whose = |past: &&PastTransfer| {
                let meant = past.first..past.first + past.transfer.bytes / 4;
                origin(&found, past.seed, &meant).is_some()
            };
            let (transfer, sure) = since
                .iter()
                .find(whose)
                .map_or((last.transfer, false), |past| (past.transfer, true));
            let what = FaultKind::Stray {
                gpu: it.test_gpu.gpu.id(),
                sure,
            };
            found.truncate(SAMPLE);
            let (address, first) = (it.span.address, it.first);
            let counts = it.counts;
            let traces = Traces {
                counts,
                address,
                first,
                seed: it.sentinel,
                found,
                expected: None,
            };
            faults.push(Fault {
                transfer,
                what,
                traces,
                times: None,
                circumstance: Circumstance::Alone,
            });
        }
        self.history.borrow_mut().extend(since);
        if changed.is_empty() {
            Ok(())
        } else {
            self.reset_sentinels()
        }
    }

    /// Memory that changed in the buffers outside `used`; the caller finds the cause.
    pub(super) fn changed_beside(
        &self,
        used: &[(&SentinelBuffer, Span<'_>)],
    ) -> Result<Vec<ChangedMemory>, GpuError> {
        let mut all = Vec::new();
        for it in self.find_changes(used)? {
            let found = it
                .test_gpu
                .words(it.span, it.counts.first.unwrap_or_default(), WINDOW)?
                .words;
            let ChangedSpan {
                test_gpu,
                span,
                first,
                sentinel: seed,
                counts,
            } = it;
            all.push(ChangedMemory {
                gpu: test_gpu.gpu.id(),
                place: *span,
                first,
                seed,
                counts,
                found,
            });
        }
        Ok(all)
    }

    /// All memory of all GPUs that does not hold its sentinel, except `used`.
    fn find_changes(
        &self,
        used: &[(&SentinelBuffer, Span<'_>)],
    ) -> Result<Vec<ChangedSpan<'_, 'm>>, GpuError> {
        let mut changed = Vec::new();
        // All GPUs check at the same time, one half of a buffer after the other.
        for half in 0..2 * BUFFERS {
            let mut asked = Vec::new();
            for test_gpu in &self.test_gpus {
                let Some((buffer, span)) = part(test_gpu, half, used)? else {
                    continue;
                };
                let first = (span.address - buffer.whole().address) / 4;
                let sentinel = buffer.sentinel();
                test_gpu
                    .stream
                    .check(span, first, sentinel, !sentinel, &test_gpu.tallies.data)?;
                asked.push((test_gpu, span, first, sentinel));
            }
            for (test_gpu, span, first, sentinel) in asked {
                test_gpu.wait()?;
                let counts = counts(&test_gpu.tallies.data);
                if !counts.all_right(span.words()) {
                    changed.push(ChangedSpan {
                        test_gpu,
                        span,
                        first,
                        sentinel,
                        counts,
                    });
                }
            }
        }
        Ok(changed)
    }
}

/// The `n`th half of a GPU's buffers: everything before the used part, or everything behind it.
fn part<'s>(
    test_gpu: &'s TestGpu<'_>,
    n: usize,
    used: &[(&SentinelBuffer, Span<'_>)],
) -> Result<Option<(&'s SentinelBuffer, Span<'s>)>, GpuError> {
    let Some(buffer) = test_gpu.buffers().nth(n / 2) else {
        return Ok(None);
    };
    let whole = buffer.whole();
    let used = used
        .iter()
        .find(|(of, _)| of.whole() == whole)
        .map(|(_, span)| *span);
    let span = match (used, n % 2) {
        (None, 0) => whole,
        (None, _) => return Ok(None),
        (Some(used), 0) => whole.part(0, used.address - whole.address)?,
        (Some(used), _) => {
            let end = used.address - whole.address + used.bytes;
            whole.part(end, whole.bytes - end)?
        }
    };
    Ok(Some((buffer, span)))
}
