//! Do GPUs see each other's writes in order, and count together without loss? Two resident kernels
//! send each other data and then a flag, in turns: who sees the flag must see the data. And two GPUs
//! add to one counter at the same time, where the driver says that this works. Programs that signal
//! each other through peer memory, as NCCL does, rely on both.

mod atomics;
mod judge;
mod late;
mod pingpong;
#[cfg(test)]
mod tests;

use super::gate::gate;
use super::gpu_fault::during;
use super::nccl;
use super::speed::Ways;
use super::{Group, Machine, Test};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::gpu::{self, Clique, Gpu, GpuError, PeerAccess, Round};
use crate::outcome::Judgement;
use crate::schedule::{Pair, circle};
use std::time::Duration;

pub(super) const TEST: Test = Test {
    id: "p2p-order",
    title: "Order and atomics",
    proves: "GPUs see each other's data before the flag that follows it, and lose no atomic addition",
    level: Level::Standard,
    deadline: Duration::from_secs(60),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// Rounds of one ping-pong: 0.3 s over PCIe, where one hop takes 1.5 us.
const ROUNDS: u64 = 100_000;

/// One ping-pong; `from` sends first.
#[derive(Debug)]
struct Played {
    pair: Pair,
    /// What `from` saw, and what `to` saw.
    sides: [Round; 2],
    /// Nanoseconds from sending to being seen, the mean of both directions.
    hop_ns: f64,
}

/// How GPUs add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adding {
    Add,
    CompareAndSwap,
}

/// What a counter came to at which `from` and its owner `to` added at the same time.
#[derive(Debug)]
struct Counted {
    pair: Pair,
    how: Adding,
    counted: u64,
    expected: u64,
}

/// All that was tried.
#[derive(Debug, Default)]
struct Told {
    played: Vec<Played>,
    counted: Vec<Counted>,
    /// Pairs with peer access for which atomics are not claimed.
    unclaimed: usize,
    /// Pairs whose access was refused, or whose test broke off.
    broken: Vec<Finding>,
}

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    // From here on no test wants all memory for itself.
    nccl::ahead(machine);
    let players = clique.gpus.iter().map(pingpong::Player::new).collect::<Result<Vec<_>, _>>();
    let players = players.map_err(|e| during("machine", &e))?;
    let mut told = Told::default();
    for matching in circle(clique.len()) {
        let (pairs, access) = open(clique, matching, &mut told).map_err(|e| during("machine", &e))?;
        machine.doing(&format!("flags after data: {}", names(&pairs)));
        match pingpong::play(&players, &pairs, ROUNDS) {
            Ok(played) => told.played.extend(played),
            Err(error) => told.broken.push(*during(&names(&pairs), &error)),
        }
        for pair in pairs {
            if !gpu::is_spoiled() {
                atomics(machine, clique, &players, pair, &mut told);
            }
        }
        drop(access);
        if gpu::is_spoiled() {
            break;
        }
    }
    let late = if told.broken.is_empty() && !gpu::is_spoiled() {
        let ways = Ways::new(machine, clique);
        late::late(clique, &players, &ways, &mut told).map_err(|e| during("machine", &e))?
    } else {
        Vec::new()
    };
    let line = late.first().map(|finding| finding.message.clone());
    let mut judgement = judge::judge(clique.len(), ROUNDS, &told).with(late);
    judgement.summary = line.unwrap_or(judgement.summary);
    Ok(judgement)
}

/// Both directions of one pair, one owner after the other.
fn atomics(
    machine: &Machine,
    clique: &Clique,
    players: &[pingpong::Player<'_>],
    pair: Pair,
    told: &mut Told,
) {
    for pair in [pair, pair.back()] {
        machine.doing(&format!("{pair}: atomic additions"));
        match atomics::count(clique, players, pair) {
            Ok(None) => told.unclaimed += 1,
            Ok(Some(counted)) => told.counted.extend(counted),
            Err(error) => {
                told.broken.push(*during(&pair.to_string(), &error));
                return;
            }
        }
    }
}

/// Those pairs that reach each other, with access switched on. What is refused is told, and judged by
/// `p2p_capability`.
fn open(
    clique: &Clique,
    pairs: Vec<Pair>,
    told: &mut Told,
) -> Result<(Vec<Pair>, Vec<PeerAccess>), GpuError> {
    let mut opened = (Vec::new(), Vec::new());
    for pair in pairs {
        let (a, b) = ends(clique, pair)?;
        if !a.can_access(b)? || !b.can_access(a)? {
            continue;
        }
        match PeerAccess::both_ways(a, b) {
            Ok(access) => {
                opened.0.push(pair);
                opened.1.push(access);
            }
            Err(error) if error.is_sticky() => return Err(error),
            Err(error) => {
                let message = format!("{pair}: not tried: peer access is refused: {error}");
                told.broken.push(Code::P2pRefused.finding(Severity::Info, &pair, message));
            }
        }
    }
    Ok(opened)
}

/// Both GPUs of a pair.
fn ends(clique: &Clique, pair: Pair) -> Result<(&Gpu, &Gpu), GpuError> {
    let gpu = |n| clique.gpu(n).ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {n}")));
    Ok((gpu(pair.from)?, gpu(pair.to)?))
}

fn names(pairs: &[Pair]) -> String {
    pairs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
