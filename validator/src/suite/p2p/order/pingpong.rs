//! Plays ping-pong between GPUs. Pairs without a common GPU play at the same time: the flags of the timed game are too few
//! to disturb others, and the other games are not timed.

use super::{Game, PairPingpong, names};
use crate::schedule::Pair;
use crate::suite::shared::peer_access::mapped_for_peers;
use gpu::pattern::Nonces;
use gpu::{Buffer, Clique, Event, Gpu, GpuError, Payload, Pingpong, Pinned, Stream, Tally, poll};
use machine::GpuId;
use std::time::{Duration, Instant};

/// A kernel gives up after this many seconds of its clock; one that sends several KiB, after this many of one round.
const GIVE_UP_S: u64 = 2;
/// The size of a GPU's mailbox and counters, bytes.
const BYTES: u64 = 16 << 10;
/// What copy engines move at once, bytes.
const LOAD: u64 = 8 << 20;
/// How many such copies are queued at once: the link must not be idle until the host queues more.
const LOADS: u32 = 8;

/// How long the host waits: longer than the kernels, because clocks of an idle GPU are slow at first.
const fn patience(payload: Payload) -> Duration {
    Duration::from_secs(match payload {
        Payload::Narrow => 6,
        // Many rounds under load.
        Payload::Wide => 20,
    })
}

/// One GPU with the mailbox, streams and events of its ping-pongs, allocated once.
pub(super) struct Player<'g> {
    gpu: &'g Gpu,
    pub(super) memory: Buffer,
    /// What copy engines send from, the first half, and where they send it, the second.
    load: Buffer,
    pub(super) stream: Stream,
    loading: Stream,
    tally: Tally,
    times: [Event; 2],
    pub(super) host: Pinned,
}

impl<'g> Player<'g> {
    /// A player in ordinary memory.
    pub(super) fn new(gpu: &'g Gpu) -> Result<Self, GpuError> {
        Self::over(gpu, gpu.alloc(BYTES)?, gpu.alloc(2 * LOAD)?)
    }

    /// A player for each GPU in memory that is mapped for its peers.
    pub(super) fn mapped(clique: &'g Clique) -> Result<Vec<Self>, GpuError> {
        let gpus: Vec<&Gpu> = clique.gpus.iter().collect();
        let one = |gpu: &'g Gpu| {
            let of = |bytes| mapped_for_peers(&gpus, gpu, bytes);
            Self::over(gpu, of(BYTES)?, of(2 * LOAD)?)
        };
        clique.gpus.iter().map(one).collect()
    }

    fn over(gpu: &'g Gpu, memory: Buffer, load: Buffer) -> Result<Self, GpuError> {
        Ok(Self {
            gpu,
            memory,
            load,
            stream: gpu.stream()?,
            loading: gpu.stream()?,
            tally: Tally::new(gpu)?,
            times: [gpu.event()?, gpu.event()?],
            host: Pinned::alloc(gpu, 4096)?,
        })
    }

    /// Fills the mailbox with zeros: a flag of an earlier game would be mistaken for a new one.
    pub(super) fn clear(&self) -> Result<(), GpuError> {
        self.stream.set_bytes(self.memory.whole(), 0)?;
        self.stream.finish(
            &format!("GPU {}: clearing its mailbox", self.gpu.id()),
            patience(Payload::Narrow),
        )
    }

    fn launch(
        &self,
        partner: &Self,
        game: Game,
        first: bool,
        seeds: [u64; 2],
    ) -> Result<(), GpuError> {
        let Game {
            payload, rounds, ..
        } = game;
        let [seed_mine, seed_theirs] = seeds;
        let (mine, theirs) = (self.memory.whole(), partner.memory.whole());
        let max_cycles = u64::from(self.gpu.clock_khz) * 1000 * GIVE_UP_S;
        let side = Pingpong {
            payload,
            mine,
            theirs,
            rounds,
            seed_mine,
            seed_theirs,
            first,
            max_cycles,
        };
        let [begin, end] = &self.times;
        self.stream.record(begin)?;
        self.stream.pingpong(&side, &self.tally)?;
        self.stream.record(end)
    }

    /// Has this GPU's copy engines write to the partner, unless they still do.
    fn load(&self, partner: &Self) -> Result<(), GpuError> {
        if !self.loading.done()? {
            return Ok(());
        }
        let (from, to) = (self.load.span(0, LOAD)?, partner.load.span(LOAD, LOAD)?);
        (0..LOADS).try_for_each(|_| self.loading.copy(to, from))
    }
}

pub(super) fn player<'p, 'g>(
    players: &'p [Player<'g>],
    gpu: GpuId,
) -> Result<&'p Player<'g>, GpuError> {
    players
        .get(gpu.index())
        .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
}

/// Plays one game for each of these pairs, all at the same time; the players' memory is of the game's kind, and peers may use
/// it. Several KiB are sent while copy engines load both directions of each pair: a flag overtakes its data more easily where
/// both have to wait.
pub(super) fn play(
    players: &[Player<'_>],
    pairs: &[Pair],
    game: Game,
) -> Result<Vec<PairPingpong>, GpuError> {
    for pair in pairs {
        player(players, pair.from)?.clear()?;
        player(players, pair.to)?.clear()?;
    }
    if game.payload == Payload::Wide {
        load(players, pairs)?;
    }
    let mut nonces = Nonces::new();
    for pair in pairs {
        let (one, two) = (player(players, pair.from)?, player(players, pair.to)?);
        let (to_one, to_two) = (nonces.next(), nonces.next());
        one.launch(two, game, true, [to_one, to_two])?;
        two.launch(one, game, false, [to_two, to_one])?;
    }
    if game.payload == Payload::Wide {
        let start = Instant::now();
        while start.elapsed() < patience(game.payload) && !are_done(players, pairs)? {
            load(players, pairs)?;
            poll::pause(start.elapsed());
        }
    }
    let doing = format!("flags after data: {}", names(pairs));
    for pair in pairs {
        for gpu in [pair.from, pair.to] {
            let player = player(players, gpu)?;
            player.stream.finish(&doing, patience(game.payload))?;
            player.loading.finish(&doing, patience(game.payload))?;
        }
    }
    pairs
        .iter()
        .map(|pair| pair_pingpong(players, *pair, game))
        .collect()
}

/// Has copy engines write in both directions of each pair.
fn load(players: &[Player<'_>], pairs: &[Pair]) -> Result<(), GpuError> {
    for pair in pairs {
        let (one, two) = (player(players, pair.from)?, player(players, pair.to)?);
        one.load(two)?;
        two.load(one)?;
    }
    Ok(())
}

fn are_done(players: &[Player<'_>], pairs: &[Pair]) -> Result<bool, GpuError> {
    for pair in pairs {
        if !player(players, pair.from)?.stream.done()?
            || !player(players, pair.to)?.stream.done()?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn pair_pingpong(players: &[Player<'_>], pair: Pair, game: Game) -> Result<PairPingpong, GpuError> {
    let (one, two) = (player(players, pair.from)?, player(players, pair.to)?);
    let [begin, end] = &one.times;
    let ms = end.ms_since(begin)?;
    let sides = [one.tally.pingpong_result(), two.tally.pingpong_result()];
    Ok(PairPingpong {
        pair,
        game,
        sides,
        hop_ns: ms * 1e6 / (2.0 * count(game.rounds)),
    })
}

#[expect(clippy::cast_precision_loss, reason = "rounds are fewer than 2^32")]
const fn count(rounds: u64) -> f64 {
    rounds as f64
}
