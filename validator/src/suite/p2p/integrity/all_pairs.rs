//! All pairs together: peer access is on for all of them at once, as in real programs, and all kernels move
//! data at the same time. Besides a few large copies each pair makes many small ones of odd sizes at odd
//! addresses, by kernels and by copy engines, so that rare faults show too. From level standard on the same is done in
//! mapped memory.

use super::bench::IntegrityBench;
use super::results::{AccessState, AllPairsRun, PairResult, SentPattern};
use crate::schedule::Pair;
use crate::suite::shared::copy_batch::{
    BatchResult, CopyBatch, CopyShape, GUARD, TargetOwner, run, small_copies,
};
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::peer_access::{disjoint_rounds, with_peer_access};
use crate::suite::shared::transfer::{
    Circumstance, Direction, Engine, Memory, Transfer, TransferKind,
};
use gpu::{BatchExpected, Clique, GpuError, Piece, PieceTable, Stream, is_cuda_lost};
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity};
use std::collections::BTreeMap;

/// How many times kernels make their large copy when there are few pairs, so that the small ones run during
/// traffic. Many pairs are enough traffic, even with copy engines where no two pairs share a GPU.
const LOAD: u32 = 4;
const FEW_PAIRS: usize = 8 * 7;
/// The most copies by copy engines that are queued in all: the host queues each one.
const MOST_QUEUED: u64 = 1 << 18;
/// The most copies by kernels: a table has each of them.
const MOST_MOVED: u64 = 1 << 20;
/// The fewest small copies of a pair.
const FEW: u64 = 32;

/// The copies of one pair, for each direction of an engine.
struct CopyShapes {
    kernel: Vec<CopyShape>,
    copy: Vec<CopyShape>,
    large: Vec<CopyShape>,
}

/// Two streams for each pair of those that work at the same time.
type Lanes = BTreeMap<Pair, [Stream; 2]>;

impl IntegrityBench<'_> {
    /// Runs all pairs that passed alone at the same time, and adds faults to the pairs' results.
    pub(super) fn run_all_pairs(
        &self,
        clique: &Clique,
        tried: &mut [PairResult],
        found: &mut Vec<Finding>,
    ) -> Result<Option<AllPairsRun>, GpuError> {
        let well = |t: &&PairResult| {
            t.access == AccessState::On && t.faults.is_empty() && t.ended.is_none()
        };
        let pairs: Vec<Pair> = tried.iter().filter(well).map(|t| t.pair).collect();
        let (Some(first), false) = (clique.gpus.first(), pairs.is_empty()) else {
            return Ok(None);
        };
        let seed = self.nonce();
        let shapes = self.shapes(pairs.len() as u64, seed);
        let at_once = with_peer_access(clique, &pairs, |access| {
            found.extend(
                access
                    .refused
                    .iter()
                    .map(|(pair, error)| refused(*pair, error)),
            );
            let each = shapes.kernel.len().max(shapes.copy.len()) + shapes.large.len();
            let table = PieceTable::new(first, (each * access.pairs.len()) as u64)?;
            self.run_group(&access.pairs, Memory::Plain, &shapes, &table, tried)
        })?;
        let mapped =
            self.plan.all_mapped && self.plan.memories.contains(&Memory::Mapped) && !is_cuda_lost();
        if mapped {
            // Mapped memory needs no enabled access, and must not benefit from it.
            let pairs: Vec<Pair> = tried.iter().filter(well).map(|t| t.pair).collect();
            let each = shapes.kernel.len().max(shapes.copy.len()) + shapes.large.len();
            let table = PieceTable::new(first, (each * pairs.len()).max(1) as u64)?;
            self.run_group(&pairs, Memory::Mapped, &shapes, &table, tried)?;
        }
        let sizes = |shapes: &[CopyShape]| shapes.iter().map(|shape| shape.bytes).collect();
        let (kernel, copy, large) = (
            sizes(&shapes.kernel),
            sizes(&shapes.copy),
            sizes(&shapes.large),
        );
        Ok(Some(AllPairsRun {
            seed,
            kernel,
            copy,
            large,
            at_once,
            mapped,
        }))
    }

    fn shapes(&self, pairs: u64, seed: u64) -> CopyShapes {
        let half = self.peer_slice() / 2;
        let queued = (MOST_QUEUED / (2 * pairs).max(1)).max(FEW);
        let most = half / 4;
        let moved = (MOST_MOVED / (2 * pairs).max(1)).max(FEW);
        let kernel = small_copies(half, self.plan.small.min(moved), most, seed);
        let copy = small_copies(half, self.plan.small.min(queued), most, !seed);
        let large = small_copies(half, 1, half, seed.rotate_left(17));
        let behind = |shape: CopyShape| CopyShape {
            from: shape.from + half,
            to: shape.to + half,
            ..shape
        };
        // Nearly as large as the room, but odd. Both ends have the same alignment to 16 bytes, and neither is
        // aligned.
        let odd = |s: CopyShape| CopyShape {
            from: GUARD + 53,
            to: GUARD + 5,
            bytes: half - half / 16 - s.bytes % 61,
        };
        let large = large.into_iter().filter(|_| half >= 16 << 10).map(odd);
        CopyShapes {
            kernel,
            copy,
            large: large.map(behind).collect(),
        }
    }

    /// Bytes of a source or target area that are used for one peer.
    fn peer_slice(&self) -> u64 {
        let peers = self.test_gpus.len().saturating_sub(1).max(1) as u64;
        self.plan.layout(Memory::Plain).area() / peers / 4096 * 4096
    }

    /// Runs the pairs of one group in one kind of memory: both engines, both directions.
    fn run_group(
        &self,
        pairs: &[Pair],
        memory: Memory,
        shapes: &CopyShapes,
        table: &PieceTable,
        tried: &mut [PairResult],
    ) -> Result<(), GpuError> {
        let mut lanes = Lanes::new();
        for pair in pairs {
            let gpu = self.test_gpu(pair.from)?.gpu;
            lanes.insert(*pair, [gpu.stream()?, gpu.stream()?]);
        }
        for (engine, direction) in [Engine::Sm, Engine::Copy]
            .into_iter()
            .flat_map(|e| [(e, Direction::Write), (e, Direction::Read)])
        {
            let kind = TransferKind {
                engine,
                direction,
                memory,
            };
            let seeds = self.fill_sources(memory)?;
            // With copy engines, few pairs affect each other only if they share GPUs, so they run at once.
            let at_once = engine == Engine::Sm || pairs.len() <= FEW_PAIRS;
            let rounds = if at_once {
                vec![pairs.to_vec()]
            } else {
                disjoint_rounds(pairs)
            };
            for round in rounds {
                let copy_batches = self.copy_batches(&round, kind, shapes, (&lanes, &seeds))?;
                let result = run(self.context, table, &copy_batches)?;
                self.record(&copy_batches, memory, result, table, tried)?;
                if is_cuda_lost() {
                    return Ok(());
                }
            }
        }
        let layout = self.plan.layout(Memory::Plain);
        let buffers = self
            .test_gpus
            .iter()
            .map(|test_gpu| test_gpu.buffer(memory));
        let areas = buffers.map(|buffer| {
            let buffer = buffer?;
            Ok((buffer, buffer.part(layout.source(), layout.area())?))
        });
        let used = areas.collect::<Result<Vec<_>, GpuError>>()?;
        self.all_pairs_changes
            .borrow_mut()
            .extend(self.changed_beside(&used)?);
        self.reset_sentinels()
    }

    /// Fills every source area with fresh data; the seeds by GPU.
    fn fill_sources(&self, memory: Memory) -> Result<Vec<u64>, GpuError> {
        let layout = self.plan.layout(Memory::Plain);
        let mut seeds = Vec::new();
        for test_gpu in &self.test_gpus {
            let seed = self.nonce();
            let area = test_gpu
                .buffer(memory)?
                .part(layout.source(), layout.area())?;
            test_gpu.stream.fill(area, seed, 0)?;
            self.sent.borrow_mut().push(SentPattern {
                gpu: test_gpu.gpu.id(),
                seed,
            });
            seeds.push(seed);
        }
        self.test_gpus
            .iter()
            .try_for_each(|test_gpu| test_gpu.wait())?;
        Ok(seeds)
    }

    fn copy_batches<'b>(
        &'b self,
        pairs: &[Pair],
        kind: TransferKind,
        shapes: &CopyShapes,
        (lanes, seeds): (&'b Lanes, &[u64]),
    ) -> Result<Vec<CopyBatch<'b>>, GpuError> {
        let few = if kind.engine == Engine::Sm {
            &shapes.kernel
        } else {
            &shapes.copy
        };
        let kernels = kind.engine == Engine::Sm;
        let times = if kernels && pairs.len() <= FEW_PAIRS {
            LOAD
        } else {
            1
        };
        // The large copies begin first, so that the kernels' small copies, which have their own queue, run at the
        // same time.
        let (mut large, mut little) = (Vec::new(), Vec::new());
        for pair in pairs {
            let Some([one, two]) = lanes.get(pair) else {
                continue;
            };
            large.push(self.copy_batch(*pair, kind, &shapes.large, (one, times, true), seeds)?);
            let queue = if kernels { two } else { one };
            little.push(self.copy_batch(*pair, kind, few, (queue, 1, false), seeds)?);
        }
        large.extend(little);
        Ok(large)
    }

    fn copy_batch<'b>(
        &'b self,
        pair: Pair,
        kind: TransferKind,
        shapes: &[CopyShape],
        (worker, times, wide): (&'b Stream, u32, bool),
        seeds: &[u64],
    ) -> Result<CopyBatch<'b>, GpuError> {
        let (sends, receives) = Transfer {
            pair,
            kind,
            bytes: 0,
            shift: (0, 0),
        }
        .ends();
        let (sender, receiver) = (self.test_gpu(sends)?, self.test_gpu(receives)?);
        let (from_buffer, to_buffer) = (sender.buffer(kind.memory)?, receiver.buffer(kind.memory)?);
        let layout = self.plan.layout(Memory::Plain);
        let (area, part) = (
            peer(sends, receives) * self.peer_slice(),
            peer(receives, sends) * self.peer_slice(),
        );
        let seed = seeds.get(sends.index()).copied().unwrap_or_default();
        let piece = |shape: &CopyShape| {
            let (first, place) = (area + shape.from, layout.target() + part + shape.to);
            let to = to_buffer.part(place, shape.bytes)?;
            let from = from_buffer.part(layout.source() + first, shape.bytes)?;
            Ok(Piece {
                to,
                from,
                first,
                place,
            })
        };
        let pieces = shapes.iter().map(piece).collect::<Result<_, GpuError>>()?;
        let expected = BatchExpected {
            seed,
            sentinel: to_buffer.sentinel(),
            guard: GUARD,
            restore: true,
        };
        let owner = TargetOwner {
            gpu: receives,
            stream: &receiver.stream,
            tally: &receiver.tallies.data,
            host: &receiver.host,
            memory: to_buffer.whole(),
        };
        Ok(CopyBatch {
            pair,
            kind,
            pieces,
            wide,
            times,
            expected,
            worker,
            owner,
        })
    }

    /// Adds the faults of the batches to their pairs.
    fn record(
        &self,
        copy_batches: &[CopyBatch<'_>],
        memory: Memory,
        result: Vec<BatchResult>,
        table: &PieceTable,
        tried: &mut [PairResult],
    ) -> Result<(), GpuError> {
        let mut dirty = false;
        for (copy_batch, result) in copy_batches.iter().zip(result) {
            let Some(tried) = tried.iter_mut().find(|t| t.pair == copy_batch.pair) else {
                continue;
            };
            match result {
                BatchResult::Correct | BatchResult::Unknown => {}
                BatchResult::Wrong(counts) => {
                    dirty = true;
                    tried.faults.push(
                        copy_batch
                            .inspect_wrong(table, &counts)?
                            .fault(Circumstance::OtherPairsActive),
                    );
                }
                BatchResult::Broken(error) => {
                    dirty = true;
                    tried
                        .ended
                        .get_or_insert_with(|| fault_finding(copy_batch.pair, &error));
                }
            }
        }
        if dirty && !is_cuda_lost() {
            self.reset_sentinels()?;
            self.refill_sources(memory)?;
        }
        Ok(())
    }

    /// Fills every source area with its last data again.
    fn refill_sources(&self, memory: Memory) -> Result<(), GpuError> {
        let layout = self.plan.layout(Memory::Plain);
        for test_gpu in &self.test_gpus {
            let last = self
                .sent
                .borrow()
                .iter()
                .rev()
                .find(|s| s.gpu == test_gpu.gpu.id())
                .map(|s| s.seed);
            let area = test_gpu
                .buffer(memory)?
                .part(layout.source(), layout.area())?;
            test_gpu.stream.fill(area, last.unwrap_or_default(), 0)?;
        }
        self.test_gpus
            .iter()
            .try_for_each(|test_gpu| test_gpu.wait())
    }

    /// The pair whose data this was: word `number` of what GPU `from` sent.
    pub(super) fn sent_to(&self, from: GpuId, number: u64) -> Pair {
        let n = usize::try_from(number * 4 / self.peer_slice().max(1)).unwrap_or_default();
        Pair {
            from,
            to: GpuId::new(if n >= from.index() { n + 1 } else { n }),
        }
    }
}

/// The index of `other` among the peers of `gpu`.
const fn peer(gpu: GpuId, other: GpuId) -> u64 {
    let n = other.index();
    (if n > gpu.index() { n - 1 } else { n }) as u64
}

fn refused(pair: Pair, error: &GpuError) -> Finding {
    let error = error.to_string();
    let message = format!("{pair}: peer access is refused while other pairs have it: {error}");
    Code::P2pRefused
        .finding(Severity::Fail, pair, message)
        .lacking([error.as_str()])
}
