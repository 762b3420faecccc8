//! Copies between every GPU and the host's memory, in both directions, which are under way while GPUs move data between
//! each other. They are not timed; their data is checked.

use super::bench::Bench;
use gpu::{Buffer, CheckCounts, Clique, Event, Gpu, GpuError, Pinned, Stream, Tally};
use machine::GpuId;
use std::time::Duration;

/// Bytes of one copy.
const BYTES: u64 = 8 << 20;
/// A time limit for all copies of one GPU: some GB at a hundredth of a link's rate.
const WITHIN: Duration = Duration::from_secs(20);

/// Every GPU with what its copies to and from the host need.
pub(in crate::suite) struct HostLoad<'a> {
    ends: Vec<HostEnd<'a>>,
}

struct HostEnd<'a> {
    gpu: &'a Gpu,
    source: Buffer,
    target: Buffer,
    /// What the GPU writes, and what it reads.
    pinned: [Pinned; 2],
    /// A stream for each direction.
    streams: [Stream; 2],
    tally: Tally,
    /// The pattern of what the GPU reads.
    read: u64,
}

/// Wrong data of a copy to or from the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::suite) struct WrongHostCopy {
    pub(in crate::suite) gpu: GpuId,
    /// Whether the data went to the host, and not from it.
    pub(in crate::suite) to_host: bool,
    pub(in crate::suite) checked: CheckCounts,
}

impl<'a> HostLoad<'a> {
    /// Allocates memory on every GPU and page-locked memory of the host, and writes there what the GPUs will read.
    pub(in crate::suite) fn new(bench: &Bench<'_>, clique: &'a Clique) -> Result<Self, GpuError> {
        let end = |gpu: &'a Gpu| {
            let pinned = [Pinned::alloc(gpu, BYTES)?, Pinned::alloc(gpu, BYTES)?];
            let streams = [gpu.stream()?, gpu.stream()?];
            let (source, target) = (gpu.alloc(BYTES)?, gpu.alloc(BYTES)?);
            let end = HostEnd {
                gpu,
                source,
                target,
                pinned,
                streams,
                tally: Tally::new(gpu)?,
                read: bench.fresh_seed(),
            };
            let [stream, _] = &end.streams;
            stream.fill(end.source.whole(), end.read, 0)?;
            let [_, held] = &end.pinned;
            stream.copy_out(held.whole(), end.source.whole())?;
            stream.finish(&end.doing(), WITHIN)?;
            Ok(end)
        };
        Ok(Self {
            ends: clique
                .gpus
                .iter()
                .map(end)
                .collect::<Result<_, GpuError>>()?,
        })
    }

    /// Prepares the memory of all GPUs: `sent` is the pattern that they will write.
    pub(super) fn prepare(&self, sent: u64) -> Result<(), GpuError> {
        for end in &self.ends {
            let [stream, _] = &end.streams;
            stream.fill(end.source.whole(), sent, 0)?;
            stream.fill(end.target.whole(), !end.read, 0)?;
            stream.finish(&end.doing(), WITHIN)?;
        }
        Ok(())
    }

    /// Queues `times` copies in each direction for every GPU, which begin after `start`.
    pub(super) fn queue(&self, start: &Event, times: u32) -> Result<(), GpuError> {
        for end in &self.ends {
            let [write, read] = &end.streams;
            let [written, held] = &end.pinned;
            write.wait_event(start)?;
            read.wait_event(start)?;
            for _ in 0..times {
                write.copy_out(written.whole(), end.source.whole())?;
                read.copy_in(end.target.whole(), held.whole())?;
            }
        }
        Ok(())
    }

    /// Waits for all copies and checks them: what was read, and what the host holds now.
    pub(super) fn finish(&self, sent: u64) -> Result<Option<WrongHostCopy>, GpuError> {
        let mut wrong = None;
        for end in &self.ends {
            for stream in &end.streams {
                stream.finish(&end.doing(), WITHIN)?;
            }
            let [stream, _] = &end.streams;
            let [written, _] = &end.pinned;
            let read = end.checked(end.read, !end.read)?;
            stream.copy_in(end.target.whole(), written.whole())?;
            let back = end.checked(sent, end.read)?;
            for (to_host, checked) in [(false, read), (true, back)] {
                if checked.wrong > 0 || checked.looked != BYTES / 4 {
                    wrong.get_or_insert(WrongHostCopy {
                        gpu: end.gpu.id(),
                        to_host,
                        checked,
                    });
                }
            }
        }
        Ok(wrong)
    }
}

impl HostEnd<'_> {
    fn checked(&self, expected: u64, before: u64) -> Result<CheckCounts, GpuError> {
        let [stream, _] = &self.streams;
        stream.check(self.target.whole(), 0, expected, before, &self.tally)?;
        stream.finish(&self.doing(), WITHIN)?;
        Ok(self.tally.checked())
    }

    fn doing(&self) -> String {
        format!(
            "GPU {}: copies to and from the host beside other traffic",
            self.gpu.id()
        )
    }
}
