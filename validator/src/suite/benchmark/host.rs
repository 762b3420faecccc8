//! Copies between GPUs and page-locked host memory by the copy engines, several at the same time. A copy to
//! the host sends a fresh pattern that the GPU has just written; the GPU checks what it reads back, so that a
//! round trip proves both directions.

use super::bench::{Bench, BenchGpu, Lane};
use super::run::{PARKED, idle};
use gpu::{CheckCounts, GpuError, Span, Tally};
use machine::GpuId;
use std::fmt;
use std::time::Duration;

/// The direction of a transfer, with the seed of its pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum HostDirection {
    /// From the GPU to the host, which then holds this pattern.
    ToHost(u64),
    /// From the host, which holds this pattern, to the GPU.
    ToGpu(u64),
}

/// One transfer between a GPU and the host: `times` copies, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct HostFlow<'h> {
    pub(in crate::suite) gpu: GpuId,
    pub(in crate::suite) direction: HostDirection,
    /// The part of the host's memory.
    pub(in crate::suite) host: Span<'h>,
    pub(in crate::suite) times: u32,
}

/// The time of one transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::suite) struct HostTiming {
    pub(in crate::suite) ms: f64,
    /// The wrong data of a transfer to the GPU, if any.
    pub(in crate::suite) wrong: Option<CheckCounts>,
}

/// `GPU 0: copy engine writes 2 x 536870912 bytes to the host`
impl fmt::Display for HostFlow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (acts, end) = match self.direction {
            HostDirection::ToHost(_) => ("writes", "to the host"),
            HostDirection::ToGpu(_) => ("reads", "from the host"),
        };
        write!(
            f,
            "GPU {}: copy engine {acts} {} x {} bytes {end}",
            self.gpu, self.times, self.host.bytes
        )
    }
}

impl HostFlow<'_> {
    /// Bytes of all copies.
    pub(in crate::suite) fn total(&self) -> u64 {
        self.host.bytes.saturating_mul(u64::from(self.times))
    }
}

/// A transfer with the resources that it uses.
struct Running<'a> {
    flow: HostFlow<'a>,
    bench_gpu: &'a BenchGpu,
    lane: &'a Lane,
    tally: &'a Tally,
}

impl Bench<'_> {
    /// Runs `flows` at the same time, each timed by its own clock; no GPU may have two in one direction.
    /// `poll` is called while they run, until it returns true.
    pub(in crate::suite) fn with_host(
        &self,
        flows: &[HostFlow<'_>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<HostTiming>, GpuError> {
        let all = flows
            .iter()
            .map(|flow| self.prepared(*flow))
            .collect::<Result<Vec<_>, _>>()?;
        self.latch.close();
        for running in &all {
            running.prepare(self.fresh_seed())?;
        }
        for (n, running) in all.iter().enumerate() {
            match all.first() {
                Some(first) if n > 0 => running.lane.stream.wait_event(&first.lane.start)?,
                _ => running.lane.stream.park(&self.latch, PARKED)?,
            }
            running.queue()?;
        }
        // Only after all have stopped, because checking is traffic too.
        for running in &all {
            for other in &all {
                running.bench_gpu.own_stream.wait_event(&other.lane.stop)?;
            }
            running.check()?;
        }
        self.latch.open();
        while !poll() && !idle(all.iter().map(|r| r.lane))? {}
        let within = super::flow::patience_for(flows.iter().map(HostFlow::total).sum());
        all.iter().map(|running| running.finish(within)).collect()
    }

    fn prepared<'a>(&'a self, flow: HostFlow<'a>) -> Result<Running<'a>, GpuError> {
        let bench_gpu = self.bench_gpu(flow.gpu)?;
        let n = usize::from(matches!(flow.direction, HostDirection::ToGpu(_)));
        let none = || GpuError::Nonsense(format!("{flow}: no lane"));
        let (lane, tally) = bench_gpu
            .lanes
            .get(n)
            .zip(bench_gpu.tallies.get(n))
            .ok_or_else(none)?;
        Ok(Running {
            flow,
            bench_gpu,
            lane,
            tally,
        })
    }
}

impl Running<'_> {
    fn source(&self) -> Result<Span<'_>, GpuError> {
        self.bench_gpu.source.span(0, self.flow.host.bytes)
    }

    fn target(&self) -> Result<Span<'_>, GpuError> {
        self.bench_gpu.target.span(0, self.flow.host.bytes)
    }

    fn prepare(&self, before: u64) -> Result<(), GpuError> {
        let Self {
            bench_gpu, lane, ..
        } = self;
        match self.flow.direction {
            HostDirection::ToHost(pattern) => {
                bench_gpu.own_stream.fill(self.source()?, pattern, 0)?;
            }
            HostDirection::ToGpu(_) => bench_gpu.own_stream.fill(self.target()?, before, 0)?,
        }
        bench_gpu.own_stream.record(&bench_gpu.ready)?;
        lane.stream.wait_event(&bench_gpu.ready)
    }

    fn queue(&self) -> Result<(), GpuError> {
        let Self { flow, lane, .. } = self;
        let (source, target) = (self.source()?, self.target()?);
        lane.stream.record(&lane.start)?;
        for _ in 0..flow.times {
            match flow.direction {
                HostDirection::ToHost(_) => lane.stream.copy_out(flow.host, source)?,
                HostDirection::ToGpu(_) => lane.stream.copy_in(target, flow.host)?,
            }
        }
        lane.stream.record(&lane.stop)
    }

    fn check(&self) -> Result<(), GpuError> {
        match self.flow.direction {
            HostDirection::ToHost(_) => Ok(()),
            HostDirection::ToGpu(pattern) => {
                self.bench_gpu
                    .own_stream
                    .check(self.target()?, 0, pattern, !pattern, self.tally)
            }
        }
    }

    fn finish(&self, within: Duration) -> Result<HostTiming, GpuError> {
        let doing = self.flow.to_string();
        self.lane.finish(&doing, within)?;
        self.bench_gpu
            .own_stream
            .finish(&format!("{doing}: checking"), within)?;
        let ms = self.lane.stop.ms_since(&self.lane.start)?;
        let wrong = match self.flow.direction {
            HostDirection::ToHost(_) => None,
            HostDirection::ToGpu(_) => Some(self.tally.checked())
                .filter(|checked| checked.wrong > 0 || checked.looked != self.flow.host.words()),
        };
        Ok(HostTiming { ms, wrong })
    }
}
