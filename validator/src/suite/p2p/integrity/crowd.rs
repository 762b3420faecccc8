//! All pairs together: peer access is on for all of them at once, as in real programs, and all kernels move
//! data at the same time. Besides a few large copies each pair makes many small ones of odd sizes at odd
//! addresses, by kernels and by copy engines, so that rare faults show too.

use super::bench::Bench;
use super::results::{Access, Crowd, Sent, Tried};
use crate::gpu::{BatchExpected, Clique, GpuError, Piece, Stream, Table, is_spoiled};
use crate::machine::GpuId;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::errand::{Errand, ErrandResult, GUARD, Keeper, Shape, run, small};
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::open::{Open, apart, with_all};
use crate::suite::shared::transfer::{Cell, Engine, Kind, Memory, Way};
use std::collections::BTreeMap;

/// How many times kernels make their large copy when there are few pairs, so that the small ones run during
/// traffic. Many pairs are enough traffic, even with copy engines where no two pairs share a GPU.
const LOAD: u32 = 4;
const FEW_PAIRS: usize = 8 * 7;
/// The most copies by copy engines that are queued in all: the host queues each one.
const MOST_QUEUED: u64 = 1 << 18;
/// The most copies by kernels: a table has each of them.
const MOST_MOVED: u64 = 1 << 20;
/// Fewer small copies of a pair prove too little.
const FEW: u64 = 32;

/// The shapes for one direction of one engine.
struct Shapes {
    kernel: Vec<Shape>,
    copy: Vec<Shape>,
    large: Vec<Shape>,
}

/// Two queues for each pair of those that work at the same time.
type Lanes = BTreeMap<Pair, [Stream; 2]>;

impl Bench<'_> {
    /// Runs everything with all pairs that passed alone; adds the faults to those of the pair.
    pub(super) fn crowd(
        &self,
        clique: &Clique,
        tried: &mut [Tried],
        found: &mut Vec<Finding>,
    ) -> Result<Option<Crowd>, GpuError> {
        let well = |t: &&Tried| t.access == Access::On && t.faults.is_empty() && t.ended.is_none();
        let pairs: Vec<Pair> = tried.iter().filter(well).map(|t| t.pair).collect();
        let (Some(first), false) = (clique.gpus.first(), pairs.is_empty()) else { return Ok(None) };
        let seed = self.nonce();
        let shapes = self.shapes(pairs.len() as u64, seed);
        let at_once = with_all(clique, &pairs, |open| {
            found.extend(open.refused.iter().map(|(pair, error)| refused(*pair, error)));
            let each = shapes.kernel.len().max(shapes.copy.len()) + shapes.large.len();
            let table = Table::new(first, (each * open.pairs.len()) as u64)?;
            self.together(open, &shapes, &table, tried)
        })?;
        let sizes = |shapes: &[Shape]| shapes.iter().map(|shape| shape.bytes).collect();
        let (kernel, copy, large) = (sizes(&shapes.kernel), sizes(&shapes.copy), sizes(&shapes.large));
        Ok(Some(Crowd { seed, kernel, copy, large, at_once }))
    }

    fn shapes(&self, pairs: u64, seed: u64) -> Shapes {
        let half = self.slice() / 2;
        let queued = (MOST_QUEUED / (2 * pairs).max(1)).max(FEW);
        let most = half / 4;
        let moved = (MOST_MOVED / (2 * pairs).max(1)).max(FEW);
        let kernel = small(half, self.plan.small.min(moved), most, seed);
        let copy = small(half, self.plan.small.min(queued), most, !seed);
        let large = small(half, 1, half, seed.rotate_left(17));
        let behind = |shape: Shape| Shape { from: shape.from + half, to: shape.to + half, ..shape };
        // Nearly as large as the room, but odd. Both ends have the same alignment to 16 bytes, and neither is
        // aligned.
        let odd =
            |s: Shape| Shape { from: GUARD + 53, to: GUARD + 5, bytes: half - half / 16 - s.bytes % 61 };
        let large = large.into_iter().filter(|_| half >= 16 << 10).map(odd);
        Shapes { kernel, copy, large: large.map(behind).collect() }
    }

    /// Bytes of a source or target area that belong to one peer.
    fn slice(&self) -> u64 {
        let peers = self.stations.len().saturating_sub(1).max(1) as u64;
        self.plan.layout().area() / peers / 4096 * 4096
    }

    /// The pairs of one group, all phases.
    fn together(
        &self,
        open: &Open,
        shapes: &Shapes,
        table: &Table,
        tried: &mut [Tried],
    ) -> Result<(), GpuError> {
        let mut lanes = Lanes::new();
        for pair in &open.pairs {
            let gpu = self.station(pair.from)?.gpu;
            lanes.insert(*pair, [gpu.stream()?, gpu.stream()?]);
        }
        for (engine, way) in
            [Engine::Sm, Engine::Copy].into_iter().flat_map(|e| [(e, Way::Write), (e, Way::Read)])
        {
            let kind = Kind { engine, way, memory: Memory::Plain };
            let seeds = self.sources()?;
            // With copy engines, few pairs affect each other only if they share GPUs, so they run at once.
            let at_once = engine == Engine::Sm || open.pairs.len() <= FEW_PAIRS;
            let rounds = if at_once { vec![open.pairs.clone()] } else { apart(&open.pairs) };
            for round in rounds {
                let errands = self.errands(&round, kind, shapes, (&lanes, &seeds))?;
                let result = run(self.machine, table, &errands)?;
                self.note(&errands, result, table, tried)?;
                if is_spoiled() {
                    return Ok(());
                }
            }
        }
        let layout = self.plan.layout();
        let fields = self.stations.iter().map(|station| &station.plain);
        let areas = fields.map(|field| Ok((field, field.part(layout.source(), layout.area())?)));
        let used = areas.collect::<Result<Vec<_>, GpuError>>()?;
        self.crowd_changes.borrow_mut().extend(self.changed_beside(&used)?);
        self.rest()
    }

    /// Fresh data in every source area.
    fn sources(&self) -> Result<Vec<u64>, GpuError> {
        let layout = self.plan.layout();
        let mut seeds = Vec::new();
        for station in &self.stations {
            let seed = self.nonce();
            station.stream.fill(station.plain.part(layout.source(), layout.area())?, seed, 0)?;
            self.sent.borrow_mut().push(Sent { gpu: station.gpu.id(), seed });
            seeds.push(seed);
        }
        self.stations.iter().try_for_each(|station| station.wait())?;
        Ok(seeds)
    }

    fn errands<'b>(
        &'b self,
        pairs: &[Pair],
        kind: Kind,
        shapes: &Shapes,
        (lanes, seeds): (&'b Lanes, &[u64]),
    ) -> Result<Vec<Errand<'b>>, GpuError> {
        let few = if kind.engine == Engine::Sm { &shapes.kernel } else { &shapes.copy };
        let kernels = kind.engine == Engine::Sm;
        let times = if kernels && pairs.len() <= FEW_PAIRS { LOAD } else { 1 };
        // The large copies begin first, so that the kernels' small copies, which have their own queue, run at the
        // same time.
        let (mut large, mut little) = (Vec::new(), Vec::new());
        for pair in pairs {
            let Some([one, two]) = lanes.get(pair) else { continue };
            large.push(self.errand(*pair, kind, &shapes.large, (one, times, true), seeds)?);
            let queue = if kernels { two } else { one };
            little.push(self.errand(*pair, kind, few, (queue, 1, false), seeds)?);
        }
        large.extend(little);
        Ok(large)
    }

    fn errand<'b>(
        &'b self,
        pair: Pair,
        kind: Kind,
        shapes: &[Shape],
        (worker, times, wide): (&'b Stream, u32, bool),
        seeds: &[u64],
    ) -> Result<Errand<'b>, GpuError> {
        let (sends, receives) = Cell { pair, kind, bytes: 0, shift: (0, 0) }.ends();
        let (sender, receiver) = (self.station(sends)?, self.station(receives)?);
        let layout = self.plan.layout();
        let (area, part) = (peer(sends, receives) * self.slice(), peer(receives, sends) * self.slice());
        let seed = seeds.get(sends.index()).copied().unwrap_or_default();
        let piece = |shape: &Shape| {
            let (first, place) = (area + shape.from, layout.target() + part + shape.to);
            let to = receiver.plain.part(place, shape.bytes)?;
            let from = sender.plain.part(layout.source() + first, shape.bytes)?;
            Ok(Piece { to, from, first, place })
        };
        let pieces = shapes.iter().map(piece).collect::<Result<_, GpuError>>()?;
        let expected =
            BatchExpected { seed, sentinel: receiver.plain.sentinel(), guard: GUARD, restore: true };
        let keeper = Keeper {
            gpu: receives,
            stream: &receiver.stream,
            tally: &receiver.tallies.data,
            host: &receiver.host,
            memory: receiver.plain.whole(),
        };
        Ok(Errand { pair, kind, pieces, wide, times, expected, worker, keeper })
    }

    /// Adds a fault to its pair.
    fn note(
        &self,
        errands: &[Errand<'_>],
        result: Vec<ErrandResult>,
        table: &Table,
        tried: &mut [Tried],
    ) -> Result<(), GpuError> {
        let mut dirty = false;
        for (errand, result) in errands.iter().zip(result) {
            let Some(tried) = tried.iter_mut().find(|t| t.pair == errand.pair) else { continue };
            match result {
                ErrandResult::Correct | ErrandResult::Unknown => {}
                ErrandResult::Wrong(counts) => {
                    dirty = true;
                    tried.faults.push(errand.closer(table, &counts)?.fault(true));
                }
                ErrandResult::Broken(error) => {
                    dirty = true;
                    tried.ended.get_or_insert_with(|| during(&errand.pair.to_string(), &error));
                }
            }
        }
        if dirty && !is_spoiled() {
            self.rest()?;
            self.sources_again()?;
        }
        Ok(())
    }

    /// Restores the last data in every source area.
    fn sources_again(&self) -> Result<(), GpuError> {
        let layout = self.plan.layout();
        for station in &self.stations {
            let last = self.sent.borrow().iter().rev().find(|s| s.gpu == station.gpu.id()).map(|s| s.seed);
            let area = station.plain.part(layout.source(), layout.area())?;
            station.stream.fill(area, last.unwrap_or_default(), 0)?;
        }
        self.stations.iter().try_for_each(|station| station.wait())
    }

    /// The pair whose data this was: word `number` of what GPU `from` sent.
    pub(super) fn sent_to(&self, from: GpuId, number: u64) -> Pair {
        let n = usize::try_from(number * 4 / self.slice().max(1)).unwrap_or_default();
        Pair { from, to: GpuId::new(if n >= from.index() { n + 1 } else { n }) }
    }
}

/// The index of `other` among the peers of `gpu`.
const fn peer(gpu: GpuId, other: GpuId) -> u64 {
    let n = other.index();
    (if n > gpu.index() { n - 1 } else { n }) as u64
}

fn refused(pair: Pair, error: &GpuError) -> Finding {
    let message = format!("{pair}: peer access is refused while other pairs have it: {error}");
    Code::P2pRefused.finding(Severity::Fail, &pair, message)
}
