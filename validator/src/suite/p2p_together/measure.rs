//! Takes the samples: each pair alone, then the patterns.

use super::pattern::{Pattern, patterns};
use super::{Moved, Seen};
use crate::config::Level;
use crate::finding::Finding;
use crate::measure::{BANDWIDTH, Policy};
use crate::schedule::Pair;
use crate::suite::Machine;
use crate::suite::speed::{Access, Bench, Figure, Flow, How, Job, Taken, Ways, copies, wrong};
use std::collections::BTreeMap;

/// Up to so many ordered pairs are measured really alone (8 GPUs); of more, the pairs of a round are
/// measured at once, which share nothing as far as is known.
const ALONE: usize = 8 * 7;

/// Everything.
pub(super) fn all(
    machine: &Machine,
    bench: &Bench<'_>,
    ways: &Ways,
    seen: &mut Seen,
) -> Result<(), Box<Finding>> {
    let samples = if machine.config.validate.level == Level::Full { 5 } else { 3 };
    let policy = Policy { samples, repeats: 0, ..BANDWIDTH };
    let rounds = ways.rounds();
    let mut run = Run { machine, bench, policy, seen, times: BTreeMap::new() };
    run.alone(&rounds)?;
    let patterns = patterns(bench.gpus(), &rounds);
    let everything = Access::of(machine, &rounds.concat())?;
    if everything.apart.is_empty() {
        return patterns.iter().try_for_each(|pattern| run.pattern(pattern));
    }
    // Too many peers for a GPU, or pairs that have none: each pattern needs only some.
    drop(everything);
    for pattern in patterns {
        let access = Access::of(machine, &pattern.access())?;
        match access.apart.first() {
            None => run.pattern(&pattern)?,
            Some((pair, why)) => run.seen.left_out.push((pattern, format!("{pair}: {why}"))),
        }
    }
    Ok(())
}

struct Run<'a, 'b> {
    machine: &'a Machine,
    bench: &'a Bench<'b>,
    policy: Policy,
    seen: &'a mut Seen,
    /// How many copies each pair makes for a sample.
    times: BTreeMap<Pair, u32>,
}

impl Run<'_, '_> {
    fn alone(&mut self, rounds: &[Vec<Pair>]) -> Result<(), Box<Finding>> {
        let few = self.bench.gpus() * self.bench.gpus().saturating_sub(1) <= ALONE;
        for round in rounds {
            let access = Access::of(self.machine, round)?;
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
        for (pair, timed) in pairs.iter().zip(self.bench.once(self.machine, &warm, &mut || true)?) {
            self.times.insert(*pair, timed.each.first().map_or(1, |ms| copies(*ms)));
        }
        let jobs: Vec<_> = pairs
            .iter()
            .map(|pair| Job::new(vec![self.flow(*pair, self.times(*pair))], Figure::First))
            .collect();
        for (pair, taken) in pairs.iter().zip(self.bench.sampled(self.machine, &self.policy, &jobs)?) {
            match taken {
                Taken::Wrong(flow, checked) => self.seen.findings.push(wrong(&flow, &checked)),
                Taken::Figures(figures) => {
                    self.seen.alone.extend(figures.first().map(|figure| (*pair, figure.median)));
                }
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &Pattern) -> Result<(), Box<Finding>> {
        // As many copies each: transfers shall end together where they share fairly.
        let times = pattern.pairs.iter().map(|pair| self.times(*pair)).min().unwrap_or(1);
        let flows = pattern.pairs.iter().map(|pair| self.flow(*pair, times)).collect();
        let jobs = [Job::new(flows, Figure::Each)];
        for taken in self.bench.sampled(self.machine, &self.policy, &jobs)? {
            match taken {
                Taken::Wrong(flow, checked) => self.seen.findings.push(wrong(&flow, &checked)),
                Taken::Figures(figures) => {
                    let mut figures = figures.into_iter().map(|figure| figure.median);
                    let Some(total) = figures.next() else { continue };
                    let moved = Moved { pattern: pattern.clone(), total, each: figures.collect() };
                    self.seen.moved.push(moved);
                }
            }
        }
        Ok(())
    }

    fn times(&self, pair: Pair) -> u32 {
        self.times.get(&pair).copied().unwrap_or(1)
    }

    fn flow(&self, pair: Pair, times: u32) -> Flow {
        self.bench.for_peer(Flow::write(pair, How::Ce, 0, times))
    }
}
