//! One GPU with its buffers, which hold a sentinel in every word that no transfer uses, and with the stream and
//! tallies to check them locally.

use super::level_plan::LevelPlan;
use crate::suite::shared::transfer::Memory;
use gpu::pattern::{Counts, Excerpt, Nonces};
use gpu::{Buffer, Gpu, GpuError, Pinned, Span, Stream, Tally};
use std::cell::Cell;
use std::time::Duration;

/// The time limit for filling and checking a GPU's own memory, which takes milliseconds.
const OWN: Duration = Duration::from_secs(4);
/// Bytes on the host for samples that are compared there.
const HOST: u64 = 64 << 10;

/// One GPU with everything that its transfers need, allocated once.
pub(super) struct TestGpu<'g> {
    pub(super) gpu: &'g Gpu,
    pub(super) stream: Stream,
    pub(super) tallies: Tallies,
    pub(super) host: Pinned,
    pub(super) plain: SentinelBuffer,
    pub(super) small: SentinelBuffer,
    /// From level standard on.
    pub(super) mapped: Option<SentinelBuffer>,
}

/// The tallies of the target and of the guards below and above it.
pub(super) struct Tallies {
    pub(super) data: Tally,
    pub(super) below: Tally,
    pub(super) above: Tally,
}

/// Memory that holds `word(sentinel, k)` in its word k wherever no transfer is active.
pub(super) struct SentinelBuffer {
    buffer: Buffer,
    sentinel: Cell<u64>,
}

impl<'g> TestGpu<'g> {
    /// A GPU with its buffers of ordinary memory.
    pub(super) fn new(gpu: &'g Gpu, plan: &LevelPlan) -> Result<Self, GpuError> {
        let tallies = Tallies {
            data: Tally::new(gpu)?,
            below: Tally::new(gpu)?,
            above: Tally::new(gpu)?,
        };
        let of = |memory| {
            Ok::<_, GpuError>(SentinelBuffer::over(
                gpu.alloc(plan.layout(memory).bytes())?,
            ))
        };
        let (plain, small) = (of(Memory::Plain)?, of(Memory::Small)?);
        let host = Pinned::alloc(gpu, HOST)?;
        Ok(Self {
            gpu,
            stream: gpu.stream()?,
            tallies,
            host,
            plain,
            small,
            mapped: None,
        })
    }

    /// Adds memory that is mapped for its peers.
    pub(super) fn add_mapped(&mut self, buffer: Buffer) {
        self.mapped = Some(SentinelBuffer::over(buffer));
    }

    /// The buffer of that kind of memory.
    pub(super) fn buffer(&self, memory: Memory) -> Result<&SentinelBuffer, GpuError> {
        match memory {
            Memory::Plain => Ok(&self.plain),
            Memory::Small => Ok(&self.small),
            Memory::Mapped => self.mapped.as_ref().ok_or_else(|| {
                GpuError::Nonsense(format!("GPU {}: no mapped memory", self.gpu.id()))
            }),
        }
    }

    pub(super) fn buffers(&self) -> impl Iterator<Item = &SentinelBuffer> {
        [&self.plain, &self.small].into_iter().chain(&self.mapped)
    }

    /// Queues kernels that fill all buffers with fresh sentinels.
    pub(super) fn reset_sentinels(&self, nonces: &mut Nonces) -> Result<(), GpuError> {
        for buffer in self.buffers() {
            buffer.sentinel.set(nonces.next());
            self.stream.fill(buffer.whole(), buffer.sentinel(), 0)?;
        }
        Ok(())
    }

    /// Waits for this GPU's work on its own memory.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.stream.finish(
            &format!("GPU {}: checking its own memory", self.gpu.id()),
            OWN,
        )
    }

    /// Queues copies of parts of `what` to the host.
    pub(super) fn fetch(&self, what: Span<'_>, parts: &[(u64, u64)]) -> Result<(), GpuError> {
        let mut at = 0;
        for (offset, bytes) in parts {
            self.stream
                .copy_out(self.host.span(at, *bytes)?, what.part(*offset, *bytes)?)?;
            at += bytes;
        }
        Ok(())
    }

    /// The fetched parts, after `wait`.
    pub(super) fn fetched(&self, parts: &[(u64, u64)]) -> Vec<Excerpt> {
        let mut at = 0;
        let mut pieces = Vec::with_capacity(parts.len());
        for (offset, bytes) in parts {
            pieces.push(Excerpt {
                place: offset / 4,
                words: self.host.words(at / 4, bytes / 4),
            });
            at += bytes;
        }
        pieces
    }

    /// Words of `what` from word `place` on, at most `count`; waits.
    pub(super) fn words(
        &self,
        what: Span<'_>,
        place: u64,
        count: u64,
    ) -> Result<Excerpt, GpuError> {
        let count = count.min(what.words().saturating_sub(place));
        let parts = [(place * 4, count * 4)];
        self.fetch(what, &parts)?;
        self.wait()?;
        Ok(Excerpt {
            place,
            words: self.host.words(0, count),
        })
    }

    /// Checks memory of any GPU on this GPU, and waits.
    pub(super) fn check(
        &self,
        what: Span<'_>,
        first: u64,
        expected: u64,
        sentinel: u64,
    ) -> Result<Counts, GpuError> {
        self.stream
            .check(what, first, expected, sentinel, &self.tallies.data)?;
        self.wait()?;
        Ok(counts(&self.tallies.data))
    }
}

impl SentinelBuffer {
    const fn over(buffer: Buffer) -> Self {
        Self {
            buffer,
            sentinel: Cell::new(0),
        }
    }

    pub(super) const fn whole(&self) -> Span<'_> {
        self.buffer.whole()
    }

    pub(super) fn part(&self, offset: u64, bytes: u64) -> Result<Span<'_>, GpuError> {
        self.buffer.span(offset, bytes)
    }

    pub(super) const fn sentinel(&self) -> u64 {
        self.sentinel.get()
    }
}

/// The counts of a finished check.
pub(super) fn counts(tally: &Tally) -> Counts {
    tally.checked().into()
}
