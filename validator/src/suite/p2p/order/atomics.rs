//! Two GPUs add to one counter at the same time, by atomic addition and by compare-and-swap; then all GPUs that reach a
//! GPU's memory add to one counter there.

use super::pingpong::{Player, player};
use super::{AtomicOperation, CounterResult, SharedCounter, ends};
use crate::schedule::Pair;
use crate::suite::shared::transfer::Memory;
use gpu::{Clique, GpuError, P2pAttribute};
use machine::GpuId;
use std::time::Duration;

/// Threads of a block, as the gpu layer launches these kernels.
const THREADS: u64 = 32;
/// Blocks, and additions of each thread. Each waits for its answer: 500 x 2 us over PCIe.
const ADD: (u32, u64) = (4, 500);
/// Fewer: of concurrent swaps only one succeeds.
const SWAP: (u32, u64) = (2, 64);
/// Milliseconds are needed; the compare-and-swap kernel gives up by itself after some seconds.
const HANG: Duration = Duration::from_secs(14);
/// The counter's offset: its own cache line, away from the mailbox, bytes.
const PLACE: u64 = 1024;

/// The results of counters in `to`'s memory, which is of this kind; `None` where atomics are not claimed. Access is on.
pub(super) fn count(
    clique: &Clique,
    players: &[Player<'_>],
    (pair, memory): (Pair, Memory),
) -> Result<Option<[CounterResult; 2]>, GpuError> {
    let (from, to) = ends(clique, pair)?;
    if from.p2p_attribute(P2pAttribute::NativeAtomics, to)? == 0 {
        return Ok(None);
    }
    let (peer, owner) = (player(players, pair.from)?, player(players, pair.to)?);
    let counted = [
        count_once((pair, memory), peer, owner, AtomicOperation::Add)?,
        count_once((pair, memory), peer, owner, AtomicOperation::CompareAndSwap)?,
    ];
    Ok(Some(counted))
}

/// The result of a counter of `owner` to which the GPU itself and all of `peers` add at the same time, by atomic additions.
/// `None` where fewer than two peers claim them: [`count`] has tried one. Access is on.
pub(super) fn count_all(
    clique: &Clique,
    players: &[Player<'_>],
    owner: GpuId,
    peers: &[GpuId],
) -> Result<Option<SharedCounter>, GpuError> {
    let mut claimed = Vec::new();
    for peer in peers {
        let (from, to) = ends(clique, Pair::new(*peer, owner))?;
        if from.p2p_attribute(P2pAttribute::NativeAtomics, to)? != 0 {
            claimed.push(*peer);
        }
    }
    if claimed.len() < 2 {
        return Ok(None);
    }
    let owning = player(players, owner)?;
    owning.clear()?;
    let counter = owning.memory.span(PLACE, 8)?;
    let (blocks, times) = ADD;
    let adding = claimed
        .iter()
        .map(|peer| player(players, *peer))
        .collect::<Result<Vec<_>, _>>()?;
    for it in adding.iter().copied().chain([owning]) {
        it.stream.atomic_add(counter, times, blocks)?;
    }
    let doing = format!("GPU {owner}: atomic additions by all its peers");
    for it in adding.iter().copied().chain([owning]) {
        it.stream.finish(&doing, HANG)?;
    }
    owning.stream.copy_out(owning.host.span(0, 8)?, counter)?;
    owning.stream.finish(&doing, HANG)?;
    let counted = u64::from(owning.host.word(0)) | u64::from(owning.host.word(1)) << 32;
    let gpus = claimed.len() as u64 + 1;
    Ok(Some(SharedCounter {
        owner,
        gpus,
        counted,
        expected: gpus * u64::from(blocks) * THREADS * times,
    }))
}

fn count_once(
    (pair, memory): (Pair, Memory),
    peer: &Player<'_>,
    owner: &Player<'_>,
    operation: AtomicOperation,
) -> Result<CounterResult, GpuError> {
    owner.clear()?;
    let counter = owner.memory.span(PLACE, 8)?;
    let (blocks, times) = if operation == AtomicOperation::Add {
        ADD
    } else {
        SWAP
    };
    // The peer begins because its path is longer.
    for it in [peer, owner] {
        match operation {
            AtomicOperation::Add => it.stream.atomic_add(counter, times, blocks)?,
            AtomicOperation::CompareAndSwap => it.stream.atomic_cas(counter, times, blocks)?,
        }
    }
    let doing = format!("{pair}: atomic additions");
    peer.stream.finish(&doing, HANG)?;
    owner.stream.finish(&doing, HANG)?;
    owner.stream.copy_out(owner.host.span(0, 8)?, counter)?;
    owner.stream.finish(&doing, HANG)?;
    let counted = u64::from(owner.host.word(0)) | u64::from(owner.host.word(1)) << 32;
    Ok(CounterResult {
        pair,
        memory,
        operation,
        counted,
        expected: 2 * u64::from(blocks) * THREADS * times,
    })
}
