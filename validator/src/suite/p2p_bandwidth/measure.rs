//! Runs the plan: first everything with peer access off, where all copies share the host's memory
//! and go one after the other, then with it on, round by round of pairs that share nothing.

use super::plan::{self, Cell, Sizes};
use super::{Seen, sizes};
use crate::config::Level;
use crate::finding::Finding;
use crate::measure::{LATENCY, Policy};
use crate::schedule::Pair;
use crate::suite::speed::{Access, Bench, Figure, Flow, How, Job, Taken, Ways, across, copies as copies_for};
use crate::suite::{Machine, speed};

/// Copies of 16 bytes for one sample of the latency, as p2pBandwidthLatencyTest makes.
const SMALL_COPIES: u32 = 100;

/// Everything of the level.
pub(super) fn all(
    machine: &Machine,
    bench: &Bench<'_>,
    ways: &Ways,
    seen: &mut Seen,
) -> Result<(), Box<Finding>> {
    let level = machine.config.validate.level;
    let mut run = Run { machine, bench, seen, level };
    run.off()?;
    for round in ways.rounds() {
        run.on(&round, ways)?;
    }
    run.within(true)?;
    if level == Level::Full { sizes::table(machine, bench, ways, run.seen) } else { Ok(()) }
}

struct Run<'a, 'b> {
    machine: &'a Machine,
    bench: &'a Bench<'b>,
    seen: &'a mut Seen,
    level: Level,
}

impl Run<'_, '_> {
    fn off(&mut self) -> Result<(), Box<Finding>> {
        self.within(false)?;
        for from in 0..self.bench.gpus() {
            for to in from + 1..self.bench.gpus() {
                let pair = Pair::new(from, to);
                let sizes = self.sizes(pair, 1);
                self.warm(&[pair, pair.back()].map(|way| vec![plan::warm_up(way, How::Peer, sizes, 1)]))?;
                for cell in plan::between(pair, false, sizes, self.level) {
                    self.measure(&[cell])?;
                }
            }
        }
        Ok(())
    }

    /// Copies within each GPU, all GPUs at once: they share nothing.
    fn within(&mut self, on: bool) -> Result<(), Box<Finding>> {
        let cells =
            |gpu: usize| plan::within(gpu, on, self.sizes(Pair::new(gpu, gpu), 1), self.level).into_iter();
        let cells = across((0..self.bench.gpus()).map(cells).collect());
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
            let cells = plan::between(*pair, true, sizes, self.level);
            cells.into_iter().chain(plan::devices(*pair, sizes, self.level))
        };
        let cells = across(pairs.iter().zip(times).map(cells).collect());
        self.latency(pairs)?;
        cells.iter().try_for_each(|cells| self.measure(cells))
    }

    /// Copies that wake the links up, which are read meanwhile; by how long they take, how many
    /// copies make a sample for each pair.
    fn loaded(&mut self, pairs: &[Pair], ways: &Ways) -> Result<Vec<u32>, Box<Finding>> {
        let fabric = self.machine.fabric()?;
        let devices: Vec<_> = pairs.iter().flat_map(|pair| ways.pcie(fabric, *pair)).collect();
        // Long enough to read them: reading takes milliseconds.
        let copies = if self.seen.links.know(&devices) { 1 } else { 4 };
        let flow = |way: Pair| vec![plan::warm_up(way, How::Ce, self.sizes(way, 1), copies)];
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

    /// Judging needs it; `p2p-latency` measures it for the report.
    fn latency(&mut self, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        for back in [false, true] {
            let way = |pair: &Pair| if back { pair.back() } else { *pair };
            let cell = |pair: &Pair| Cell {
                name: "latency",
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
        self.take(cells, &plan::policy(first.name, self.level))
    }

    fn take(&mut self, cells: &[Cell], policy: &Policy) -> Result<(), Box<Finding>> {
        let jobs: Vec<_> = cells.iter().map(|cell| cell.job.clone()).collect();
        let taken = self.bench.sampled(self.machine, policy, &jobs)?;
        for (cell, taken) in cells.iter().zip(taken) {
            match taken {
                Taken::Wrong(flow, checked) => self.seen.findings.push(speed::wrong(&flow, &checked)),
                Taken::Figures(figures) => {
                    let grid =
                        if cell.name == "latency" { &mut self.seen.latency } else { &mut self.seen.grid };
                    for (pair, figure) in cell.cells.iter().zip(figures.iter().cycle()) {
                        grid.put(cell.name, *pair, figure.clone());
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
