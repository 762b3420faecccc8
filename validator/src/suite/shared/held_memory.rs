//! Nearly all free memory of a GPU, allocated by a test. The GPU fills it with one pattern, so that one pass over
//! all of it finds any change.

use super::free_memory;
use super::transfer::Memory;
use gpu::pattern::{Counts, Nonces};
use gpu::{Buffer, Clique, Extent, Gpu, GpuError, Pages, Pinned, Span, Stream, Tally};
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity};
use outcome::text::gib;
use std::cell::Cell;
use std::time::Duration;

/// The page size of GPU memory, bytes; offsets in the pattern are counted in pages.
pub(in crate::suite) const PAGE: u64 = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 21;
/// The time limit of a pass over all of a GPU's memory, which takes a tenth of a second.
const OWN: Duration = Duration::from_secs(8);
/// The size of the chunk that is allocated last, so that it can be freed alone, bytes.
const SPARE: u64 = 256 << 20;
/// The smallest chunk, bytes.
const LEAST: u64 = 16 << 20;
/// The most chunks.
const MOST: usize = 32;
/// Less memory than this is not worth testing.
pub(in crate::suite) const MIN_TESTED: u64 = 128 << 20;
/// The most words of a sample.
const SAMPLE: u64 = 64;

/// The memory that a test has allocated on one GPU.
#[derive(Debug)]
pub(in crate::suite) struct HeldMemory<'g> {
    pub(in crate::suite) gpu: &'g Gpu,
    pub(in crate::suite) stream: Stream,
    pub(in crate::suite) tally: Tally,
    pub(in crate::suite) host: Pinned,
    /// The largest comes first.
    chunks: Vec<Chunk>,
    seed: Cell<u64>,
}

/// One allocation of the held memory.
#[derive(Debug)]
pub(in crate::suite) struct Chunk {
    buffer: Buffer,
    /// The number of its first page; page numbers continue from chunk to chunk.
    first: u64,
}

/// Memory that does not hold its owner's pattern.
#[derive(Debug, Clone)]
pub(in crate::suite) struct ChangedMemory {
    pub(in crate::suite) gpu: GpuId,
    /// The chunk that contains the change.
    pub(in crate::suite) place: Extent,
    /// The number of its first word within the pattern, and the pattern's seed.
    pub(in crate::suite) first: u64,
    pub(in crate::suite) seed: u64,
    pub(in crate::suite) counts: Counts,
    /// Words from the first wrong one on.
    pub(in crate::suite) found: Vec<u32>,
}

/// The part of a GPU's memory that a test covers, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct MemoryShare {
    pub(in crate::suite) gpu: GpuId,
    pub(in crate::suite) bytes: u64,
    pub(in crate::suite) total: u64,
}

impl<'g> HeldMemory<'g> {
    /// Allocates all free memory except `besides` bytes and what the driver needs to work.
    pub(in crate::suite) fn take(
        gpu: &'g Gpu,
        memory: Memory,
        besides: u64,
    ) -> Result<Self, GpuError> {
        let (stream, tally, host) = (gpu.stream()?, Tally::new(gpu)?, Pinned::alloc(gpu, 4096)?);
        let (free, total) = gpu.memory()?;
        let mut left = free.saturating_sub(reserve(total).saturating_add(besides)) / PAGE * PAGE;
        let mut most = if left > 16 * SPARE {
            left - SPARE
        } else {
            left
        };
        let (mut chunks, mut first) = (Vec::new(), 0);
        while left.min(most) >= LEAST && chunks.len() < MOST {
            let bytes = left.min(most);
            match allocated(gpu, memory, bytes) {
                Ok(buffer) => {
                    chunks.push(Chunk { buffer, first });
                    (left, first) = (left - bytes, first + bytes / PAGE);
                }
                // The free memory is fragmented.
                Err(error) if free_memory::is_out_of_memory(&error) => {
                    most = bytes / 2 / PAGE * PAGE;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            gpu,
            stream,
            tally,
            host,
            chunks,
            seed: Cell::new(0),
        })
    }

    /// Does so on every GPU.
    pub(in crate::suite) fn take_all(
        clique: &'g Clique,
        memory: Memory,
        besides: u64,
    ) -> Result<Vec<Self>, GpuError> {
        clique
            .gpus
            .iter()
            .map(|gpu| Self::take(gpu, memory, besides))
            .collect()
    }

    /// Frees the last chunk, if there is more than one.
    pub(in crate::suite) fn free_last(&mut self) {
        if self.chunks.len() > 1 {
            self.chunks.pop();
        }
    }

    pub(in crate::suite) fn bytes(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.buffer.whole().bytes)
            .sum()
    }

    pub(in crate::suite) fn share(&self) -> MemoryShare {
        MemoryShare {
            gpu: self.gpu.id(),
            bytes: self.bytes(),
            total: self.gpu.memory_bytes,
        }
    }

    pub(in crate::suite) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    pub(in crate::suite) fn seed(&self) -> u64 {
        self.seed.get()
    }

    /// Queues kernels that fill all of it with a fresh pattern.
    pub(in crate::suite) fn fill(&self, nonces: &mut Nonces) -> Result<(), GpuError> {
        self.seed.set(nonces.next());
        self.chunks
            .iter()
            .try_for_each(|chunk| self.restore(*chunk.buffer.whole()))
    }

    /// Queues a kernel that fills a part of it with the present pattern again.
    pub(in crate::suite) fn restore(&self, part: Extent) -> Result<(), GpuError> {
        let within = |chunk: &Chunk| Some(chunk.word(chunk.offset(part.address)?));
        let mut chunks = self
            .chunks
            .iter()
            .filter_map(|chunk| Some((chunk, within(chunk)?)));
        let Some((chunk, word)) = chunks.next() else {
            return Ok(());
        };
        self.stream.fill(chunk.span().at(part)?, self.seed(), word)
    }

    pub(in crate::suite) fn wait(&self) -> Result<(), GpuError> {
        self.stream.finish(
            &format!("GPU {}: filling or checking its own memory", self.gpu.id()),
            OWN,
        )
    }

    /// Words from word `place` of `span` on.
    pub(in crate::suite) fn words(&self, span: Span<'_>, place: u64) -> Result<Vec<u32>, GpuError> {
        let count = SAMPLE.min(span.words().saturating_sub(place));
        self.stream.copy_out(
            self.host.span(0, count * 4)?,
            span.part(place * 4, count * 4)?,
        )?;
        self.wait()?;
        Ok(self.host.words(0, count))
    }
}

impl MemoryShare {
    /// The finding that a GPU's memory is not tested because other processes use it.
    pub(in crate::suite) fn untested(&self) -> Option<Finding> {
        let gpu = self.gpu;
        let message =
            || format!("GPU {gpu}: its memory is not tested: other processes use nearly all of it");
        (self.bytes < MIN_TESTED).then(|| Code::GpuInUse.finding(Severity::Warn, gpu, message()))
    }
}

impl Chunk {
    pub(in crate::suite) const fn span(&self) -> Span<'_> {
        self.buffer.whole()
    }

    /// Its pages, each of `1 << shift` bytes.
    pub(in crate::suite) const fn pages(&self, shift: u32, nonce: u64) -> Pages<'_> {
        Pages {
            span: self.buffer.whole(),
            first: self.first << (PAGE_SHIFT - shift),
            shift,
            nonce,
        }
    }

    /// The byte of the owner's pattern that belongs to this offset.
    pub(in crate::suite) const fn byte(&self, offset: u64) -> u64 {
        (self.first << PAGE_SHIFT) + offset
    }

    /// The word of the owner's pattern that belongs to this offset.
    const fn word(&self, offset: u64) -> u64 {
        self.byte(offset) / 4
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let span = self.span();
        address
            .checked_sub(span.address)
            .filter(|offset| *offset < span.bytes)
    }
}

/// Fills the held memory of every GPU with a fresh pattern.
pub(in crate::suite) fn fill_all(
    memories: &[HeldMemory<'_>],
    nonces: &mut Nonces,
) -> Result<(), GpuError> {
    memories
        .iter()
        .try_for_each(|held_memory| held_memory.fill(nonces))?;
    memories.iter().try_for_each(HeldMemory::wait)
}

/// Memory that does not hold its pattern: every GPU checks all of its own held memory.
pub(in crate::suite) fn find_changes(
    memories: &[HeldMemory<'_>],
) -> Result<Vec<ChangedMemory>, GpuError> {
    let mut all = Vec::new();
    let most = memories
        .iter()
        .map(|held_memory| held_memory.chunks.len())
        .max()
        .unwrap_or_default();
    for n in 0..most {
        let asked: Vec<_> = memories
            .iter()
            .filter_map(|held_memory| Some((held_memory, held_memory.chunks.get(n)?)))
            .collect();
        for (held_memory, chunk) in &asked {
            held_memory.stream.check(
                chunk.span(),
                chunk.word(0),
                held_memory.seed(),
                !held_memory.seed(),
                &held_memory.tally,
            )?;
        }
        for (held_memory, chunk) in asked {
            held_memory.wait()?;
            let counts = Counts::from(held_memory.tally.checked());
            let span = chunk.span();
            if !counts.all_right(span.words()) {
                let found = held_memory.words(span, counts.first.unwrap_or_default())?;
                let (gpu, first, seed) = (held_memory.gpu.id(), chunk.word(0), held_memory.seed());
                all.push(ChangedMemory {
                    gpu,
                    place: *span,
                    first,
                    seed,
                    counts,
                    found,
                });
            }
        }
    }
    Ok(all)
}

fn allocated(gpu: &Gpu, memory: Memory, bytes: u64) -> Result<Buffer, GpuError> {
    match memory {
        Memory::Plain | Memory::Small => gpu.alloc(bytes),
        Memory::Mapped => gpu.alloc_mapped(bytes, &[]),
    }
}

/// Bytes that the driver needs while all other memory is allocated: for page tables of peers, and for what kernels
/// use besides their buffers.
const fn reserve(total: u64) -> u64 {
    (64 << 20) + total / 512
}

/// The smallest of the shares, as in `99.6 % of 140.4 GiB`.
pub(in crate::suite) fn coverage(shares: &[MemoryShare]) -> String {
    let part = |share: &MemoryShare| gib(share.bytes) / gib(share.total.max(1));
    let least = shares.iter().min_by(|a, b| part(a).total_cmp(&part(b)));
    least.map_or_else(String::new, |share| {
        // Never rounded up: 100 % would be false.
        format!(
            "{:.1} % of {:.1} GiB",
            (part(share) * 1000.0).floor() / 10.0,
            gib(share.total)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_share_is_reported_and_never_rounded_up() {
        let share = |bytes, total| MemoryShare {
            gpu: 0.into(),
            bytes,
            total,
        };
        let coverage = coverage(&[
            share(24_564 << 20, 24_564 << 20),
            share((140 << 30) - 1, 140 << 30),
        ]);
        assert_eq!(coverage, "99.9 % of 140.0 GiB");
    }

    #[test]
    fn little_is_left_to_the_driver() {
        assert_eq!(reserve(140 << 30) >> 20, 64 + 280);
        assert_eq!(reserve(24 << 30) >> 20, 64 + 48);
    }
}
