//! One rank's GPU with everything that its rows need, allocated once: two buffers, a stream, events, tallies.
//! Each buffer consists of a guard band, the part for rows, room for the guard band behind the part that a row
//! uses, and some room for the calls that synchronize the ranks.

use super::layout::{BufferPart, Layout};
use super::messages::Fault;
use super::trouble::TroubleKind;
use gpu::{Buffer, Event, Gpu, GpuError, Pinned, Span, Stream, Tally};
use machine::{GpuId, Rank};

/// Memory that CUDA and NCCL need in addition to the buffers, bytes.
const CUDA_MEMORY: u64 = 64 << 20;
/// More than the minimum is allocated only up to this part of the free memory: other arms start at the same
/// time.
const FREE_SHARE: u64 = 16;
/// Room after the rows' part of each buffer, bytes: 16 for each of more ranks than any machine has.
pub(super) const SYNC_ROOM: u64 = 64 << 10;

/// Memory before and behind what a row uses, in which nothing may be written, bytes.
pub(super) const GUARD: u64 = 64 << 10;

/// A rank's GPU, with the memory and the handles that its rows use.
#[derive(Debug)]
pub(super) struct RankGpu {
    pub(super) rank: Rank,
    pub(super) gpu: GpuId,
    pub(super) stream: Stream,
    pub(super) tally: Tally,
    /// The counters for the guard bands.
    pub(super) bands: Tally,
    /// The events around the timed calls; checked calls use the second pair.
    pub(super) events: [[Event; 2]; 2],
    /// Bytes of each buffer that rows may use.
    pub(super) room: u64,
    send: Buffer,
    receive: Buffer,
    host: Pinned,
}

impl RankGpu {
    /// Allocates everything: two buffers of at least `most_bytes`, and of `wanted_room` bytes if memory allows.
    pub(super) fn alloc(
        gpu: &Gpu,
        rank: Rank,
        most_bytes: u64,
        wanted_room: u64,
    ) -> Result<Self, Fault> {
        let failed = |error: GpuError| Fault::of(Some(rank), &error);
        let (free, total) = gpu.memory().map_err(failed)?;
        let needed = most_bytes.saturating_mul(2).saturating_add(CUDA_MEMORY);
        if needed > free {
            return Err(too_little_memory(gpu.id(), rank, needed, free, total));
        }
        let room = buffer_room(most_bytes, wanted_room, free);
        let bytes = room.saturating_add(2 * GUARD + SYNC_ROOM);
        let pair = || Ok([gpu.event()?, gpu.event()?]);
        let allocate = || {
            Ok(Self {
                rank,
                gpu: gpu.id(),
                stream: gpu.stream()?,
                tally: Tally::new(gpu)?,
                bands: Tally::new(gpu)?,
                events: [pair()?, pair()?],
                room,
                send: gpu.alloc(bytes)?,
                receive: gpu.alloc(bytes)?,
                host: Pinned::alloc(gpu, 4096)?,
            })
        };
        allocate().map_err(failed)
    }

    /// The memory of a part.
    pub(super) fn span(&self, part: BufferPart) -> Result<Span<'_>, GpuError> {
        self.buffer(part.receive)
            .span(part.offset.saturating_add(GUARD), part.bytes)
    }

    /// The guard band before all parts of a buffer, or the one behind its first `used` bytes: whole words.
    pub(super) fn band(&self, receive: bool, used: Option<u64>) -> Result<Span<'_>, GpuError> {
        let from = used.map_or(0, |used| used.next_multiple_of(4).saturating_add(GUARD));
        self.buffer(receive).span(from, GUARD)
    }

    /// The bytes between the first `used` bytes of a buffer and the band behind them.
    pub(super) fn gap(&self, receive: bool, used: u64) -> Result<Span<'_>, GpuError> {
        self.span(BufferPart {
            receive,
            offset: used,
            bytes: used.next_multiple_of(4) - used,
        })
    }

    /// Both buffers, whole.
    pub(super) fn buffers(&self) -> [Span<'_>; 2] {
        [self.send.whole(), self.receive.whole()]
    }

    const fn buffer(&self, receive: bool) -> &Buffer {
        if receive { &self.receive } else { &self.send }
    }

    /// Where a call sends from, and where it receives.
    pub(super) fn spans(&self, layout: &Layout) -> Result<(Span<'_>, Span<'_>), GpuError> {
        Ok((self.span(layout.send)?, self.span(layout.receive)?))
    }

    /// Starts to copy one element to one of several places in host memory.
    pub(super) fn fetch(&self, place: u64, element: Span<'_>) -> Result<(), GpuError> {
        self.stream
            .copy_out(self.host.span(place * 8, element.bytes)?, element)
    }

    /// The bytes of the element that was fetched to a place, in the low bits.
    pub(super) fn fetched(&self, place: u64) -> u64 {
        u64::from(self.host.word(place * 2)) | u64::from(self.host.word(place * 2 + 1)) << 32
    }
}

/// The size of each of the two buffers without the room after it: whole cache lines.
fn buffer_room(least: u64, wanted_room: u64, free: u64) -> u64 {
    let line = 128;
    (free / FREE_SHARE)
        .min(wanted_room)
        .max(least)
        .next_multiple_of(line)
}

fn too_little_memory(gpu: GpuId, rank: Rank, needed: u64, free: u64, total: u64) -> Fault {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let text = format!(
        "GPU {gpu}: the rows' two buffers need {} MiB of memory, but only {} of {} MiB are free",
        mib(needed),
        free >> 20,
        mib(total)
    );
    Fault {
        rank: Some(rank),
        kind: TroubleKind::Cuda,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffers_have_the_wanted_size_where_there_is_memory_for_other_arms_too() {
        assert_eq!(buffer_room(128 << 20, 640 << 20, 24 << 30), 640 << 20);
        assert_eq!(buffer_room(128 << 20, 640 << 20, 4 << 30), 256 << 20);
        assert_eq!(buffer_room(128 << 20, 640 << 20, 1 << 30), 128 << 20);
        assert_eq!(buffer_room(1000, 8, 1 << 30), 1024);
    }

    #[test]
    fn short_memory_is_reported_with_its_size() {
        let fault = too_little_memory(
            3.into(),
            1.into(),
            (2 << 30) + CUDA_MEMORY,
            1 << 30,
            80 << 30,
        );
        let expected = "GPU 3: the rows' two buffers need 2112 MiB of memory, but only 1024 of 81920 MiB are free";
        assert_eq!(
            (fault.text.as_str(), fault.rank),
            (expected, Some(1.into()))
        );
    }
}
