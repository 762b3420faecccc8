//! Copies between GPUs and page-locked host memory by the copy engines, several at the same time. A copy to
//! the host sends a fresh pattern that the GPU has just written; the GPU checks what it reads back, so that a
//! round trip proves both directions.

use super::bench::{Bench, Kit, Lane};
use super::run::{PARKED, idle};
use crate::gpu::{Checked, GpuError, Span, Tally};
use crate::machine::GpuId;
use std::fmt;
use std::time::Duration;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum Towards {
    /// To the host, which then holds this pattern.
    Host(u64),
    /// To the GPU; the host holds this pattern.
    Gpu(u64),
}

/// One transfer, `times` copies one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct HostFlow<'h> {
    pub(in crate::suite) gpu: GpuId,
    pub(in crate::suite) towards: Towards,
    /// The part of the host's memory.
    pub(in crate::suite) host: Span<'h>,
    pub(in crate::suite) times: u32,
}

/// The time of one transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::suite) struct HostTimed {
    pub(in crate::suite) ms: f64,
    /// The wrong data of a transfer to the GPU, if any.
    pub(in crate::suite) wrong: Option<Checked>,
}

/// `GPU 0: copy engine writes 2 x 536870912 bytes to the host`
impl fmt::Display for HostFlow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (acts, end) = match self.towards {
            Towards::Host(_) => ("writes", "to the host"),
            Towards::Gpu(_) => ("reads", "from the host"),
        };
        write!(f, "GPU {}: copy engine {acts} {} x {} bytes {end}", self.gpu, self.times, self.host.bytes)
    }
}

impl HostFlow<'_> {
    /// Bytes of all copies.
    pub(in crate::suite) fn total(&self) -> u64 {
        self.host.bytes.saturating_mul(u64::from(self.times))
    }
}

/// A transfer with everything that it needs.
struct Running<'a> {
    flow: HostFlow<'a>,
    kit: &'a Kit,
    lane: &'a Lane,
    tally: &'a Tally,
}

impl Bench<'_> {
    /// Runs `flows` at the same time, each timed by its own clock; no GPU may have two in one direction.
    /// `look` is called while they run, until it returns true.
    pub(in crate::suite) fn with_host(
        &self,
        flows: &[HostFlow<'_>],
        look: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<HostTimed>, GpuError> {
        let all = flows.iter().map(|flow| self.prepared(*flow)).collect::<Result<Vec<_>, _>>()?;
        self.latch.close();
        for running in &all {
            running.prepare(self.fresh())?;
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
                running.kit.keeper.wait_event(&other.lane.stop)?;
            }
            running.check()?;
        }
        self.latch.open();
        while !look() && !idle(all.iter().map(|r| r.lane))? {}
        let within = super::flow::patience_for(flows.iter().map(HostFlow::total).sum());
        all.iter().map(|running| running.finish(within)).collect()
    }

    fn prepared<'a>(&'a self, flow: HostFlow<'a>) -> Result<Running<'a>, GpuError> {
        let kit = self.kit(flow.gpu)?;
        let n = usize::from(matches!(flow.towards, Towards::Gpu(_)));
        let none = || GpuError::Nonsense(format!("{flow}: no lane"));
        let (lane, tally) = kit.lanes.get(n).zip(kit.tallies.get(n)).ok_or_else(none)?;
        Ok(Running { flow, kit, lane, tally })
    }
}

impl Running<'_> {
    fn source(&self) -> Result<Span<'_>, GpuError> {
        self.kit.source.span(0, self.flow.host.bytes)
    }

    fn target(&self) -> Result<Span<'_>, GpuError> {
        self.kit.target.span(0, self.flow.host.bytes)
    }

    fn prepare(&self, before: u64) -> Result<(), GpuError> {
        let Self { kit, lane, .. } = self;
        match self.flow.towards {
            Towards::Host(pattern) => kit.keeper.fill(self.source()?, pattern, 0)?,
            Towards::Gpu(_) => kit.keeper.fill(self.target()?, before, 0)?,
        }
        kit.keeper.record(&kit.ready)?;
        lane.stream.wait_event(&kit.ready)
    }

    fn queue(&self) -> Result<(), GpuError> {
        let Self { flow, lane, .. } = self;
        let (source, target) = (self.source()?, self.target()?);
        lane.stream.record(&lane.start)?;
        for _ in 0..flow.times {
            match flow.towards {
                Towards::Host(_) => lane.stream.copy_out(flow.host, source)?,
                Towards::Gpu(_) => lane.stream.copy_in(target, flow.host)?,
            }
        }
        lane.stream.record(&lane.stop)
    }

    fn check(&self) -> Result<(), GpuError> {
        match self.flow.towards {
            Towards::Host(_) => Ok(()),
            Towards::Gpu(pattern) => self.kit.keeper.check(self.target()?, 0, pattern, !pattern, self.tally),
        }
    }

    fn finish(&self, within: Duration) -> Result<HostTimed, GpuError> {
        let doing = self.flow.to_string();
        self.lane.finish(&doing, within)?;
        self.kit.keeper.finish(&format!("{doing}: checking"), within)?;
        let ms = self.lane.stop.ms_since(&self.lane.start)?;
        let wrong = match self.flow.towards {
            Towards::Host(_) => None,
            Towards::Gpu(_) => Some(self.tally.checked())
                .filter(|checked| checked.wrong > 0 || checked.looked != self.flow.host.words()),
        };
        Ok(HostTimed { ms, wrong })
    }
}
