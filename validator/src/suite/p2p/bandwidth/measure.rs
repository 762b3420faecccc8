//! Runs the plan: first everything with peer access off, where all copies share the host's memory and run one
//! after the other, then with it on, in rounds of pairs that share no link.

use super::cells::{self, MatrixCell, Sizes};
use super::{LATENCY_CELL, Results, sizes};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark;
use crate::suite::benchmark::copies as copies_for;
use crate::suite::benchmark::{
    Bench, CopyMethod, Flow, GpuPaths, Grid, GroupTiming, Job, JobFigure, JobResult, RoundAccess,
    copies_at, transpose,
};
use machine::GpuId;
use outcome::finding::Finding;
use outcome::metric::Metric;
use report::Level;
use report::stats::{LATENCY, RepeatPolicy};

/// With more pairs than this, no figure is measured again: the machine is slow in that case, and not only for a
/// moment.
const MOST_AGAIN: usize = 16;
/// Copies of 16 bytes for one sample of the latency, as p2pBandwidthLatencyTest makes.
const SMALL_COPIES: u32 = 100;

/// Measures everything that the level requires.
pub(super) fn all(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let level = context.config.validate.level;
    let mut run = Run {
        context,
        bench,
        results,
        level,
        again: false,
    };
    run.measure_off()?;
    for round in paths.rounds() {
        run.measure_on(&round, paths)?;
    }
    run.measure_within(true)?;
    if level >= Level::Standard {
        sizes::measure(context, bench, paths, run.results)
    } else {
        Ok(())
    }
}

/// Measures `cells` once more, pair by pair and with no other traffic: a figure that was low only briefly, or
/// because of an unknown shared resource, is not low.
pub(super) fn again(
    context: &TestContext,
    bench: &Bench<'_>,
    cells: &[(Metric, Pair)],
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let level = context.config.validate.level;
    let mut pairs: Vec<_> = cells.iter().map(|(_, pair)| pair.sorted()).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.truncate(MOST_AGAIN);
    let mut run = Run {
        context,
        bench,
        results,
        level,
        again: true,
    };
    for pair in pairs {
        let access = RoundAccess::of(context, &[pair])?;
        if access.pairs.is_empty() {
            continue;
        }
        let wanted = |cell: &MatrixCell| {
            cell.pairs
                .iter()
                .any(|pair| cells.contains(&(cell.metric, *pair)))
        };
        let alone = run.results.grid.get(Metric::CE_WRITE, pair).unwrap_or(0.0);
        let sizes = run.sizes(pair, copies_at(bench.bytes, alone));
        run.warm_up(
            &[pair, pair.back()].map(|way| vec![cells::warm_up(way, CopyMethod::Ce, sizes, 1)]),
        )?;
        if cells
            .iter()
            .any(|(metric, p)| *metric == LATENCY_CELL && p.sorted() == pair)
        {
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
    context: &'a TestContext,
    bench: &'a Bench<'b>,
    results: &'a mut Results,
    level: Level,
    /// Whether this is the second measurement.
    again: bool,
}

impl Run<'_, '_> {
    fn measure_off(&mut self) -> Result<(), Box<Finding>> {
        self.measure_within(false)?;
        for from in 0..self.bench.gpus() {
            for to in from + 1..self.bench.gpus() {
                let pair = Pair::of(from, to);
                let sizes = self.sizes(pair, 1);
                self.warm_up(
                    &[pair, pair.back()]
                        .map(|way| vec![cells::warm_up(way, CopyMethod::Peer, sizes, 1)]),
                )?;
                for cell in cells::between(pair, false, sizes, self.level) {
                    self.measure(&[cell])?;
                }
            }
        }
        Ok(())
    }

    /// Copies within each GPU, all GPUs at once: they share no link.
    fn measure_within(&mut self, on: bool) -> Result<(), Box<Finding>> {
        let cells = |gpu: GpuId| {
            cells::within(gpu, on, self.sizes(Pair::new(gpu, gpu), 1), self.level).into_iter()
        };
        let cells = transpose(GpuId::all(self.bench.gpus()).map(cells).collect());
        cells.iter().try_for_each(|cells| self.measure(cells))
    }

    /// One round of pairs with peer access on.
    fn measure_on(&mut self, round: &[Pair], paths: &GpuPaths) -> Result<(), Box<Finding>> {
        let access = RoundAccess::of(self.context, round)?;
        self.results
            .without_access
            .extend(access.without_access.iter().cloned());
        self.results.findings.extend(access.refused.iter().cloned());
        let pairs = &access.pairs;
        let times = self.wake_links(pairs, paths)?;
        let cells = |(pair, times): (&Pair, u32)| {
            let sizes = self.sizes(*pair, times);
            let cells = cells::between(*pair, true, sizes, self.level);
            cells
                .into_iter()
                .chain(cells::devices(*pair, sizes, self.level))
        };
        let cells = transpose(pairs.iter().zip(times).map(cells).collect());
        self.latency(pairs)?;
        cells.iter().try_for_each(|cells| self.measure(cells))
    }

    /// Copies that wake up the links, which are read meanwhile; returns how many copies make a sample for
    /// each pair, from the time that these take.
    fn wake_links(&mut self, pairs: &[Pair], paths: &GpuPaths) -> Result<Vec<u32>, Box<Finding>> {
        let fabric = self.context.fabric()?;
        let devices: Vec<_> = pairs
            .iter()
            .flat_map(|pair| paths.pcie(fabric, *pair))
            .collect();
        // Long enough to read them, which takes milliseconds.
        let copies = if self.results.links.has_all(&devices) {
            1
        } else {
            4
        };
        let flow = |way: Pair| {
            vec![cells::warm_up(
                way,
                CopyMethod::Ce,
                self.sizes(way, 1),
                copies,
            )]
        };
        let there: Vec<_> = pairs.iter().map(|pair| flow(*pair)).collect();
        let back: Vec<_> = pairs.iter().map(|pair| flow(pair.back())).collect();
        let context = self.context;
        let links = &mut self.results.links;
        let poll = &mut || links.read(context, &devices);
        let timed = self.bench.once(context, &there, poll)?;
        for timed in &timed {
            self.note_wrong_data(timed);
        }
        self.warm_up(&back)?;
        let ms = |timed: &GroupTiming| timed.each.first().map_or(0.0, |ms| ms / f64::from(copies));
        Ok(timed.iter().map(|timed| copies_for(ms(timed))).collect())
    }

    fn warm_up(&mut self, groups: &[Vec<Flow>]) -> Result<(), Box<Finding>> {
        for timed in self.bench.once(self.context, groups, &mut || true)? {
            self.note_wrong_data(&timed);
        }
        Ok(())
    }

    fn note_wrong_data(&mut self, timed: &GroupTiming) {
        self.results.findings.extend(
            timed
                .wrong
                .map(|(flow, checked)| benchmark::wrong_data(&flow, &checked)),
        );
    }

    /// Measures the latency for the judge; `p2p-latency` measures it for the report.
    fn latency(&mut self, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        for back in [false, true] {
            let way = |pair: &Pair| if back { pair.back() } else { *pair };
            let cell = |pair: &Pair| MatrixCell {
                metric: LATENCY_CELL,
                pairs: vec![way(pair)],
                job: Job::new(
                    vec![Flow::write(way(pair), CopyMethod::Peer, 16, SMALL_COPIES)],
                    JobFigure::Latency,
                ),
            };
            let cells: Vec<_> = pairs.iter().map(cell).collect();
            self.sample(&cells, &LATENCY)?;
        }
        Ok(())
    }

    fn measure(&mut self, cells: &[MatrixCell]) -> Result<(), Box<Finding>> {
        let Some(first) = cells.first() else {
            return Ok(());
        };
        self.sample(cells, &cells::policy(first.metric, self.level))
    }

    fn sample(&mut self, cells: &[MatrixCell], policy: &RepeatPolicy) -> Result<(), Box<Finding>> {
        let jobs: Vec<_> = cells.iter().map(|cell| cell.job.clone()).collect();
        let taken = self.bench.sampled(self.context, policy, &jobs)?;
        for (cell, taken) in cells.iter().zip(taken) {
            match taken {
                JobResult::Wrong(flow, checked) => {
                    self.results
                        .findings
                        .push(benchmark::wrong_data(&flow, &checked));
                }
                JobResult::Figures(figures) => {
                    let latency = cell.metric == LATENCY_CELL;
                    let grid = if latency {
                        &mut self.results.latency
                    } else {
                        &mut self.results.grid
                    };
                    let put = if self.again {
                        Grid::put_again
                    } else {
                        Grid::put
                    };
                    for (pair, figure) in cell.pairs.iter().zip(figures.iter().cycle()) {
                        put(grid, cell.metric, *pair, figure.clone());
                    }
                }
            }
        }
        Ok(())
    }

    fn sizes(&self, pair: Pair, times: u32) -> Sizes {
        let bytes = self.bench.bytes;
        let rounds = |gpu| self.bench.whole_rounds(gpu, bytes);
        Sizes {
            bytes,
            rounds: (rounds(pair.from), rounds(pair.to)),
            times,
        }
    }
}
