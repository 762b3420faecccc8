//! Takes the samples: each pair alone, then the patterns.

use super::movers::{MOVERS, Mover, MoverSpeed, is_tried};
use super::pattern::{Pattern, PatternKind, few_peers_each, fewer_peers, patterns, unordered};
use super::switches::{SwitchSpeed, SwitchTransfers};
use super::{PatternSpeeds, Results, mixed, switches};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{
    Bench, CopyMethod, Flow, GpuPaths, HostLoad, Job, JobFigure, JobResult, RoundAccess, Side,
    copies, copies_at, wrong_data,
};
use crate::suite::shared::gpu_fault::fault_finding;
use outcome::Matrix;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use report::Level;
use report::stats::{BANDWIDTH, RepeatPolicy, gb_s};
use std::collections::BTreeMap;

/// Up to this many ordered pairs (8 GPUs) are each measured alone; with more, the pairs of a round, which share no
/// known link, are measured at once.
const ALONE: usize = 8 * 7;
/// The test that has measured the pairs alone.
const MEASURED: &str = "p2p-bandwidth";
/// Samples of a pattern by kernels and reads.
const MOVER_SAMPLES: usize = 2;
/// Copies to and from the host of each GPU, in each direction, during mixed traffic: 384 MiB, which take as long as half
/// of the traffic between GPUs on PCIe.
const HOST_COPIES: u32 = 48;

/// Measures everything.
pub(super) fn all(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let samples = if context.config.validate.level >= Level::Full {
        5
    } else {
        3
    };
    let policy = RepeatPolicy {
        samples,
        repeats: 0,
        ..BANDWIDTH
    };
    let rounds = paths.rounds();
    let mut run = Run {
        context,
        bench,
        policy,
        in_turn: false,
        results,
        times: BTreeMap::new(),
    };
    run.alone(&rounds)?;
    run.patterns(&rounds.concat(), patterns(bench.gpus()))?;
    run.movers(&rounds)?;
    run.switches(paths)?;
    run.mixed()
}

/// Measures some patterns once more, after all others: a figure that was low only once is not low. GPUs that move one
/// transfer after the other now do so in an order in which no two send to the same GPU.
pub(super) fn again(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    kinds: &[PatternKind],
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let first: Vec<PatternSpeeds> = results
        .speeds
        .iter()
        .filter(|m| kinds.contains(&m.pattern.kind))
        .cloned()
        .collect();
    let mut second = Results {
        alone: results.alone.clone(),
        ..Results::default()
    };
    let policy = RepeatPolicy {
        samples: 3,
        repeats: 0,
        ..BANDWIDTH
    };
    let times = first
        .iter()
        .flat_map(|m| m.pattern.pairs.iter().map(|pair| (*pair, m.times)))
        .collect();
    let mut run = Run {
        context,
        bench,
        policy,
        in_turn: false,
        results: &mut second,
        times,
    };
    for PatternSpeeds { pattern, .. } in first {
        let access = RoundAccess::of(context, &pattern.access())?;
        if access.without_access.is_empty() {
            run.in_turn = bench.serializes_transfers(context, paths, &pattern.pairs)?;
            run.pattern(&pattern)?;
        }
    }
    results.findings.extend(second.findings);
    for again in second.speeds {
        if let Some(first) = results
            .speeds
            .iter_mut()
            .find(|m| m.pattern == again.pattern)
        {
            first.again = Some((again.total, again.each));
        }
    }
    Ok(())
}

struct Run<'a, 'b> {
    context: &'a TestContext,
    bench: &'a Bench<'b>,
    policy: RepeatPolicy,
    /// Each GPU moves its transfers of a pattern one after the other.
    in_turn: bool,
    results: &'a mut Results,
    /// How many copies each pair makes for a sample.
    times: BTreeMap<Pair, u32>,
}

impl Run<'_, '_> {
    /// All patterns that the number of peers allows; `pairs`: all pairs.
    fn patterns(&mut self, pairs: &[Pair], all: Vec<Pattern>) -> Result<(), Box<Finding>> {
        let everything = RoundAccess::of(self.context, pairs)?;
        if everything.without_access.is_empty() {
            return all.iter().try_for_each(|pattern| self.pattern(pattern));
        }
        // Too many peers for a GPU, or pairs without access: each pattern needs only some pairs.
        drop(everything);
        for pattern in all.into_iter().chain(fewer_peers(self.bench.gpus())) {
            let access = RoundAccess::of(self.context, &pattern.access())?;
            match access.without_access.first() {
                None => self.pattern(&pattern)?,
                Some((pair, why)) => self
                    .results
                    .left_out
                    .push((pattern, format!("{pair}: {why}"))),
            }
        }
        Ok(())
    }

    /// Each pair by itself, unless `p2p-bandwidth` has just measured that.
    fn alone(&mut self, rounds: &[Vec<Pair>]) -> Result<(), Box<Finding>> {
        if let Some(known) = known(self.context, rounds, Metric::CE_WRITE, |pair| pair) {
            let bytes = self.flow(Pair::of(0, 1), 1).bytes;
            self.times = known
                .iter()
                .map(|(pair, gb_s)| (*pair, copies_at(bytes, *gb_s)))
                .collect();
            self.results.alone = known;
            return Ok(());
        }
        let few = self.bench.gpus() * self.bench.gpus().saturating_sub(1) <= ALONE;
        for round in rounds {
            let access = RoundAccess::of(self.context, round)?;
            let directions = [
                access.pairs.clone(),
                access.pairs.iter().map(|p| p.back()).collect(),
            ];
            for pairs in directions {
                let together = if few { 1 } else { pairs.len().max(1) };
                pairs
                    .chunks(together)
                    .try_for_each(|pairs| self.measured_alone(pairs))?;
            }
        }
        Ok(())
    }

    fn measured_alone(&mut self, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        let warm: Vec<_> = pairs.iter().map(|pair| vec![self.flow(*pair, 1)]).collect();
        for (pair, timed) in pairs
            .iter()
            .zip(self.bench.once(self.context, &warm, &mut || true)?)
        {
            self.times
                .insert(*pair, timed.each.first().map_or(1, |ms| copies(*ms)));
        }
        let jobs: Vec<_> = pairs
            .iter()
            .map(|pair| Job::new(vec![self.flow(*pair, self.times(*pair))], JobFigure::First))
            .collect();
        for (pair, taken) in
            pairs
                .iter()
                .zip(self.bench.sampled(self.context, &self.policy, &jobs)?)
        {
            match taken {
                JobResult::Wrong(flow, checked) => {
                    self.results.findings.push(wrong_data(&flow, &checked));
                }
                JobResult::Figures(figures) => {
                    self.results
                        .alone
                        .extend(figures.first().map(|figure| (*pair, figure.median)));
                }
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &Pattern) -> Result<(), Box<Finding>> {
        // The same number of copies each: transfers that share fairly then end together.
        let times = pattern
            .pairs
            .iter()
            .map(|pair| self.times(*pair))
            .min()
            .unwrap_or(1);
        let flows = pattern
            .pairs
            .iter()
            .map(|pair| self.flow(*pair, times))
            .collect();
        let jobs = [Job::new(flows, JobFigure::Each)];
        for taken in self.bench.sampled(self.context, &self.policy, &jobs)? {
            match taken {
                JobResult::Wrong(flow, checked) => {
                    self.results.findings.push(wrong_data(&flow, &checked));
                }
                JobResult::Figures(figures) => {
                    let mut figures = figures.into_iter().map(|figure| figure.median);
                    let Some(total) = figures.next() else {
                        continue;
                    };
                    let each = figures.collect();
                    let speeds = PatternSpeeds {
                        pattern: pattern.clone(),
                        total,
                        each,
                        times,
                        again: None,
                    };
                    self.results.speeds.push(speeds);
                }
            }
        }
        Ok(())
    }

    /// The ring and all to all by kernels and reads; what is far below the copy engines' writes is measured again.
    fn movers(&mut self, rounds: &[Vec<Pair>]) -> Result<(), Box<Finding>> {
        for mover in MOVERS {
            let known = known(self.context, rounds, mover.alone, |pair| mover.cell(pair));
            self.results
                .alone_by
                .extend(known.map(|known| (mover.alone.name(), known)));
        }
        let patterns: Vec<_> = self
            .results
            .speeds
            .iter()
            .map(|speeds| speeds.pattern.clone())
            .collect();
        for pattern in patterns
            .into_iter()
            .filter(|pattern| is_tried(pattern.kind))
        {
            let access = RoundAccess::of(self.context, &pattern.access())?;
            if !access.without_access.is_empty() {
                continue;
            }
            for mover in MOVERS {
                let Some(total) = self.moved(&pattern, mover)? else {
                    continue;
                };
                let mut speed = MoverSpeed {
                    pattern: pattern.clone(),
                    mover,
                    total,
                    again: None,
                };
                if speed
                    .finding(self.results, &self.results.alone_by)
                    .is_some()
                {
                    speed.again = self.moved(&pattern, mover)?;
                }
                self.results.movers.push(speed);
            }
        }
        Ok(())
    }

    /// GB/s of a pattern by a mover; `None` where data was wrong, which is a finding.
    fn moved(&mut self, pattern: &Pattern, mover: Mover) -> Result<Option<f64>, Box<Finding>> {
        let times = pattern
            .pairs
            .iter()
            .map(|pair| self.times(*pair))
            .min()
            .unwrap_or(1);
        let flows = pattern
            .pairs
            .iter()
            .map(|pair| mover.of(self.flow(*pair, times)))
            .collect();
        self.total(flows)
    }

    /// GB/s of transfers that run together; `None` where data was wrong, which is a finding.
    fn total(&mut self, flows: Vec<Flow>) -> Result<Option<f64>, Box<Finding>> {
        let policy = RepeatPolicy {
            samples: MOVER_SAMPLES,
            ..self.policy
        };
        let taken =
            self.bench
                .sampled(self.context, &policy, &[Job::new(flows, JobFigure::Total)])?;
        Ok(match taken.into_iter().next() {
            Some(JobResult::Figures(figures)) => figures.first().map(|figure| figure.median),
            Some(JobResult::Wrong(flow, checked)) => {
                self.results.findings.push(wrong_data(&flow, &checked));
                None
            }
            None => None,
        })
    }

    /// GPUs of each switch that send to several root ports; writes that are far below the reads are measured again.
    fn switches(&mut self, paths: &GpuPaths) -> Result<(), Box<Finding>> {
        let gpus = self.context.clique()?.addresses();
        for transfers in switches::plan(self.context.fabric()?, &gpus, |pair| {
            paths.distance(pair).is_some()
        }) {
            let access = RoundAccess::of(self.context, &transfers.access())?;
            if let Some((pair, why)) = access.without_access.first() {
                let message = format!("{} were not run: {pair}: {why}", transfers.name());
                let finding = Code::P2pNotRun.finding(Severity::Info, transfers.switch, message);
                self.results.findings.push(finding);
                continue;
            }
            let Some(writes) = self.switch(&transfers, Side::Source)? else {
                continue;
            };
            let Some(reads) = self.switch(&transfers, Side::Target)? else {
                continue;
            };
            let mut speed = SwitchSpeed {
                transfers,
                writes,
                reads,
                again: None,
            };
            if speed.finding().is_some() {
                speed.again = self.switch(&speed.transfers, Side::Source)?;
            }
            self.results.switches.push(speed);
        }
        Ok(())
    }

    /// GB/s of a switch's transfers by copy engines; `None` where data was wrong, which is a finding.
    fn switch(
        &mut self,
        transfers: &SwitchTransfers,
        by: Side,
    ) -> Result<Option<f64>, Box<Finding>> {
        let times = transfers
            .pairs
            .iter()
            .map(|pair| self.times(*pair))
            .min()
            .unwrap_or(1);
        let flows = transfers
            .pairs
            .iter()
            .map(|pair| Flow {
                by,
                ..self.flow(*pair, times)
            })
            .collect();
        self.total(flows)
    }

    /// Mixed traffic of all pairs at once, or of as many at a time as a GPU can have peers, with copies to and from the host.
    fn mixed(&mut self) -> Result<(), Box<Finding>> {
        let gpus = self.bench.gpus();
        let is_all = |speeds: &PatternSpeeds| speeds.pattern.kind == PatternKind::All;
        let groups = match self.results.speeds.iter().find(|speeds| is_all(speeds)) {
            Some(all) => vec![all.pattern.pairs.clone()],
            None => few_peers_each(gpus),
        };
        self.context.doing("locking the host's memory");
        let load = HostLoad::new(self.bench, self.context.clique()?)
            .map_err(|e| fault_finding(Subject::Machine, &e))?;
        groups
            .into_iter()
            .try_for_each(|pairs| self.mixed_group(pairs, &load))
    }

    /// Mixed traffic of those of these pairs that have peer access.
    fn mixed_group(&mut self, mut pairs: Vec<Pair>, load: &HostLoad) -> Result<(), Box<Finding>> {
        let access = RoundAccess::of(self.context, &unordered(&pairs))?;
        pairs.retain(|pair| access.pairs.contains(&pair.sorted()));
        if pairs.is_empty() {
            return Ok(());
        }
        let broken = |e: gpu::GpuError| fault_finding(Subject::Machine, &e);
        for round in 0..mixed::ROUNDS {
            let flows = mixed::flows(&pairs, self.bench.gpus(), round, |flow| {
                self.bench.for_peer(flow)
            });
            let all: u64 = flows.iter().map(Flow::total).sum();
            let count = flows.len();
            self.context.doing(format!(
                "{count} reads and writes by kernels and copy engines, and copies to the host"
            ));
            let (timed, wrong) = self
                .bench
                .run_with_host(&[flows], load, HOST_COPIES)
                .map_err(broken)?;
            self.results
                .findings
                .extend(wrong.map(|wrong| mixed::wrong_host_copy(&wrong)));
            for timed in timed {
                match timed.wrong {
                    Some((flow, checked)) => {
                        self.results.findings.push(wrong_data(&flow, &checked));
                    }
                    None => self
                        .results
                        .mixed
                        .extend(gb_s(all, timed.total).ok().map(|gb_s| (count, gb_s))),
                }
            }
        }
        Ok(())
    }

    fn times(&self, pair: Pair) -> u32 {
        self.times.get(&pair).copied().unwrap_or(1)
    }

    fn flow(&self, pair: Pair, times: u32) -> Flow {
        let flow = Flow {
            in_turn: self.in_turn,
            ..Flow::write(pair, CopyMethod::Ce, 0, times)
        };
        self.bench.for_peer(flow)
    }
}

/// The pairs' speeds from a matrix of `p2p-bandwidth`, if it measured every one; `cell`: where a pair's speed is in it.
fn known(
    context: &TestContext,
    rounds: &[Vec<Pair>],
    matrix: Metric,
    cell: impl Fn(Pair) -> Pair,
) -> Option<BTreeMap<Pair, f64>> {
    let Matrix { values, .. } = context.matrix(MEASURED, matrix)?;
    let speed = |pair: Pair| {
        let Pair { from, to } = cell(pair);
        Some((pair, (*values.get(from.index())?.get(to.index())?)?))
    };
    rounds
        .iter()
        .flatten()
        .flat_map(|pair| [*pair, pair.back()])
        .map(speed)
        .collect()
}
