//! One transfer as data: from where to where, which GPU moves it with which engine, how much and how often.

use crate::schedule::Pair;
use machine::GpuId;
use std::fmt;
use std::time::Duration;

/// No healthy path is slower, GB/s; work that takes longer has stopped.
const SLOWEST_GB_S: f64 = 0.2;
/// The longest time limit for copying; no sample is meant to take even a second.
const LONGEST: Duration = Duration::from_secs(30);
/// Time for everything other than copying: starting, checking, a busy host.
const GRACE: Duration = Duration::from_secs(3);

/// How data is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum CopyMethod {
    /// `cuMemcpyPeerAsync`, as p2pBandwidthLatencyTest does: through host memory without peer access.
    Peer,
    /// `cuMemcpyAsync`: a copy engine.
    Ce,
    /// A kernel on the multiprocessors.
    Sm,
}

/// The GPU that moves the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum Side {
    /// The one that has the data: it writes.
    Source,
    /// The one that receives the data: it reads.
    Target,
}

/// How many copies make one sample, at most. nvbandwidth makes 16; 4 of 512 MiB take 5 ms at 400 GB/s, ten
/// thousand times the resolution of a clock.
pub(super) const MOST_COPIES: u32 = 4;
/// The time that a sample should take, ms.
const SAMPLE_MS: f64 = 10.0;

/// The number of copies for a sample, when one takes `ms`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1 to 4"
)]
pub(in crate::suite) fn copies(ms: f64) -> u32 {
    if ms > 0.0 {
        (SAMPLE_MS / ms).clamp(1.0, f64::from(MOST_COPIES)) as u32
    } else {
        1
    }
}

/// The number of copies for a sample, when `bytes` move at `gb_s`.
#[expect(clippy::cast_precision_loss, reason = "a few hundred MB")]
pub(in crate::suite) fn copies_at(bytes: u64, gb_s: f64) -> u32 {
    if gb_s > 0.0 {
        copies(bytes as f64 / gb_s / 1e6)
    } else {
        1
    }
}

/// One timed transfer: `times` copies of `bytes`, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct Flow {
    /// From where to where; a pair of one GPU is a copy within it.
    pub(in crate::suite) pair: Pair,
    pub(in crate::suite) by: Side,
    pub(in crate::suite) method: CopyMethod,
    /// Bytes of one copy.
    pub(in crate::suite) bytes: u64,
    pub(in crate::suite) times: u32,
    /// Offset in the source's buffer.
    pub(in crate::suite) from: u64,
    /// Offset in the target's buffer.
    pub(in crate::suite) to: u64,
    /// Begins when the earlier transfers that its GPU moves in the same group have ended, not when they have begun.
    pub(in crate::suite) in_turn: bool,
}

impl Flow {
    /// `pair.from` writes to `pair.to`.
    pub(in crate::suite) const fn write(
        pair: Pair,
        method: CopyMethod,
        bytes: u64,
        times: u32,
    ) -> Self {
        Self {
            pair,
            by: Side::Source,
            method,
            bytes,
            times,
            from: 0,
            to: 0,
            in_turn: false,
        }
    }

    /// `actor` reads from or writes to `peer`: rows and columns of nvbandwidth's matrices.
    pub(in crate::suite) const fn by(
        side: Side,
        actor: Pair,
        method: CopyMethod,
        bytes: u64,
        times: u32,
    ) -> Self {
        match side {
            Side::Source => Self::write(actor, method, bytes, times),
            Side::Target => Self {
                by: side,
                ..Self::write(actor.back(), method, bytes, times)
            },
        }
    }

    /// The same transfer at other offsets in the two buffers.
    pub(in crate::suite) const fn at(self, from: u64, to: u64) -> Self {
        Self { from, to, ..self }
    }

    /// The GPU that moves it.
    pub(in crate::suite) const fn actor(&self) -> GpuId {
        match self.by {
            Side::Source => self.pair.from,
            Side::Target => self.pair.to,
        }
    }

    /// Bytes of all copies.
    pub(in crate::suite) fn total(&self) -> u64 {
        self.bytes.saturating_mul(u64::from(self.times))
    }
}

/// The time limit for transfers that run at the same time, together.
pub(super) fn patience<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> Duration {
    patience_for(flows.into_iter().map(Flow::total).sum())
}

/// The time limit for this many bytes.
#[expect(clippy::cast_precision_loss, reason = "a generous limit")]
pub(super) fn patience_for(bytes: u64) -> Duration {
    let slowest = Duration::try_from_secs_f64(bytes as f64 / 1e9 / SLOWEST_GB_S).unwrap_or(LONGEST);
    GRACE + slowest.min(LONGEST)
}

/// The largest size up to `bytes` that a kernel of `sms` x 512 threads copies in whole rounds of 16 bytes a
/// thread, as nvbandwidth trims its sizes; `bytes` where that would be 0.
pub(in crate::suite) fn whole_rounds(bytes: u64, sms: u32) -> u64 {
    let round = u64::from(sms) * 512 * 16;
    let trimmed = bytes.checked_div(round).unwrap_or_default() * round;
    if trimmed == 0 { bytes } else { trimmed }
}

/// `GPU 0 -> 1: copy engine writes 4 x 536870912 bytes`
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.method {
            CopyMethod::Peer => "peer copy",
            CopyMethod::Ce => "copy engine",
            CopyMethod::Sm => "kernel",
        };
        let acts = match self.by {
            Side::Source => "writes",
            Side::Target => "reads",
        };
        write!(
            f,
            "{}: {method} {acts} {} x {} bytes",
            self.pair, self.times, self.bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_matrix_acts_and_the_column_is_its_peer() {
        let actor = Pair::of(2, 5);
        let write = Flow::by(Side::Source, actor, CopyMethod::Ce, 16, 1);
        let read = Flow::by(Side::Target, actor, CopyMethod::Ce, 16, 1);
        assert_eq!((write.actor(), write.pair), (2.into(), Pair::of(2, 5)));
        assert_eq!((read.actor(), read.pair), (2.into(), Pair::of(5, 2)));
        assert_eq!(
            read.to_string(),
            "GPU 5 -> 2: copy engine reads 1 x 16 bytes"
        );
    }

    #[test]
    fn slow_links_get_fewer_copies_for_a_sample() {
        assert_eq!(
            [1.37, 3.0, 20.0, 900.0, 0.0, f64::NAN].map(copies),
            [4, 3, 1, 1, 1, 1]
        );
        assert_eq!(
            [400.0, 25.0, 0.0].map(|gb_s| copies_at(80_000_000, gb_s)),
            [4, 3, 1]
        );
    }

    #[test]
    fn patience_grows_with_the_bytes() {
        let flow = Flow::write(Pair::of(0, 1), CopyMethod::Peer, 160_000_000, 5);
        assert_eq!(patience([&flow]), Duration::from_secs(7));
        assert_eq!(patience([&flow, &flow]), Duration::from_secs(11));
        assert_eq!(patience_for(u64::MAX), Duration::from_secs(33));
    }

    /// nvbandwidth on H200 moves 496 rounds of 132 x 512 x 16 bytes instead of 512 MiB.
    #[test]
    fn kernels_copy_whole_rounds() {
        assert_eq!(whole_rounds(512 << 20, 132), 496 * 132 * 512 * 16);
        assert_eq!(whole_rounds(4096, 132), 4096);
        assert_eq!(whole_rounds(4096, 0), 4096);
    }
}
