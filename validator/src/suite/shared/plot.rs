//! Nearly all free memory of a GPU, held by a test for a while. The owner fills it with one pattern, so that
//! one pass over all of it finds any change.

use super::room;
use super::transfer::Memory;
use crate::gpu::pattern::{Counts, Nonces};
use crate::gpu::{Buffer, Clique, Extent, Gpu, GpuError, Pages, Pinned, Span, Stream, Tally};
use crate::machine::GpuId;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::text::gib;
use std::cell::Cell;
use std::time::Duration;

/// Memory comes in pages of this many bytes; pieces are numbered by page.
pub(in crate::suite) const PAGE: u64 = 1 << PAGE_SHIFT;
const PAGE_SHIFT: u32 = 21;
/// A pass over all of a GPU's memory takes a tenth of a second.
const OWN: Duration = Duration::from_secs(8);
/// A piece that is allocated last, so that it can be freed alone.
const SPARE: u64 = 256 << 20;
/// Smaller pieces are not allocated.
const LEAST: u64 = 16 << 20;
/// No more than this many pieces are allocated.
const MOST: usize = 32;
/// Less memory than this is not worth testing.
pub(in crate::suite) const LITTLE: u64 = 128 << 20;
/// Words of a sample.
const SAMPLE: u64 = 64;

/// The memory that one test holds on one GPU.
#[derive(Debug)]
pub(in crate::suite) struct Plot<'g> {
    pub(in crate::suite) gpu: &'g Gpu,
    pub(in crate::suite) stream: Stream,
    pub(in crate::suite) tally: Tally,
    pub(in crate::suite) host: Pinned,
    /// The largest comes first.
    chunks: Vec<Chunk>,
    seed: Cell<u64>,
}

/// One piece of it.
#[derive(Debug)]
pub(in crate::suite) struct Chunk {
    buffer: Buffer,
    /// The number of its first page; page numbers continue from piece to piece.
    first: u64,
}

/// Memory that does not hold its owner's pattern.
#[derive(Debug, Clone)]
pub(in crate::suite) struct Changed {
    pub(in crate::suite) gpu: GpuId,
    /// The piece of memory.
    pub(in crate::suite) place: Extent,
    /// The number of its first word within the pattern, and the pattern's seed.
    pub(in crate::suite) first: u64,
    pub(in crate::suite) seed: u64,
    pub(in crate::suite) counts: Counts,
    /// Words from the first wrong one on.
    pub(in crate::suite) found: Vec<u32>,
}

/// How much of a GPU's memory is held, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct Share {
    pub(in crate::suite) gpu: GpuId,
    pub(in crate::suite) bytes: u64,
    pub(in crate::suite) total: u64,
}

impl<'g> Plot<'g> {
    /// Takes all free memory except what the driver needs to work, and `besides`.
    pub(in crate::suite) fn take(gpu: &'g Gpu, memory: Memory, besides: u64) -> Result<Self, GpuError> {
        let (stream, tally, host) = (gpu.stream()?, Tally::new(gpu)?, Pinned::alloc(gpu, 4096)?);
        let (free, total) = gpu.memory()?;
        let mut left = free.saturating_sub(reserve(total).saturating_add(besides)) / PAGE * PAGE;
        let mut most = if left > 16 * SPARE { left - SPARE } else { left };
        let (mut chunks, mut first) = (Vec::new(), 0);
        while left.min(most) >= LEAST && chunks.len() < MOST {
            let bytes = left.min(most);
            match allocated(gpu, memory, bytes) {
                Ok(buffer) => {
                    chunks.push(Chunk { buffer, first });
                    (left, first) = (left - bytes, first + bytes / PAGE);
                }
                // The free memory is fragmented.
                Err(error) if room::is_short(&error) => most = bytes / 2 / PAGE * PAGE,
                Err(error) => return Err(error),
            }
        }
        Ok(Self { gpu, stream, tally, host, chunks, seed: Cell::new(0) })
    }

    /// The same for every GPU.
    pub(in crate::suite) fn take_all(
        clique: &'g Clique,
        memory: Memory,
        besides: u64,
    ) -> Result<Vec<Self>, GpuError> {
        clique.gpus.iter().map(|gpu| Self::take(gpu, memory, besides)).collect()
    }

    /// Frees the last piece, where there is more than one.
    pub(in crate::suite) fn give_way(&mut self) {
        if self.chunks.len() > 1 {
            self.chunks.pop();
        }
    }

    pub(in crate::suite) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.buffer.whole().bytes).sum()
    }

    pub(in crate::suite) fn share(&self) -> Share {
        Share { gpu: self.gpu.id(), bytes: self.bytes(), total: self.gpu.memory_bytes }
    }

    pub(in crate::suite) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    pub(in crate::suite) fn seed(&self) -> u64 {
        self.seed.get()
    }

    /// Queues a fresh pattern for all of it.
    pub(in crate::suite) fn fill(&self, nonces: &mut Nonces) -> Result<(), GpuError> {
        self.seed.set(nonces.next());
        self.chunks.iter().try_for_each(|chunk| self.mend(*chunk.buffer.whole()))
    }

    /// Queues the pattern again for a part of it.
    pub(in crate::suite) fn mend(&self, part: Extent) -> Result<(), GpuError> {
        let within = |chunk: &Chunk| Some(chunk.word(chunk.offset(part.address)?));
        let mut chunks = self.chunks.iter().filter_map(|chunk| Some((chunk, within(chunk)?)));
        let Some((chunk, word)) = chunks.next() else { return Ok(()) };
        self.stream.fill(chunk.span().at(part)?, self.seed(), word)
    }

    pub(in crate::suite) fn wait(&self) -> Result<(), GpuError> {
        self.stream.finish(&format!("GPU {}: filling or checking its own memory", self.gpu.id()), OWN)
    }

    /// Words from word `place` of `span` on.
    pub(in crate::suite) fn words(&self, span: Span<'_>, place: u64) -> Result<Vec<u32>, GpuError> {
        let count = SAMPLE.min(span.words().saturating_sub(place));
        self.stream.copy_out(self.host.span(0, count * 4)?, span.part(place * 4, count * 4)?)?;
        self.wait()?;
        Ok(self.host.words(0, count))
    }
}

impl Share {
    /// The finding that a GPU's memory is not tested because other processes use it.
    pub(in crate::suite) fn untested(&self) -> Option<Finding> {
        let gpu = format!("GPU {}", self.gpu);
        let message = || format!("{gpu}: its memory is not tested: other processes use nearly all of it");
        (self.bytes < LITTLE).then(|| Code::GpuInUse.finding(Severity::Warn, &gpu, message()))
    }
}

impl Chunk {
    pub(in crate::suite) const fn span(&self) -> Span<'_> {
        self.buffer.whole()
    }

    /// Its pages, each of `1 << shift` bytes.
    pub(in crate::suite) const fn pages(&self, shift: u32, nonce: u64) -> Pages<'_> {
        Pages { span: self.buffer.whole(), first: self.first << (PAGE_SHIFT - shift), shift, nonce }
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
        address.checked_sub(span.address).filter(|offset| *offset < span.bytes)
    }
}

/// Fills all of them with a fresh pattern.
pub(in crate::suite) fn fill_all(plots: &[Plot<'_>], nonces: &mut Nonces) -> Result<(), GpuError> {
    plots.iter().try_for_each(|plot| plot.fill(nonces))?;
    plots.iter().try_for_each(Plot::wait)
}

/// Memory that does not hold its pattern, found in one pass of every owner over all of its own memory.
pub(in crate::suite) fn changed(plots: &[Plot<'_>]) -> Result<Vec<Changed>, GpuError> {
    let mut all = Vec::new();
    let most = plots.iter().map(|plot| plot.chunks.len()).max().unwrap_or_default();
    for n in 0..most {
        let asked: Vec<_> = plots.iter().filter_map(|plot| Some((plot, plot.chunks.get(n)?))).collect();
        for (plot, chunk) in &asked {
            plot.stream.check(chunk.span(), chunk.word(0), plot.seed(), !plot.seed(), &plot.tally)?;
        }
        for (plot, chunk) in asked {
            plot.wait()?;
            let counts = Counts::from(plot.tally.checked());
            let span = chunk.span();
            if !counts.all_right(span.words()) {
                let found = plot.words(span, counts.first.unwrap_or_default())?;
                let (gpu, first, seed) = (plot.gpu.id(), chunk.word(0), plot.seed());
                all.push(Changed { gpu, place: *span, first, seed, counts, found });
            }
        }
    }
    Ok(all)
}

fn allocated(gpu: &Gpu, memory: Memory, bytes: u64) -> Result<Buffer, GpuError> {
    match memory {
        Memory::Plain => gpu.alloc(bytes),
        Memory::Mapped => gpu.alloc_mapped(bytes, &[]),
    }
}

/// What the driver needs to work while all other memory is taken: page tables for peers, and what kernels use
/// besides their buffers.
const fn reserve(total: u64) -> u64 {
    (64 << 20) + total / 512
}

/// `99.6 % of 140.4 GiB`: the smallest share of all.
pub(in crate::suite) fn coverage(shares: &[Share]) -> String {
    let part = |share: &Share| gib(share.bytes) / gib(share.total.max(1));
    let least = shares.iter().min_by(|a, b| part(a).total_cmp(&part(b)));
    least.map_or_else(String::new, |share| {
        // Never rounded up: 100 % would be false.
        format!("{:.1} % of {:.1} GiB", (part(share) * 1000.0).floor() / 10.0, gib(share.total))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_share_is_reported_and_never_rounded_up() {
        let share = |bytes, total| Share { gpu: 0.into(), bytes, total };
        let coverage = coverage(&[share(24_564 << 20, 24_564 << 20), share((140 << 30) - 1, 140 << 30)]);
        assert_eq!(coverage, "99.9 % of 140.0 GiB");
    }

    #[test]
    fn little_is_left_to_the_driver() {
        assert_eq!(reserve(140 << 30) >> 20, 64 + 280);
        assert_eq!(reserve(24 << 30) >> 20, 64 + 48);
    }
}
