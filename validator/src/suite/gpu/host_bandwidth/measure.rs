//! Takes the samples: each GPU alone, then all at once. A sample writes a fresh pattern to the host and reads
//! it back, so that reading proves both, and neither needs a check over the link.

use super::Results;
use super::host_memory::HostBlock;
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{
    Bench, CopyMethod, Flow, Grid, HostDirection, HostFlow, HostTiming, Job, JobFigure, JobResult,
    wrong_data,
};
use crate::suite::shared::gpu_fault::fault_finding;
use crate::suite::shared::transfer::unanswered;
use gpu::pattern::Counts;
use gpu::{GpuError, Span};
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::metric::Metric;
use report::Level;
use report::stats::{BANDWIDTH, RepeatPolicy, Unusable, gb_s};

/// The bytes that a sample moves for each GPU when all move at once.
const TOGETHER: u64 = 512 << 20;
/// Copies of one sample: nvbandwidth makes 16 of 512 MiB, one of which takes 10 ms at 55 GB/s.
const MOST: u32 = 16;
/// Copies within a GPU are forty times as fast.
const LOCAL: u32 = 8;

/// Measures each GPU alone, then all at once.
pub(super) fn all(
    context: &TestContext,
    bench: &Bench<'_>,
    blocks: &[HostBlock],
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let mut run = Run::new(context, bench, results);
    for block in blocks {
        for gpu in &block.gpus {
            run.alone(block, *gpu)?;
            run.both(block, *gpu)?;
        }
    }
    run.together(blocks)?;
    run.local()
}

/// Measures these GPUs alone once more, after all others.
pub(super) fn again(
    context: &TestContext,
    bench: &Bench<'_>,
    blocks: &[HostBlock],
    gpus: &[GpuId],
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let mut run = Run {
        again: true,
        ..Run::new(context, bench, results)
    };
    for block in blocks {
        block
            .gpus
            .iter()
            .filter(|gpu| gpus.contains(gpu))
            .try_for_each(|gpu| run.alone(block, *gpu))?;
    }
    Ok(())
}

struct Run<'a, 'b> {
    context: &'a TestContext,
    bench: &'a Bench<'b>,
    results: &'a mut Results,
    policy: RepeatPolicy,
    /// Whether this is the second measurement.
    again: bool,
}

impl<'a, 'b> Run<'a, 'b> {
    fn new(context: &'a TestContext, bench: &'a Bench<'b>, results: &'a mut Results) -> Self {
        let policy = match context.config.validate.level {
            Level::Full | Level::Acceptance => RepeatPolicy {
                samples: BANDWIDTH.samples + 2,
                repeats: 4,
                ..BANDWIDTH
            },
            Level::Quick | Level::Standard => BANDWIDTH,
        };
        Self {
            context,
            bench,
            results,
            policy,
            again: false,
        }
    }
}

impl Run<'_, '_> {
    /// To the host and back, one after the other.
    fn alone(&mut self, block: &HostBlock, gpu: GpuId) -> Result<(), Box<Finding>> {
        let host = self.part(block, 0, self.parts(block))?;
        if !self.again {
            self.wake(gpu, host)?;
        }
        let (mut from, mut to) = (Vec::new(), Vec::new());
        while self.wants_more(&from)? || self.wants_more(&to)? {
            let pattern = self.bench.fresh_seed();
            let [out, back] = [
                HostDirection::ToHost(pattern),
                HostDirection::ToGpu(pattern),
            ]
            .map(|t| flow(gpu, t, host, 1));
            from.extend(self.figures(&[out])?);
            let figures = self.figures(&[back])?;
            if figures.is_empty() {
                return Ok(());
            }
            to.extend(figures);
        }
        self.put(Metric::HOST_FROM, gpu, &from)?;
        self.put(Metric::HOST_TO, gpu, &to)
    }

    /// One direction while the other is busy for twice as long, as nvbandwidth does. What one run writes to
    /// the host, the next one reads back.
    fn both(&mut self, block: &HostBlock, gpu: GpuId) -> Result<(), Box<Finding>> {
        let parts = self.parts(block) * 2;
        let (mut full, mut empty) = (self.part(block, 0, parts)?, self.part(block, 1, parts)?);
        let mut held = self.bench.fresh_seed();
        self.figures(&[flow(gpu, HostDirection::ToHost(held), full, 1)])?;
        for name in [Metric::HOST_BI_TO, Metric::HOST_BI_FROM] {
            let mut samples = Vec::new();
            while self.wants_more(&samples)? {
                let next = self.bench.fresh_seed();
                let busy = |t: Metric| if name == t { 2 } else { 4 };
                let to = flow(
                    gpu,
                    HostDirection::ToGpu(held),
                    full,
                    busy(Metric::HOST_BI_TO),
                );
                let from = flow(
                    gpu,
                    HostDirection::ToHost(next),
                    empty,
                    busy(Metric::HOST_BI_FROM),
                );
                let flows = if name == Metric::HOST_BI_TO {
                    [to, from]
                } else {
                    [from, to]
                };
                let Some(first) = self.figures(&flows)?.first().copied() else {
                    return Ok(());
                };
                samples.push(first);
                std::mem::swap(&mut full, &mut empty);
                held = next;
            }
            self.put(name, gpu, &samples)?;
        }
        self.figures(&[flow(gpu, HostDirection::ToGpu(held), full, 1)])
            .map(drop)
    }

    /// All GPUs to the host at once, then all back.
    fn together(&mut self, blocks: &[HostBlock]) -> Result<(), Box<Finding>> {
        let mut spans = Vec::new();
        for block in blocks {
            for (n, gpu) in block.gpus.iter().enumerate() {
                let least = block.gpus.len().max(self.parts(block));
                spans.push((*gpu, self.part(block, n, least)?));
            }
        }
        let mut samples = vec![(Vec::new(), Vec::new()); spans.len()];
        for _ in 0..self.policy.samples {
            let patterns: Vec<_> = spans.iter().map(|_| self.bench.fresh_seed()).collect();
            let flows = |direction: fn(u64) -> HostDirection| -> Vec<_> {
                let all = spans.iter().zip(&patterns);
                all.map(|((gpu, host), p)| flow(*gpu, direction(*p), *host, repeats(host.bytes)))
                    .collect()
            };
            let from = self.figures(&flows(HostDirection::ToHost))?;
            let to = self.figures(&flows(HostDirection::ToGpu))?;
            if to.is_empty() {
                return Ok(());
            }
            for ((samples, from), to) in samples.iter_mut().zip(from).zip(to) {
                samples.0.push(from);
                samples.1.push(to);
            }
        }
        for ((gpu, _), (from, to)) in spans.iter().zip(&samples) {
            self.put(Metric::HOST_ALL_FROM, *gpu, from)?;
            self.put(Metric::HOST_ALL_TO, *gpu, to)?;
        }
        Ok(())
    }

    /// Copies within each GPU, all GPUs at once: they share no link.
    fn local(&mut self) -> Result<(), Box<Finding>> {
        let job = |gpu: GpuId| {
            let flow = Flow::write(Pair::new(gpu, gpu), CopyMethod::Ce, self.bench.bytes, LOCAL);
            Job::new(vec![flow], JobFigure::First)
        };
        let jobs: Vec<_> = GpuId::all(self.bench.gpus()).map(job).collect();
        for (gpu, taken) in GpuId::each(self.bench.sampled(self.context, &self.policy, &jobs)?) {
            match taken {
                JobResult::Wrong(flow, checked) => {
                    self.results.findings.push(wrong_data(&flow, &checked));
                }
                JobResult::Figures(figures) => {
                    for figure in figures {
                        self.results
                            .grid
                            .put(Metric::LOCAL, Pair::new(gpu, gpu), figure);
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies that wake up the link, which is read meanwhile.
    fn wake(&mut self, gpu: GpuId, host: Span<'_>) -> Result<(), Box<Finding>> {
        let context = self.context;
        let fabric = context.fabric()?;
        let Some(bdf) = context.clique()?.gpu(gpu).map(|g| g.bdf) else {
            return Ok(());
        };
        let above = machine::pcie::tree::Tree::of(fabric).above(bdf);
        let devices: Vec<_> = std::iter::once(bdf)
            .chain(above.iter().map(|d| d.bdf))
            .collect();
        let links = &mut self.results.links;
        let flow = flow(gpu, HostDirection::ToHost(self.bench.fresh_seed()), host, 2);
        context.doing(flow.to_string());
        let timed = self
            .bench
            .with_host(&[flow], &mut || links.read(context, &devices));
        timed.map(drop).map_err(|e| fault_finding(gpu, &e))
    }

    /// Runs `flows` at the same time: GB/s of each; empty if data came back wrong, which is a finding.
    fn figures(&mut self, flows: &[HostFlow<'_>]) -> Result<Vec<f64>, Box<Finding>> {
        let names: Vec<_> = flows.iter().take(4).map(ToString::to_string).collect();
        self.context.doing(names.join(", "));
        let timed = self.bench.with_host(flows, &mut || true);
        let timed = timed.map_err(|e: GpuError| fault_finding(subject(flows), &e))?;
        let bad = flows
            .iter()
            .zip(&timed)
            .find_map(|(flow, t)| Some(wrong_round_trip(flow, t.wrong.as_ref()?)));
        if let Some(finding) = bad {
            self.results.findings.push(finding);
            return Ok(Vec::new());
        }
        let figure = |(flow, t): (&HostFlow<'_>, &HostTiming)| gb_s(flow.total(), t.ms);
        let figures = flows
            .iter()
            .zip(&timed)
            .map(figure)
            .collect::<Result<_, _>>();
        figures.map_err(|why| unusable(subject(flows), why))
    }

    /// The smallest number of parts of a block of which one fits into a GPU's buffer.
    fn parts(&self, block: &HostBlock) -> usize {
        (1..64)
            .find(|n| {
                block
                    .part(0, *n)
                    .is_ok_and(|part| part.bytes <= self.bench.bytes)
            })
            .unwrap_or(64)
    }

    fn part<'h>(
        &self,
        block: &'h HostBlock,
        n: usize,
        parts: usize,
    ) -> Result<Span<'h>, Box<Finding>> {
        block
            .part(n, parts)
            .map_err(|e| fault_finding(Subject::Machine, &e))
    }

    fn wants_more(&self, samples: &[f64]) -> Result<bool, Box<Finding>> {
        self.policy
            .wants_more(samples)
            .map_err(|why| unusable(Subject::Machine, why))
    }

    fn put(&mut self, name: Metric, gpu: GpuId, samples: &[f64]) -> Result<(), Box<Finding>> {
        let figure = self.policy.of(samples).map_err(|why| unusable(gpu, why))?;
        let put = if self.again {
            Grid::put_again
        } else {
            Grid::put
        };
        put(&mut self.results.grid, name, Pair::new(gpu, gpu), figure);
        Ok(())
    }
}

const fn flow(gpu: GpuId, direction: HostDirection, host: Span<'_>, times: u32) -> HostFlow<'_> {
    HostFlow {
        gpu,
        direction,
        host,
        times,
    }
}

/// The number of copies of `bytes` that make a sample when all GPUs copy at once.
fn repeats(bytes: u64) -> u32 {
    u32::try_from(TOGETHER.checked_div(bytes).unwrap_or_default())
        .unwrap_or(MOST)
        .clamp(1, MOST)
}

fn subject(flows: &[HostFlow<'_>]) -> Subject {
    match flows {
        [one] => one.gpu.into(),
        [one, other] if one.gpu == other.gpu => one.gpu.into(),
        _ => Subject::Machine,
    }
}

fn wrong_round_trip(flow: &HostFlow<'_>, checked: &gpu::CheckCounts) -> Finding {
    let words = flow.host.words();
    let message = format!(
        "{flow}: {} of {words} words that went to the host and back are wrong, {} were checked",
        checked.wrong, checked.looked
    );
    let finding = Code::HostWrongData.finding(Severity::Fail, flow.gpu, message);
    let finding = finding.values(checked.wrong, 0, Some("words"));
    if Counts::from(*checked).are_ones() {
        unanswered(finding)
    } else {
        finding
    }
}

fn unusable(subject: impl Into<Subject>, why: Unusable) -> Box<Finding> {
    let subject = subject.into();
    let message = format!("{subject}: copies to and from the host: {why}");
    Box::new(Code::CudaError.finding(Severity::Error, subject, message))
}
