//! What timed transfers need, allocated once for a whole test: buffers, streams and events of every GPU, and the
//! latch that starts all transfers at once.

use super::flow::{CopyMethod, Flow};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::shared::gpu_fault::fault_finding;
use gpu::pattern::Nonces;
use gpu::{Buffer, Clique, Event, Gpu, GpuError, Latch, Span, Stream, Tally};
use machine::GpuId;
use outcome::finding::{Finding, Subject};
use std::cell::RefCell;
use std::time::Duration;

/// The size of each GPU's two buffers, the same as nvbandwidth's, bytes.
pub(in crate::suite) const FULL: u64 = 512 << 20;
/// The smallest size that still gives meaningful figures, bytes.
const LEAST: u64 = 32 << 20;

/// Parts of buffers are multiples of this, bytes.
const GRAIN: u64 = 1 << 16;

/// All GPUs, with everything that timed transfers between them need.
#[derive(Debug)]
pub(in crate::suite) struct Bench<'a> {
    pub(super) clique: &'a Clique,
    pub(super) bench_gpus: Vec<BenchGpu>,
    pub(super) latch: Latch,
    nonces: RefCell<Nonces>,
    /// Bytes of every buffer.
    pub(in crate::suite) bytes: u64,
}

/// One GPU's buffers, streams and tallies.
#[derive(Debug)]
pub(super) struct BenchGpu {
    pub(super) source: Buffer,
    pub(super) target: Buffer,
    /// The stream that fills and checks this GPU's own memory.
    pub(super) own_stream: Stream,
    /// Signals that its memory is filled.
    pub(super) ready: Event,
    /// For transfers that this GPU runs at the same time.
    pub(super) lanes: Vec<Lane>,
    /// For transfers that it receives at the same time.
    pub(super) tallies: Vec<Tally>,
}

/// The stream and the events of one transfer.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: Stream,
    pub(super) start: Event,
    pub(super) stop: Event,
    /// Signals that this transfer and those that run with it have stopped.
    pub(super) end: Event,
}

impl<'a> Bench<'a> {
    /// Made for at most `lanes` transfers from and to each GPU at the same time, with buffers of `bytes` at
    /// most. Every kernel is run once, because loading one while another waits at the latch would spoil the
    /// sample; and the GPUs' clocks are compared with the host's.
    pub(in crate::suite) fn new(
        context: &TestContext,
        lanes: usize,
        bytes: u64,
    ) -> Result<Bench<'_>, Box<Finding>> {
        context.doing("allocating memory on every GPU");
        let bench = Bench::allocate(context.clique()?, lanes, bytes)
            .map_err(|e| fault_finding(Subject::Machine, &e))?;
        bench.check_clocks(context)?;
        Ok(bench)
    }

    fn allocate(clique: &'a Clique, lanes: usize, bytes: u64) -> Result<Self, GpuError> {
        let first = clique
            .gpus
            .first()
            .ok_or_else(|| GpuError::Nonsense("CUDA sees no GPU".to_owned()))?;
        let free = clique
            .gpus
            .iter()
            .map(|g| Ok(g.memory()?.0))
            .collect::<Result<Vec<_>, GpuError>>()?;
        let bytes = buffer_bytes(bytes, free.into_iter().min().unwrap_or_default());
        let bench_gpus = clique
            .gpus
            .iter()
            .map(|gpu| BenchGpu::new(gpu, bytes, lanes))
            .collect::<Result<_, _>>()?;
        let bench = Self {
            clique,
            bench_gpus,
            latch: Latch::new(first)?,
            nonces: RefCell::default(),
            bytes,
        };
        bench.load_kernels()?;
        Ok(bench)
    }

    fn load_kernels(&self) -> Result<(), GpuError> {
        let alone = |gpu: &Gpu| {
            let pair = Pair::new(gpu.id(), gpu.id());
            [CopyMethod::Peer, CopyMethod::Ce, CopyMethod::Sm]
                .map(|method| Flow::write(pair, method, 1 << 20, 1))
        };
        for n in 0..3 {
            let groups: Vec<_> = self
                .clique
                .gpus
                .iter()
                .filter_map(|g| Some(vec![*alone(g).get(n)?]))
                .collect();
            self.run(&groups)?;
        }
        Ok(())
    }

    /// The same transfer, with a size and an address that let each GPU have one from and to each of its peers
    /// at the same time.
    pub(in crate::suite) fn for_peer(&self, flow: Flow) -> Flow {
        let peers = self.gpus().saturating_sub(1).max(1) as u64;
        let bytes = (self.bytes / peers / GRAIN * GRAIN).max(GRAIN);
        let Pair { from, to } = flow.pair;
        Flow { bytes, ..flow }.at(peer_offset(from, to, bytes), peer_offset(to, from, bytes))
    }

    /// An unused seed.
    pub(in crate::suite) fn fresh_seed(&self) -> u64 {
        self.nonces.borrow_mut().next()
    }

    /// How many GPUs there are.
    pub(in crate::suite) const fn gpus(&self) -> usize {
        self.clique.len()
    }

    pub(super) fn gpu(&self, gpu: GpuId) -> Result<&Gpu, GpuError> {
        self.clique
            .gpu(gpu)
            .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
    }

    pub(super) fn bench_gpu(&self, gpu: GpuId) -> Result<&BenchGpu, GpuError> {
        self.bench_gpus
            .get(gpu.index())
            .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
    }

    /// Where a transfer reads its data.
    pub(super) fn source(&self, flow: &Flow) -> Result<Span<'_>, GpuError> {
        self.bench_gpu(flow.pair.from)?
            .source
            .span(flow.from, flow.bytes)
    }

    /// Where a transfer writes its data.
    pub(super) fn target(&self, flow: &Flow) -> Result<Span<'_>, GpuError> {
        self.bench_gpu(flow.pair.to)?
            .target
            .span(flow.to, flow.bytes)
    }

    /// A size that the kernels of `gpu` copy in whole rounds.
    pub(in crate::suite) fn whole_rounds(&self, gpu: GpuId, bytes: u64) -> u64 {
        self.clique
            .gpu(gpu)
            .map_or(bytes, |g| super::flow::whole_rounds(bytes, g.sms))
    }
}

impl BenchGpu {
    fn new(gpu: &Gpu, bytes: u64, lanes: usize) -> Result<Self, GpuError> {
        Ok(Self {
            source: gpu.alloc(bytes)?,
            target: gpu.alloc(bytes)?,
            own_stream: gpu.stream()?,
            ready: gpu.event()?,
            lanes: (0..lanes)
                .map(|_| Lane::new(gpu))
                .collect::<Result<_, _>>()?,
            tallies: (0..lanes)
                .map(|_| Tally::new(gpu))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Lane {
    fn new(gpu: &Gpu) -> Result<Self, GpuError> {
        Ok(Self {
            stream: gpu.stream()?,
            start: gpu.event()?,
            stop: gpu.event()?,
            end: gpu.event()?,
        })
    }

    pub(super) fn is_idle(&self) -> Result<bool, GpuError> {
        self.stream.done()
    }

    pub(super) fn finish(&self, doing: &str, within: Duration) -> Result<(), GpuError> {
        self.stream.finish(doing, within)
    }
}

/// Where the part for `peer` begins in the buffers of `gpu`.
const fn peer_offset(gpu: GpuId, peer: GpuId, bytes: u64) -> u64 {
    let n = if peer.index() > gpu.index() {
        peer.index() - 1
    } else {
        peer.index()
    };
    n as u64 * bytes
}

/// The buffers' size for this much free memory: two of them take less than half of it.
fn buffer_bytes(most: u64, free: u64) -> u64 {
    let halves =
        std::iter::successors(Some(most), |bytes| Some(bytes / 2)).take_while(|b| *b > LEAST);
    halves
        .into_iter()
        .find(|bytes| bytes * 4 <= free)
        .unwrap_or(LEAST.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_its_own_part() {
        assert_eq!(
            [0, 1, 3].map(|peer: usize| peer_offset(2.into(), peer.into(), 10)),
            [0, 10, 20]
        );
        assert_eq!(
            [1, 2, 3].map(|peer: usize| peer_offset(0.into(), peer.into(), 10)),
            [0, 10, 20]
        );
    }

    #[test]
    fn buffers_are_smaller_where_little_memory_is_free() {
        assert_eq!(buffer_bytes(FULL, 24 << 30), 512 << 20);
        assert_eq!(buffer_bytes(FULL, 1 << 30), 256 << 20);
        assert_eq!(buffer_bytes(FULL, 0), 32 << 20);
        assert_eq!(buffer_bytes(4 << 20, 24 << 30), 4 << 20);
    }
}
