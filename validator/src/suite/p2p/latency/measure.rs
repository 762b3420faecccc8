//! Takes the samples: with peer access off pair by pair, then with it on, round by round.

use super::Results;
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{
    Bench, ChaseResult, CopyMethod, Flow, GpuPaths, Grid, Job, JobFigure, JobResult, LOADS,
    RoundAccess, wrong_data,
};
use crate::suite::shared::gpu_fault::fault_finding;
use gpu::GpuError;
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use report::Level;
use report::stats::{LATENCY, ns_per_load};

/// Copies of one sample, and bytes of each: p2pBandwidthLatencyTest's numbers.
const COPIES: u32 = 100;
const BYTES: u64 = 16;

/// With more pairs than this, no latency is measured again: the machine is slow in that case, and not only for a
/// moment.
const MOST_AGAIN: usize = 32;

/// The GPU's and the host's figure.
type Metrics = (Metric, Metric);
const OFF: Metrics = (Metric::LATENCY_OFF_GPU, Metric::LATENCY_OFF_HOST);
const ON: Metrics = (Metric::LATENCY_ON_GPU, Metric::LATENCY_ON_HOST);

/// Measures everything that the level requires.
pub(super) fn all(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let mut run = Run {
        context,
        bench,
        results,
        again: false,
    };
    let within: Vec<_> = GpuId::all(bench.gpus())
        .map(|gpu| Pair::new(gpu, gpu))
        .collect();
    run.copies(OFF, &within)?;
    for pair in Pair::all(bench.gpus()) {
        if pair.from != pair.to {
            run.copies(OFF, &[pair])?;
        }
    }
    for round in paths.rounds() {
        let access = RoundAccess::of(context, &round)?;
        let back: Vec<_> = access.pairs.iter().map(|pair| pair.back()).collect();
        for pairs in [&access.pairs, &back] {
            run.copies(ON, pairs)?;
            if context.config.validate.level >= Level::Standard {
                run.chase(pairs)?;
            }
        }
    }
    run.copies(ON, &within)
}

/// Measures the latencies of these ordered pairs once more, one pair at a time.
pub(super) fn again(
    context: &TestContext,
    bench: &Bench<'_>,
    pairs: &[Pair],
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let mut run = Run {
        context,
        bench,
        results,
        again: true,
    };
    for pair in pairs.iter().take(MOST_AGAIN) {
        let access = RoundAccess::of(context, &[*pair])?;
        if !access.pairs.is_empty() {
            run.copies(ON, &[*pair])?;
            if context.config.validate.level >= Level::Standard {
                run.chase(&[*pair])?;
            }
        }
    }
    Ok(())
}

struct Run<'a, 'b> {
    context: &'a TestContext,
    bench: &'a Bench<'b>,
    results: &'a mut Results,
    /// Whether this is the second measurement.
    again: bool,
}

impl Run<'_, '_> {
    fn copies(&mut self, (gpu, cpu): Metrics, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        let flow = |pair: &Pair| vec![Flow::write(*pair, CopyMethod::Peer, BYTES, COPIES)];
        // The first copies of a pair set up the driver's paths; p2pBandwidthLatencyTest includes them in its
        // figure.
        let warm: Vec<_> = pairs.iter().map(flow).collect();
        self.bench.once(self.context, &warm, &mut || true)?;
        let jobs: Vec<_> = pairs
            .iter()
            .map(|pair| Job::new(flow(pair), JobFigure::Latency))
            .collect();
        let taken = self.bench.sampled(self.context, &LATENCY, &jobs)?;
        for (pair, taken) in pairs.iter().zip(taken) {
            match taken {
                JobResult::Wrong(flow, checked) => {
                    self.results.findings.push(wrong_data(&flow, &checked));
                }
                JobResult::Figures(figures) => {
                    let put = if self.again {
                        Grid::put_again
                    } else {
                        Grid::put
                    };
                    for (name, figure) in [gpu, cpu].into_iter().zip(figures) {
                        put(&mut self.results.copies, name, *pair, figure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Each `from` reads its `to`'s memory.
    fn chase(&mut self, pairs: &[Pair]) -> Result<(), Box<Finding>> {
        let mut samples: Vec<Vec<f64>> = vec![Vec::new(); pairs.len()];
        // The first run raises the clocks and is not counted.
        for run in 0..=LATENCY.samples {
            for ((pair, samples), chased) in pairs.iter().zip(&mut samples).zip(self.chased(pairs)?)
            {
                if !chased.right {
                    self.results.findings.push(broken_ring(*pair));
                } else if run > 0 {
                    samples
                        .push(ns_per_load(chased.ms, LOADS).map_err(|why| unusable(*pair, &why))?);
                }
            }
        }
        for (pair, samples) in pairs
            .iter()
            .zip(samples)
            .filter(|(_, s)| s.len() == LATENCY.samples)
        {
            let figure = LATENCY.of(&samples).map_err(|why| unusable(*pair, &why))?;
            let put = if self.again {
                Grid::put_again
            } else {
                Grid::put
            };
            put(&mut self.results.loads, Metric::LOAD, *pair, figure);
        }
        Ok(())
    }

    fn chased(&self, pairs: &[Pair]) -> Result<Vec<ChaseResult>, Box<Finding>> {
        let names: Vec<_> = pairs.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        self.context.doing(format!(
            "{names}: following {LOADS} addresses through the peer's memory"
        ));
        let subject = || {
            if let [pair] = pairs {
                pair.into()
            } else {
                Subject::Machine
            }
        };
        self.bench
            .chase(pairs)
            .map_err(|e: GpuError| fault_finding(subject(), &e))
    }
}

fn broken_ring(pair: Pair) -> Finding {
    let message = format!(
        "{pair}: {LOADS} loads from the peer's memory did not end where the ring of addresses began"
    );
    Code::P2pWrongData.finding(Severity::Fail, pair, message)
}

fn unusable(pair: Pair, why: &impl ToString) -> Box<Finding> {
    let message = format!("{pair}: loads from the peer's memory: {}", why.to_string());
    Box::new(Code::CudaError.finding(Severity::Error, pair, message))
}
