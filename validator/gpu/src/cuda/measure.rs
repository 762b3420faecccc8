//! Kernels for latency and contention: the latch that holds a stream, the pointer chase, the ping-pong between
//! two GPUs, the atomics. Their source describes each.

use super::error::GpuError;
use super::launch::at;
use super::stream::Stream;
use super::tally::Tally;
use crate::cuda::memory::pinned::Latch;
use crate::cuda::memory::span::Span;

/// Bytes that the kernels use of a counter.
const COUNTER: u64 = 8;
/// The offset of the payload in a mailbox, bytes: a line of its own, away from the flag.
const PAYLOAD_AT: u64 = 128;
/// Threads of the block that sends several KiB; each stores 16 bytes.
const WIDE_THREADS: u32 = 512;

/// What is sent ahead of each flag of a ping-pong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// 128 bytes, by one warp.
    Narrow,
    /// 8 KiB, by the 16 warps of one block.
    Wide,
}

impl Payload {
    /// The number of 4-byte words.
    #[must_use]
    pub const fn words(self) -> u64 {
        match self {
            Self::Narrow => 32,
            Self::Wide => WIDE_THREADS as u64 * 4,
        }
    }

    /// The size of a mailbox for it, bytes: the flag, then the payload.
    #[must_use]
    pub const fn mailbox(self) -> u64 {
        PAYLOAD_AT + self.words() * 4
    }
}

/// The parameters of one side of a ping-pong.
#[derive(Debug, Clone, Copy)]
pub struct Pingpong<'m> {
    /// What is sent ahead of each flag, by both sides.
    pub payload: Payload,
    /// The mailbox in this GPU's own memory, of [`Payload::mailbox`] bytes or more.
    pub mine: Span<'m>,
    /// The partner's, in its memory.
    pub theirs: Span<'m>,
    /// The number of rounds.
    pub rounds: u64,
    /// The pattern that the partner sends.
    pub seed_mine: u64,
    /// The pattern that this side sends.
    pub seed_theirs: u64,
    /// Whether this side sends first.
    pub first: bool,
    /// The number of this GPU's clock cycles after which it gives up.
    pub max_cycles: u64,
}

/// The result of one side of a ping-pong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PingpongResult {
    /// Words that had not arrived although their flag had.
    pub wrong: u64,
    /// The first round with such a word.
    pub first_bad: Option<u64>,
    /// The number of finished rounds.
    pub done: u64,
    /// Whether it gave up waiting.
    pub timed_out: bool,
    /// The time of all rounds, in clock cycles of this GPU.
    pub cycles: u64,
}

impl Tally {
    /// The result of the last ping-pong; only after `finish` of its stream.
    #[must_use]
    pub fn pingpong_result(&self) -> PingpongResult {
        let wrong = self.number(0);
        PingpongResult {
            wrong,
            first_bad: (wrong > 0).then(|| self.number(1)),
            done: self.number(2),
            timed_out: self.number(3) != 0,
            cycles: self.number(4),
        }
    }

    /// The address where the last chase ended, and its clock cycles; only after `finish` of its stream.
    #[must_use]
    pub fn chased(&self) -> (u64, u64) {
        (self.number(0), self.number(1))
    }
}

impl Stream {
    /// Holds the stream until `latch` is open, at most for `max_cycles` clock cycles.
    ///
    /// # Errors
    /// The driver's error.
    pub fn park(&self, latch: &Latch, max_cycles: u64) -> Result<(), GpuError> {
        let mut a = (latch.address(), max_cycles);
        self.launch(
            self.kernels().spin,
            1,
            1,
            &[at(&raw mut a.0), at(&raw mut a.1)],
            "fl_spin",
        )
    }

    /// Makes `ring` a ring of `count` addresses, `stride` bytes apart.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if they do not fit.
    pub fn chase_init(&self, ring: Span<'_>, count: u64, stride: u64) -> Result<(), GpuError> {
        ring.part(0, count.saturating_mul(stride))?;
        let mut a = (ring.address, count, stride);
        let list = [at(&raw mut a.0), at(&raw mut a.1), at(&raw mut a.2)];
        self.launch(
            self.kernels().chase_init,
            self.grid(count),
            super::launch::THREADS,
            &list,
            "fl_chase_init",
        )
    }

    /// Follows a ring for `steps` loads, each of which depends on the previous one.
    ///
    /// # Errors
    /// The driver's error.
    pub fn chase(&self, ring: Span<'_>, steps: u64, tally: &Tally) -> Result<(), GpuError> {
        let out = tally.preset(self, 3)?;
        let mut a = (ring.address, steps, out.address);
        let list = [at(&raw mut a.0), at(&raw mut a.1), at(&raw mut a.2)];
        self.launch(self.kernels().chase, 1, 1, &list, "fl_chase")?;
        tally.fetch(self)
    }

    /// Plays one side of a ping-pong; the partner must be launched too, on another stream.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if a mailbox is too small.
    pub fn pingpong(&self, side: &Pingpong<'_>, tally: &Tally) -> Result<(), GpuError> {
        let out = tally.preset(self, 1)?;
        let mut first = u32::from(side.first);
        let mailbox = side.payload.mailbox();
        side.mine
            .part(0, mailbox)
            .and(side.theirs.part(0, mailbox))?;
        let mut a = (
            side.mine.address,
            side.theirs.address,
            side.rounds,
            side.seed_mine,
            side.seed_theirs,
        );
        let mut b = (side.max_cycles, out.address);
        let list = [
            at(&raw mut a.0),
            at(&raw mut a.1),
            at(&raw mut a.2),
            at(&raw mut a.3),
            at(&raw mut a.4),
            at(&raw mut first),
            at(&raw mut b.0),
            at(&raw mut b.1),
        ];
        match side.payload {
            Payload::Narrow => self.launch(self.kernels().pingpong, 1, 32, &list, "fl_pingpong")?,
            Payload::Wide => self.launch(
                self.kernels().pingpong_wide,
                1,
                WIDE_THREADS,
                &list,
                "fl_pingpong_wide",
            )?,
        }
        tally.fetch(self)
    }

    /// Makes each of `blocks` x 32 threads add 1 to the counter `times` times.
    ///
    /// # Errors
    /// The driver's error; [`GpuError::Bounds`] if the counter is too small.
    pub fn atomic_add(&self, counter: Span<'_>, times: u64, blocks: u32) -> Result<(), GpuError> {
        counter.part(0, COUNTER)?;
        let mut a = (counter.address, times);
        self.launch(
            self.kernels().atomic_add,
            blocks,
            32,
            &[at(&raw mut a.0), at(&raw mut a.1)],
            "fl_atomic_add",
        )
    }

    /// The same with compare-and-swap.
    ///
    /// # Errors
    /// As `atomic_add`.
    pub fn atomic_cas(&self, counter: Span<'_>, times: u64, blocks: u32) -> Result<(), GpuError> {
        counter.part(0, COUNTER)?;
        let mut a = (counter.address, times);
        self.launch(
            self.kernels().atomic_cas,
            blocks,
            32,
            &[at(&raw mut a.0), at(&raw mut a.1)],
            "fl_atomic_cas",
        )
    }
}
