//! Copies across all memory: small ones by copy engines at addresses spread over all of it, one of every
//! order of magnitude up to more than a gigabyte by both engines, and all of it by copy engines. The data
//! sent is the sender's own pattern, which identifies its origin.

use super::LevelPlan;
use super::held;
use super::judge::{CopySeries, Results};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::shared::copy_batch::{
    BatchResult, CopyBatch, CopyShape, GUARD, TargetOwner, run, size_ladder, small_copies,
};
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::held_memory::{Chunk, HeldMemory};
use crate::suite::shared::peer_access::disjoint_rounds;
use crate::suite::shared::transfer::{
    Circumstance, Direction, Engine, Memory, TransferKind, ones, unanswered,
};
use gpu::pattern::{Counts, Nonces};
use gpu::{BatchExpected, GpuError, Piece, PieceTable, Span, is_cuda_lost};
use outcome::finding::{Code, Severity, Subject};
use std::time::Duration;

/// The smallest and the largest size of the ladder, bytes.
const LADDER: (u64, u64) = (256 << 10, 1 << 30);
/// The largest size of a small copy, bytes.
const SMALL: u64 = 64 << 10;
/// All memory is written in copies of at most this size, bytes.
const STRIDE: u64 = 1 << 30;
/// The most small copies that are queued in all.
const MOST_QUEUED: u64 = 1 << 17;
/// The time limit for copying half of a GPU's memory over the slowest link.
const HALF: Duration = Duration::from_secs(40);

/// Odd sizes at odd addresses, by pairs that share no GPU at the same time.
pub(super) fn odd_copies(
    context: &TestContext,
    memories: &[HeldMemory<'_>],
    pairs: &[Pair],
    (plan, nonces): (LevelPlan, &mut Nonces),
    results: &mut Results,
) -> Result<(), GpuError> {
    let room = memories
        .iter()
        .filter_map(largest_chunk)
        .map(|span| span.bytes)
        .filter(|b| *b > 0)
        .min()
        .unwrap_or_default();
    let seed = nonces.next();
    let few = (MOST_QUEUED / (pairs.len() as u64).max(1)).clamp(16, plan.small.max(16));
    let little = small_copies(room, few, SMALL, seed);
    // At most a quarter of the room: small GPUs leave out the steps of a gigabyte.
    let steps = size_ladder(room, LADDER.0, LADDER.1.min(room / 4), plan.each, !seed);
    let kinds = [
        (Engine::Copy, Direction::Write, &little, false),
        (Engine::Copy, Direction::Read, &little, false),
        (Engine::Copy, Direction::Write, &steps, true),
        (Engine::Sm, Direction::Write, &steps, true),
    ];
    let Some(owner) = memories.first() else {
        return Ok(());
    };
    let most = little.len().max(steps.len()) as u64;
    let table = PieceTable::new(owner.gpu, most * memories.len() as u64)?;
    for (engine, direction, shapes, wide) in kinds.into_iter().filter(|kind| !kind.2.is_empty()) {
        let kind = TransferKind {
            engine,
            direction,
            memory: Memory::Plain,
        };
        results.tried.push(CopySeries {
            kind,
            sizes: shapes.iter().map(|s| s.bytes).collect(),
            seed,
        });
        for round in disjoint_rounds(pairs) {
            let batches = round
                .iter()
                .map(|pair| batch(memories, *pair, kind, shapes, wide));
            let batches = batches.collect::<Result<Vec<_>, _>>()?;
            let result = run(context, &table, &batches)?;
            for (batch, result) in batches.iter().zip(result) {
                record(memories, batch, result, &table, results)?;
            }
            if is_cuda_lost() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn largest_chunk<'p>(held: &'p HeldMemory<'_>) -> Option<Span<'p>> {
    held.chunks().first().map(Chunk::span)
}

fn batch<'p>(
    memories: &'p [HeldMemory<'_>],
    pair: Pair,
    kind: TransferKind,
    shapes: &[CopyShape],
    wide: bool,
) -> Result<CopyBatch<'p>, GpuError> {
    let (sends, receives) = if kind.direction == Direction::Write {
        (pair.from, pair.to)
    } else {
        (pair.to, pair.from)
    };
    let (sender, receiver) = (held(memories, sends)?, held(memories, receives)?);
    let none = || GpuError::Nonsense(format!("{pair}: no memory"));
    let (from, to) = sender
        .chunks()
        .first()
        .zip(receiver.chunks().first())
        .ok_or_else(none)?;
    let (source, memory) = (from.span(), to.span());
    let piece = |shape: &CopyShape| {
        let (first, place) = (from.byte(shape.from), to.byte(shape.to));
        let (to, from) = (
            memory.part(shape.to, shape.bytes)?,
            source.part(shape.from, shape.bytes)?,
        );
        Ok(Piece {
            to,
            from,
            first,
            place,
        })
    };
    let pieces = shapes.iter().map(piece).collect::<Result<_, GpuError>>()?;
    let expected = BatchExpected {
        seed: sender.seed(),
        sentinel: receiver.seed(),
        guard: GUARD,
        restore: true,
    };
    let HeldMemory {
        stream,
        tally,
        host,
        ..
    } = receiver;
    let owner = TargetOwner {
        gpu: receives,
        stream,
        tally,
        host,
        memory,
    };
    let worker = &held(memories, pair.from)?.stream;
    Ok(CopyBatch {
        pair,
        kind,
        pieces,
        wide,
        times: 1,
        expected,
        worker,
        owner,
    })
}

fn record(
    memories: &[HeldMemory<'_>],
    batch: &CopyBatch<'_>,
    result: BatchResult,
    table: &PieceTable,
    results: &mut Results,
) -> Result<(), GpuError> {
    match result {
        BatchResult::Correct | BatchResult::Unknown => return Ok(()),
        BatchResult::Wrong(counts) => {
            results.faults.push(
                batch
                    .inspect_wrong(table, &counts)?
                    .fault(Circumstance::Alone),
            );
        }
        BatchResult::Broken(error) => results.broken.push(*fault_finding(batch.pair, &error)),
    }
    if is_cuda_lost() {
        return Ok(());
    }
    let owner = held(memories, batch.owner.gpu)?;
    batch.pieces.iter().try_for_each(|piece| {
        let aligned = piece.looked(GUARD);
        owner.restore(aligned)
    })?;
    owner.wait()
}

/// Copy engines write all memory, one half at a time, because they send the other half. Each GPU's memory is
/// written by one peer, or by all.
pub(super) fn full_copies(
    context: &TestContext,
    memories: &[HeldMemory<'_>],
    pairs: &[Pair],
    plan: LevelPlan,
    results: &mut Results,
) -> Result<(), GpuError> {
    for ring in rings(pairs, plan.every_peer) {
        for upper in [false, true] {
            context.doing(format!(
                "copy engines write half of all memory, {} pairs at once",
                ring.len()
            ));
            let spans = ring
                .iter()
                .map(|p| halves(memories, *p, upper))
                .collect::<Result<Vec<_>, _>>()?;
            for (pair, spans) in ring.iter().zip(&spans) {
                let worker = &held(memories, pair.from)?.stream;
                spans
                    .iter()
                    .try_for_each(|half| worker.copy(half.to, half.from))?;
            }
            for pair in &ring {
                held(memories, pair.from)?
                    .stream
                    .finish(&format!("{pair}: writing half of all memory"), HALF)?;
            }
            check_copies(memories, &ring, &spans, results)?;
            results.whole.extend(&ring);
            // Restored, so that the next half starts from the pattern.
            for (pair, spans) in ring.iter().zip(&spans) {
                let owner = held(memories, pair.to)?;
                spans.iter().try_for_each(|half| owner.restore(*half.to))?;
            }
            memories.iter().try_for_each(HeldMemory::wait)?;
        }
    }
    Ok(())
}

/// One copy within a half of the memory, and the number of its first word in the sender's pattern.
struct Half<'p> {
    to: Span<'p>,
    from: Span<'p>,
    first: u64,
}

/// The copies from one half of the sender's largest piece to the other half of each of the owner's pieces.
fn halves<'p>(
    memories: &'p [HeldMemory<'_>],
    pair: Pair,
    upper: bool,
) -> Result<Vec<Half<'p>>, GpuError> {
    let (sender, owner) = (held(memories, pair.from)?, held(memories, pair.to)?);
    let Some(source) = sender.chunks().first() else {
        return Ok(Vec::new());
    };
    let middle = |bytes: u64| bytes / 2 / 4096 * 4096;
    let mut all = Vec::new();
    for target in owner.chunks() {
        let whole = target.span();
        let half = middle(whole.bytes);
        let (begin, end) = if upper {
            (half, whole.bytes)
        } else {
            (0, half)
        };
        let own = source.span().bytes;
        let (from, room) = if upper {
            (0, middle(own))
        } else {
            (middle(own), own - middle(own))
        };
        let mut at = begin;
        while at < end {
            // The source repeats where it is shorter than the target.
            let inside = (at - begin) % room.max(1);
            let bytes = (end - at).min(STRIDE).min(room - inside);
            let first = source.byte(from + inside) / 4;
            all.push(Half {
                to: whole.part(at, bytes)?,
                from: source.span().part(from + inside, bytes)?,
                first,
            });
            at += bytes;
        }
    }
    Ok(all)
}

/// The owners check the copies, all at the same time.
fn check_copies(
    memories: &[HeldMemory<'_>],
    ring: &[Pair],
    spans: &[Vec<Half<'_>>],
    results: &mut Results,
) -> Result<(), GpuError> {
    let most = spans.iter().map(Vec::len).max().unwrap_or_default();
    for n in 0..most {
        let asked = || {
            ring.iter()
                .zip(spans)
                .filter_map(|(pair, spans)| Some((*pair, spans.get(n)?)))
        };
        for (pair, half) in asked() {
            let (sender, owner) = (held(memories, pair.from)?, held(memories, pair.to)?);
            owner.stream.check(
                half.to,
                half.first,
                sender.seed(),
                owner.seed(),
                &owner.tally,
            )?;
        }
        for (pair, half) in asked() {
            check_copy(memories, pair, half, results)?;
        }
    }
    Ok(())
}

/// Waits for one check, and adds a finding if data is wrong.
fn check_copy(
    memories: &[HeldMemory<'_>],
    pair: Pair,
    half: &Half<'_>,
    results: &mut Results,
) -> Result<(), GpuError> {
    let owner = held(memories, pair.to)?;
    owner.wait()?;
    let counts = Counts::from(owner.tally.checked());
    if !counts.all_right(half.to.words()) {
        let place = counts.first.unwrap_or_default();
        let at = half.to.address + place * 4;
        let message = format!(
            "copy engine writes of all memory miss {} words of GPU {}, the first at {at:#x}",
            counts.wrong, pair.to
        );
        let words: Vec<_> = owner
            .words(half.to, place)?
            .iter()
            .take(8)
            .map(|w| format!("{w:08x}"))
            .collect();
        let seen = format!(
            "{pair}: {} zero, {}{} unchanged; found {}",
            counts.zeros,
            ones(counts.ones),
            counts.sentinels,
            words.join(" ")
        );
        let finding = Code::P2pWrongData
            .finding(Severity::Fail, Subject::Machine, message)
            .seen(seen);
        let finding = if counts.are_ones() {
            unanswered(finding)
        } else {
            finding
        };
        results
            .found
            .push((pair, finding.values(counts.wrong, 0, Some("words"))));
    }
    Ok(())
}

/// Pairs that may write at the same time: no GPU writes twice, and no GPU is written to twice. Only the first
/// such ring, or all.
fn rings(pairs: &[Pair], all: bool) -> Vec<Vec<Pair>> {
    let mut rings: Vec<Vec<Pair>> = Vec::new();
    for pair in pairs {
        let meets = |other: &Pair| other.from == pair.from || other.to == pair.to;
        match rings.iter_mut().find(|ring| !ring.iter().any(meets)) {
            Some(ring) => ring.push(*pair),
            None => rings.push(vec![*pair]),
        }
    }
    if !all {
        // Each GPU's memory once, by the first available writer.
        let mut owners = std::collections::BTreeSet::new();
        for ring in &mut rings {
            ring.retain(|pair| owners.insert(pair.to));
        }
        rings.retain(|ring| !ring.is_empty());
    }
    rings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::circle;
    use machine::GpuId;
    use std::collections::BTreeSet;

    #[test]
    fn every_gpu_is_written_once_or_by_each_of_its_peers() {
        for gpus in [2, 3, 4, 8] {
            let pairs: Vec<Pair> = circle(gpus)
                .into_iter()
                .flatten()
                .flat_map(|pair| [pair, pair.back()])
                .collect();
            let all = rings(&pairs, true);
            assert_eq!(all.concat().len(), pairs.len());
            for ring in &all {
                let ends =
                    |end: fn(&Pair) -> GpuId| ring.iter().map(end).collect::<BTreeSet<_>>().len();
                assert!(ends(|p| p.from) == ring.len() && ends(|p| p.to) == ring.len());
            }
            let once = rings(&pairs, false).concat();
            assert_eq!(
                once.iter().map(|p| p.to).collect::<BTreeSet<_>>().len(),
                gpus
            );
            assert_eq!(once.len(), gpus);
        }
    }
}
