//! Takes the samples: each pair alone, then the patterns.

use super::pattern::{Pattern, PatternKind, fewer_peers, patterns};
use super::{PatternSpeeds, Results};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{
    Bench, CopyMethod, Flow, GpuPaths, Job, JobFigure, JobResult, RoundAccess, copies, copies_at, wrong_data,
};
use outcome::Matrix;
use outcome::finding::Finding;
use outcome::metric::Metric;
use report::Level;
use report::stats::{BANDWIDTH, RepeatPolicy};
use std::collections::BTreeMap;

/// Up to this many ordered pairs (8 GPUs) are each measured alone; with more, the pairs of a round, which share no
/// known link, are measured at once.
const ALONE: usize = 8 * 7;
/// The test and the matrix with the same measurement.
const MEASURED: (&str, Metric) = ("p2p-bandwidth", Metric::CE_WRITE);

/// Measures everything.
pub(super) fn all(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let samples = if context.config.validate.level >= Level::Full { 5 } else { 3 };
    let policy = RepeatPolicy { samples, repeats: 0, ..BANDWIDTH };
    let rounds = paths.rounds();
    let mut run = Run { context, bench, policy, in_turn: false, results, times: BTreeMap::new() };
    run.alone(&rounds)?;
    run.patterns(&rounds.concat(), patterns(bench.gpus()))
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
    let first: Vec<PatternSpeeds> =
        results.speeds.iter().filter(|m| kinds.contains(&m.pattern.kind)).cloned().collect();
    let mut second = Results { alone: results.alone.clone(), ..Results::default() };
    let policy = RepeatPolicy { samples: 3, repeats: 0, ..BANDWIDTH };
    let times = first.iter().flat_map(|m| m.pattern.pairs.iter().map(|pair| (*pair, m.times))).collect();
    let mut run = Run { context, bench, policy, in_turn: false, results: &mut second, times };
    for PatternSpeeds { pattern, .. } in first {
        let access = RoundAccess::of(context, &pattern.access())?;
        if access.without_access.is_empty() {
            run.in_turn = bench.serializes_transfers(context, paths, &pattern.pairs)?;
            run.pattern(&pattern)?;
        }
    }
    results.findings.extend(second.findings);
    for again in second.speeds {
        if let Some(first) = results.speeds.iter_mut().find(|m| m.pattern == again.pattern) {
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
                Some((pair, why)) => self.results.left_out.push((pattern, format!("{pair}: {why}"))),
            }
        }
        Ok(())
    }

    /// Each pair by itself, unless `p2p-bandwidth` has just measured that.
    fn alone(&mut self, rounds: &[Vec<Pair>]) -> Result<(), Box<Finding>> {
        if let Some(known) = known(self.context, rounds) {
            let bytes = self.flow(Pair::of(0, 1), 1).bytes;
            self.times = known.iter().map(|(pair, gb_s)| (*pair, copies_at(bytes, *gb_s))).collect();
            self.results.alone = known;
            return Ok(());
        }
        let few = self.bench.gpus() * self.bench.gpus().saturating_sub(1) <= ALONE;
        for round in rounds {
            let access = RoundAccess::of(self.context, round)?;
            let directions = [access.pairs.clone(), access.pairs.iter().map(|p| p.back()).collect()];
            for pairs in directions {
                let together = if few { 1 } else { pairs.len().max(1) };
                pairs.chunks(together).try_for_each(|pairs| self.measured_alone(pairs))?;
            }
        }
        Ok(())
    }

    fn measured_alone(&mut self, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        let warm: Vec<_> = pairs.iter().map(|pair| vec![self.flow(*pair, 1)]).collect();
        for (pair, timed) in pairs.iter().zip(self.bench.once(self.context, &warm, &mut || true)?) {
            self.times.insert(*pair, timed.each.first().map_or(1, |ms| copies(*ms)));
        }
        let jobs: Vec<_> =
            pairs.iter().map(|pair| Job::new(vec![self.flow(*pair, self.times(*pair))], JobFigure::First)).collect();
        for (pair, taken) in pairs.iter().zip(self.bench.sampled(self.context, &self.policy, &jobs)?) {
            match taken {
                JobResult::Wrong(flow, checked) => self.results.findings.push(wrong_data(&flow, &checked)),
                JobResult::Figures(figures) => {
                    self.results.alone.extend(figures.first().map(|figure| (*pair, figure.median)));
                }
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &Pattern) -> Result<(), Box<Finding>> {
        // The same number of copies each: transfers that share fairly then end together.
        let times = pattern.pairs.iter().map(|pair| self.times(*pair)).min().unwrap_or(1);
        let flows = pattern.pairs.iter().map(|pair| self.flow(*pair, times)).collect();
        let jobs = [Job::new(flows, JobFigure::Each)];
        for taken in self.bench.sampled(self.context, &self.policy, &jobs)? {
            match taken {
                JobResult::Wrong(flow, checked) => self.results.findings.push(wrong_data(&flow, &checked)),
                JobResult::Figures(figures) => {
                    let mut figures = figures.into_iter().map(|figure| figure.median);
                    let Some(total) = figures.next() else { continue };
                    let each = figures.collect();
                    let speeds = PatternSpeeds { pattern: pattern.clone(), total, each, times, again: None };
                    self.results.speeds.push(speeds);
                }
            }
        }
        Ok(())
    }

    fn times(&self, pair: Pair) -> u32 {
        self.times.get(&pair).copied().unwrap_or(1)
    }

    fn flow(&self, pair: Pair, times: u32) -> Flow {
        let flow = Flow { in_turn: self.in_turn, ..Flow::write(pair, CopyMethod::Ce, 0, times) };
        self.bench.for_peer(flow)
    }
}

/// The pairs' speeds from `p2p-bandwidth`, if it measured every one.
fn known(context: &TestContext, rounds: &[Vec<Pair>]) -> Option<BTreeMap<Pair, f64>> {
    let Matrix { values, .. } = context.matrix(MEASURED.0, MEASURED.1)?;
    let speed = |pair: Pair| Some((pair, (*values.get(pair.from.index())?.get(pair.to.index())?)?));
    rounds.iter().flatten().flat_map(|pair| [*pair, pair.back()]).map(speed).collect()
}
