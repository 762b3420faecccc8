//! The duration of a collective: as nccl-tests measured it on such a machine, or derived from those measurements, plus
//! everything that slows its routes.

use super::{Collective, Contribution};
use crate::library_folder;
use crate::scenario::{Engine, How, Kind, Program, Scenario, Way};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How ranks reach each other; if the ranks differ, the slowest way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Directly.
    P2p,
    /// Through host memory.
    Shm,
    /// Through a socket.
    Net,
}

impl Path {
    /// The path that has this number.
    #[must_use]
    pub const fn of(number: u32) -> Self {
        match number {
            0 => Self::P2p,
            1 => Self::Shm,
            _ => Self::Net,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::P2p => 0,
            Self::Shm => 1,
            Self::Net => 2,
        }
    }
}

/// The nccl-tests program that does the same, and the bytes that it would print.
#[must_use]
pub fn nccl_tests_shape(parts: &[Contribution]) -> (Program, u64) {
    let (Some(first), ranks) = (parts.first(), parts.len()) else {
        return (Program::AllReduce, 0);
    };
    match first.collective {
        Collective::AllReduce(..) => (Program::AllReduce, first.sends()),
        Collective::AllGather => (Program::AllGather, first.sends() * ranks as u64),
        Collective::ReduceScatter(..) => (Program::ReduceScatter, first.sends()),
        Collective::Broadcast(_) => (Program::Broadcast, first.receives()),
        Collective::Reduce(..) => (Program::Reduce, first.sends()),
        Collective::Exchange => exchange_shape(parts),
    }
}

fn exchange_shape(parts: &[Contribution]) -> (Program, u64) {
    let ranks = parts.len();
    let most = |f: fn(&Contribution) -> u64| parts.iter().map(f).max().unwrap_or_default();
    let (sent, received) = (most(Contribution::sends), most(Contribution::receives));
    let to = |n: usize| parts.iter().filter(|p| p.sent.len() == n).count();
    let from = |n: usize| parts.iter().filter(|p| p.wanted.len() == n).count();
    let program = match () {
        () if to(1) == ranks && from(1) == ranks => Program::Sendrecv,
        () if to(1) == ranks && from(ranks) == 1 => Program::Gather,
        () if from(1) == ranks && to(ranks) == 1 => Program::Scatter,
        () => Program::Alltoall,
    };
    (program, sent.max(received))
}

/// The time of a call without bytes, as nccl-tests measures it.
const EMPTY_US: f64 = 0.6;
/// Without measurements: the time of a small call, and the fraction of its slowest link's rate that a ring reaches.
const SMALL_US: f64 = 20.0;
const RING_EFFICIENCY: f64 = 0.8;
/// Calls of up to this many bytes are small.
const SMALL_BYTES: u64 = 128 << 10;
/// From so many bytes on NVLink SHARP is faster.
const SHARP_BYTES: u64 = 1 << 20;
/// How many times longer everything takes through a socket than through host memory.
const SOCKET_FACTOR: f64 = 2.0;

impl Scenario {
    /// The duration in ns of a collective of communicator `comm`, of the ranks with these `parts`.
    #[must_use]
    pub fn collective_ns(
        &self,
        comm: u64,
        parts: &[Contribution],
        path: Path,
        channels: u32,
    ) -> f64 {
        let (program, bytes) = nccl_tests_shape(parts);
        if bytes == 0 {
            return EMPTY_US * 1e3;
        }
        let in_place = parts.iter().any(|p| p.in_place);
        let ranks = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let (time, latency) = self.measured(program, path, ranks, bytes, in_place);
        let rate_left = self.rate_left(parts, path, bytes) * self.channel_rate(channels);
        let time = if (rate_left - 1.0).abs() < 1e-9 {
            time
        } else {
            latency + (time - latency).max(0.0) / rate_left
        };
        let slow = |f: &&crate::scenario::Fault| {
            f.kind == Kind::NcclSlow
                && parts.iter().any(|p| f.gpu.is_none_or(|g| g == p.gpu))
                && f.meets_call(parts)
        };
        let slow: f64 = self
            .fault
            .iter()
            .filter(slow)
            .filter_map(|f| f.rate)
            .product();
        let time = match self.nccl.shm_first {
            Some(times) if path == Path::Shm && !parts.iter().all(|p| p.alike) => {
                latency + (time - latency).max(0.0) * times
            }
            _ => time,
        };
        let sharp = parts.iter().all(|p| p.how & How::Nvls.bit() != 0) && bytes >= SHARP_BYTES;
        let switches = matches!(
            program,
            Program::AllReduce | Program::AllGather | Program::ReduceScatter
        );
        let time = self
            .nccl
            .nvls
            .filter(|_| sharp && switches)
            .map_or(time, |times| time / times);
        let time = if bytes <= SMALL_BYTES {
            time * self.small_factor(comm, path)
        } else {
            time
        };
        let socket = if path == Path::Net {
            SOCKET_FACTOR
        } else {
            1.0
        };
        time * socket / slow * 1e3
    }

    /// How many times longer small calls take in this communicator.
    fn small_factor(&self, comm: u64, path: Path) -> f64 {
        static PLACES: Mutex<BTreeMap<(u64, &str), usize>> = Mutex::new(BTreeMap::new());
        let (factors, way) = match path {
            Path::P2p => (&self.nccl.small.p2p, "p2p"),
            Path::Shm | Path::Net => (&self.nccl.small.shm, "shm"),
        };
        if factors.is_empty() {
            return 1.0;
        }
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places
            .entry((comm, way))
            .or_insert_with(|| library_folder::place(&format!("small.{way}")));
        factors.get(*place).copied().unwrap_or(1.0)
    }

    /// The time without faults and the latency, in microseconds.
    fn measured(
        &self,
        program: Program,
        path: Path,
        ranks: u32,
        bytes: u64,
        in_place: bool,
    ) -> (f64, f64) {
        let tables = if path == Path::P2p {
            &self.nccl.p2p
        } else {
            &self.nccl.shm
        };
        let own = tables.get(&program).map(|t| (program, t));
        let Some((like, table)) =
            own.or_else(|| Some((Program::AllReduce, tables.get(&Program::AllReduce)?)))
        else {
            let most = if path == Path::P2p {
                self.figures.near.sm.write.0
            } else {
                self.figures.staged.one.0
            };
            let bus = bytes as f64 * program.factor(ranks) / 1e3;
            return (SMALL_US + bus / (most * RING_EFFICIENCY), SMALL_US);
        };
        // Assumes the same bus bandwidth, which is bytes times factor over time.
        let same = like == program && table.ranks == ranks;
        let factor = if same {
            1.0
        } else {
            program.factor(ranks) / like.factor(table.ranks)
        };
        (table.us(bytes, in_place) * factor, table.latency() * factor)
    }

    fn channel_rate(&self, channels: u32) -> f64 {
        let rates = &self.nccl.rate_by_channels;
        let reached = rates
            .iter()
            .rev()
            .find(|(n, _)| *n <= channels)
            .or(rates.first());
        reached.map_or(1.0, |(_, rate)| *rate)
    }

    /// The fraction of the rate that faults leave on the slowest route in use.
    fn rate_left(&self, parts: &[Contribution], path: Path, bytes: u64) -> f64 {
        if self.fault.is_empty() {
            return 1.0;
        }
        let gpu_pairs = gpu_pairs(parts);
        let of = |(a, b): &(usize, usize)| {
            let narrow = self.narrow_rate_left(*a).min(self.narrow_rate_left(*b));
            let meets = |f: &&crate::scenario::Fault| {
                let slows = f.kind == Kind::Slow || (f.kind == Kind::Collapse && f.flows <= 2);
                slows
                    && f.pair.has(*a, *b)
                    && f.engine.is_none_or(|e| e == Engine::Sm)
                    && f.way.is_none_or(|w| w == Way::Write)
                    && f.memory.is_none()
                    && bytes >= f.from_bytes
            };
            let slow: f64 = self
                .fault
                .iter()
                .filter(meets)
                .filter_map(|f| f.rate)
                .product();
            if path == Path::P2p {
                narrow * slow
            } else {
                narrow
            }
        };
        gpu_pairs.iter().map(of).fold(1.0, f64::min)
    }
}

/// The GPU pairs between which data moves: around the ring, or along the group's sends.
fn gpu_pairs(parts: &[Contribution]) -> Vec<(usize, usize)> {
    let gpu = |rank: usize| parts.get(rank).map(|p| p.gpu);
    let ring = |rank: usize| vec![(rank + 1) % parts.len().max(1)];
    let to = |(rank, part): (usize, &Contribution)| match part.collective {
        Collective::Exchange => part.sent.iter().map(|(to, _)| *to).collect(),
        _ => ring(rank),
    };
    let one = |(rank, part): (usize, &Contribution)| {
        let peers: Vec<usize> = to((rank, part));
        peers
            .into_iter()
            .filter_map(|p| Some((part.gpu, gpu(p)?)))
            .filter(|(a, b)| a != b)
            .collect::<Vec<_>>()
    };
    parts.iter().enumerate().flat_map(one).collect()
}
