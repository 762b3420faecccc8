//! Runs the plan: first everything with peer access off, where all copies share the host's memory and run one
//! after the other, then with it on, in rounds of pairs that share no link.

use super::cells::{self, Cell, Sizes};
use super::{LATENCY_CELL, Seen, sizes};
use crate::config::Level;
use crate::floors::stats::{LATENCY, Policy};
use crate::machine::GpuId;
use crate::outcome::finding::Finding;
use crate::schedule::Pair;
use crate::suite::Machine;
use crate::suite::shared::speed;
use crate::suite::shared::speed::copies as copies_for;
use crate::suite::shared::speed::{
    Access, Bench, Figure, Flow, Grid, How, Job, Taken, Ways, across, copies_at,
};

/// With more pairs than this, no figure is measured again: the machine is slow in that case, and not only for a
/// moment.
const MOST_AGAIN: usize = 16;
/// Copies of 16 bytes for one sample of the latency, as p2pBandwidthLatencyTest makes.
const SMALL_COPIES: u32 = 100;

/// Everything that the level asks for.
pub(super) fn all(
    machine: &Machine,
    bench: &Bench<'_>,
    ways: &Ways,
    seen: &mut Seen,
) -> Result<(), Box<Finding>> {
    let level = machine.config.validate.level;
    let mut run = Run { machine, bench, seen, level, again: false };
    run.off()?;
    for round in ways.rounds() {
        run.on(&round, ways)?;
    }
    run.within(true)?;
    if level >= Level::Standard { sizes::measure(machine, bench, ways, run.seen) } else { Ok(()) }
}

/// Measures `cells` once more, pair by pair and with no other traffic: a figure that was low only briefly, or
/// because of an unknown shared resource, is not low.
pub(super) fn again(
    machine: &Machine,
    bench: &Bench<'_>,
    cells: &[(&'static str, Pair)],
    seen: &mut Seen,
) -> Result<(), Box<Finding>> {
    let level = machine.config.validate.level;
    let mut pairs: Vec<_> = cells.iter().map(|(_, pair)| pair.sorted()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.truncate(MOST_AGAIN);
    let mut run = Run { machine, bench, seen, level, again: true };
    for pair in pairs {
        let access = Access::of(machine, &[pair])?;
        if access.pairs.is_empty() {
            continue;
        }
        let wanted = |cell: &Cell| cell.cells.iter().any(|pair| cells.contains(&(cell.name, *pair)));
        let alone = run.seen.grid.get("ce.write", pair).unwrap_or(0.0);
        let sizes = run.sizes(pair, copies_at(bench.bytes, alone));
        run.warm(&[pair, pair.back()].map(|way| vec![cells::warm_up(way, How::Ce, sizes, 1)]))?;
        if cells.iter().any(|(name, p)| *name == LATENCY_CELL && p.sorted() == pair) {
            run.latency(&[pair])?;
        }
        let all = cells::between(pair, true, sizes, level).into_iter();
        for cell in all.chain(cells::devices(pair, sizes, level)).filter(wanted) {
            run.measure(&[cell])?;
        }
    }
    Ok(())
}

struct Run<'a, 'b> {
    machine: &'a Machine,
    bench: &'a Bench<'b>,
    seen: &'a mut Seen,
    level: Level,
    /// Whether this is the second measurement.
    again: bool,
}

impl Run<'_, '_> {
    fn off(&mut self) -> Result<(), Box<Finding>> {
        self.within(false)?;
        for from in 0..self.bench.gpus() {
            for to in from + 1..self.bench.gpus() {
                let pair = Pair::of(from, to);
                let sizes = self.sizes(pair, 1);
                self.warm(&[pair, pair.back()].map(|way| vec![cells::warm_up(way, How::Peer, sizes, 1)]))?;
                for cell in cells::between(pair, false, sizes, self.level) {
                    self.measure(&[cell])?;
                }
            }
        }
        Ok(())
    }

    /// Copies within each GPU, all GPUs at once: they share no link.
    fn within(&mut self, on: bool) -> Result<(), Box<Finding>> {
        let cells =
            |gpu: GpuId| cells::within(gpu, on, self.sizes(Pair::new(gpu, gpu), 1), self.level).into_iter();
        let cells = across(GpuId::all(self.bench.gpus()).map(cells).collect());
        cells.iter().try_for_each(|cells| self.measure(cells))
    }

    /// One round of pairs with peer access on.
    fn on(&mut self, round: &[Pair], ways: &Ways) -> Result<(), Box<Finding>> {
        let access = Access::of(self.machine, round)?;
        self.seen.apart.extend(access.apart.iter().cloned());
        let pairs = &access.pairs;
        let times = self.loaded(pairs, ways)?;
        let cells = |(pair, times): (&Pair, u32)| {
            let sizes = self.sizes(*pair, times);
            let cells = cells::between(*pair, true, sizes, self.level);
            cells.into_iter().chain(cells::devices(*pair, sizes, self.level))
        };
        let cells = across(pairs.iter().zip(times).map(cells).collect());
        self.latency(pairs)?;
        cells.iter().try_for_each(|cells| self.measure(cells))
    }

    /// Copies that wake up the links, which are read meanwhile; returns how many copies make a sample for
    /// each pair, from the time that these take.
    fn loaded(&mut self, pairs: &[Pair], ways: &Ways) -> Result<Vec<u32>, Box<Finding>> {
        let fabric = self.machine.fabric()?;
        let devices: Vec<_> = pairs.iter().flat_map(|pair| ways.pcie(fabric, *pair)).collect();
        // Long enough to read them, which takes milliseconds.
        let copies = if self.seen.links.know(&devices) { 1 } else { 4 };
        let flow = |way: Pair| vec![cells::warm_up(way, How::Ce, self.sizes(way, 1), copies)];
        let there: Vec<_> = pairs.iter().map(|pair| flow(*pair)).collect();
        let back: Vec<_> = pairs.iter().map(|pair| flow(pair.back())).collect();
        let machine = self.machine;
        let links = &mut self.seen.links;
        let look = &mut || links.look(machine, &devices);
        let timed = self.bench.once(machine, &there, look)?;
        for timed in &timed {
            self.wrong(timed);
        }
        self.warm(&back)?;
        let ms = |timed: &speed::Timed| timed.each.first().map_or(0.0, |ms| ms / f64::from(copies));
        Ok(timed.iter().map(|timed| copies_for(ms(timed))).collect())
    }

    fn warm(&mut self, groups: &[Vec<Flow>]) -> Result<(), Box<Finding>> {
        for timed in self.bench.once(self.machine, groups, &mut || true)? {
            self.wrong(&timed);
        }
        Ok(())
    }

    fn wrong(&mut self, timed: &speed::Timed) {
        self.seen.findings.extend(timed.wrong.map(|(flow, checked)| speed::wrong(&flow, &checked)));
    }

    /// Measures the latency for the judge; `p2p-latency` measures it for the report.
    fn latency(&mut self, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        for back in [false, true] {
            let way = |pair: &Pair| if back { pair.back() } else { *pair };
            let cell = |pair: &Pair| Cell {
                name: LATENCY_CELL,
                cells: vec![way(pair)],
                job: Job::new(vec![Flow::write(way(pair), How::Peer, 16, SMALL_COPIES)], Figure::Latency),
            };
            let cells: Vec<_> = pairs.iter().map(cell).collect();
            self.take(&cells, &LATENCY)?;
        }
        Ok(())
    }

    fn measure(&mut self, cells: &[Cell]) -> Result<(), Box<Finding>> {
        let Some(first) = cells.first() else { return Ok(()) };
        self.take(cells, &cells::policy(first.name, self.level))
    }

    fn take(&mut self, cells: &[Cell], policy: &Policy) -> Result<(), Box<Finding>> {
        let jobs: Vec<_> = cells.iter().map(|cell| cell.job.clone()).collect();
        let taken = self.bench.sampled(self.machine, policy, &jobs)?;
        for (cell, taken) in cells.iter().zip(taken) {
            match taken {
                Taken::Wrong(flow, checked) => self.seen.findings.push(speed::wrong(&flow, &checked)),
                Taken::Figures(figures) => {
                    let latency = cell.name == LATENCY_CELL;
                    let grid = if latency { &mut self.seen.latency } else { &mut self.seen.grid };
                    let put = if self.again { Grid::put_again } else { Grid::put };
                    for (pair, figure) in cell.cells.iter().zip(figures.iter().cycle()) {
                        put(grid, cell.name, *pair, figure.clone());
                    }
                }
            }
        }
        Ok(())
    }

    fn sizes(&self, pair: Pair, times: u32) -> Sizes {
        let bytes = self.bench.bytes;
        let rounds = |gpu| self.bench.whole_rounds(gpu, bytes);
        Sizes { bytes, rounds: (rounds(pair.from), rounds(pair.to)), times }
    }
}
