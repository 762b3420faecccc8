//! Plays ping-pong between GPUs; pairs without a common GPU play at the same time, because their traffic is
//! too small to disturb others.

use super::{PairPingpong, names};
use crate::schedule::Pair;
use gpu::pattern::Nonces;
use gpu::{Buffer, Event, Gpu, GpuError, Pingpong, Pinned, Stream, Tally};
use machine::GpuId;
use std::time::Duration;

/// A kernel gives up after this many seconds of its clock.
const GIVE_UP_S: u64 = 2;
/// The host waits longer: clocks of an idle GPU are slow at first.
const HANG: Duration = Duration::from_secs(6);
/// The size of a GPU's mailbox and counters: a page, bytes.
const BYTES: u64 = 4096;

/// One GPU with the mailbox, stream and events of its ping-pongs, allocated once.
pub(super) struct Player<'g> {
    gpu: &'g Gpu,
    pub(super) memory: Buffer,
    pub(super) stream: Stream,
    tally: Tally,
    times: [Event; 2],
    pub(super) host: Pinned,
}

impl<'g> Player<'g> {
    pub(super) fn new(gpu: &'g Gpu) -> Result<Self, GpuError> {
        Ok(Self {
            gpu,
            memory: gpu.alloc(BYTES)?,
            stream: gpu.stream()?,
            tally: Tally::new(gpu)?,
            times: [gpu.event()?, gpu.event()?],
            host: Pinned::alloc(gpu, BYTES)?,
        })
    }

    /// Fills the mailbox with zeros: a flag of an earlier game would be mistaken for a new one.
    pub(super) fn clear(&self) -> Result<(), GpuError> {
        self.stream.set_bytes(self.memory.whole(), 0)?;
        self.stream.finish(&format!("GPU {}: clearing its mailbox", self.gpu.id()), HANG)
    }

    fn launch(&self, partner: &Self, rounds: u64, first: bool, seeds: [u64; 2]) -> Result<(), GpuError> {
        let [seed_mine, seed_theirs] = seeds;
        let (mine, theirs) = (self.memory.whole(), partner.memory.whole());
        let max_cycles = u64::from(self.gpu.clock_khz) * 1000 * GIVE_UP_S;
        let side = Pingpong { mine, theirs, rounds, seed_mine, seed_theirs, first, max_cycles };
        let [begin, end] = &self.times;
        self.stream.record(begin)?;
        self.stream.pingpong(&side, &self.tally)?;
        self.stream.record(end)
    }
}

pub(super) fn player<'p, 'g>(players: &'p [Player<'g>], gpu: GpuId) -> Result<&'p Player<'g>, GpuError> {
    players.get(gpu.index()).ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
}

/// Plays one game for each of these pairs, all at the same time; access is on.
pub(super) fn play(players: &[Player<'_>], pairs: &[Pair], rounds: u64) -> Result<Vec<PairPingpong>, GpuError> {
    for pair in pairs {
        player(players, pair.from)?.clear()?;
        player(players, pair.to)?.clear()?;
    }
    let mut nonces = Nonces::new();
    for pair in pairs {
        let (one, two) = (player(players, pair.from)?, player(players, pair.to)?);
        let (to_one, to_two) = (nonces.next(), nonces.next());
        one.launch(two, rounds, true, [to_one, to_two])?;
        two.launch(one, rounds, false, [to_two, to_one])?;
    }
    let doing = format!("flags after data: {}", names(pairs));
    for pair in pairs {
        player(players, pair.from)?.stream.finish(&doing, HANG)?;
        player(players, pair.to)?.stream.finish(&doing, HANG)?;
    }
    pairs.iter().map(|pair| pair_pingpong(players, *pair, rounds)).collect()
}

fn pair_pingpong(players: &[Player<'_>], pair: Pair, rounds: u64) -> Result<PairPingpong, GpuError> {
    let (one, two) = (player(players, pair.from)?, player(players, pair.to)?);
    let [begin, end] = &one.times;
    let ms = end.ms_since(begin)?;
    let sides = [one.tally.pingpong_result(), two.tally.pingpong_result()];
    Ok(PairPingpong { pair, sides, hop_ns: ms * 1e6 / (2.0 * count(rounds)) })
}

#[expect(clippy::cast_precision_loss, reason = "rounds are fewer than 2^32")]
const fn count(rounds: u64) -> f64 {
    rounds as f64
}
