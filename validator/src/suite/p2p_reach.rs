//! Does peer access reach all of a GPU's memory? A peer's window may end, or begin again, at 256 MiB
//! or any other power of two, and small tests never get there. So one owner after the other gives
//! nearly all of its memory, and every peer tries the places where windows end.

mod judge;
mod places;
mod sweep;
#[cfg(test)]
mod tests;

use super::gate::gate;
use super::gpu_fault::during;
use super::p2p_integrity::{Engine, Kind, Memory, Way};
use super::seat::Seat;
use super::{Group, Machine, Test};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::gpu::{self, Buffer, GpuError, PeerAccess};
use crate::outcome::{Judgement, Outcome};
use crate::schedule::Pair;
use judge::{Reached, Swept, Told};
use std::time::Duration;
use sweep::{Local, sweep};

pub(super) const TEST: Test = Test {
    id: "p2p-reach",
    title: "Reach",
    proves: "peers reach places across nearly all of a GPU's memory, and each offset leads to its own place",
    level: Level::Standard,
    deadline: Duration::from_secs(90),
    mandatory: false,
    group: Group::Gpu,
    run,
};

/// `CUDA_ERROR_OUT_OF_MEMORY`
const OUT_OF_MEMORY: i32 = 2;

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = gate(machine, true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let locals = clique.gpus.iter().map(Local::new).collect::<Result<Vec<_>, _>>();
    let locals = locals.map_err(|e| during("machine", &e))?;
    let mut told = Told::default();
    for Local { seat: owner, .. } in &locals {
        if let Err(error) = of(machine, owner, &locals, &mut told) {
            told.broken.push(*during(&format!("GPU {}", owner.gpu.ordinal), &error));
        }
        if gpu::is_spoiled() {
            break;
        }
    }
    Ok(judge::judge(&told))
}

/// Everything with one owner.
fn of(machine: &Machine, owner: &Seat<'_>, locals: &[Local<'_>], told: &mut Told) -> Result<(), GpuError> {
    let n = owner.gpu.ordinal;
    let mut peers = Vec::new();
    for peer in locals.iter().filter(|p| p.seat.gpu.ordinal != n) {
        if peer.seat.gpu.can_access(owner.gpu)? {
            peers.push(peer);
        }
    }
    if peers.is_empty() {
        return Ok(());
    }
    machine.doing(&format!("GPU {n}: taking nearly all of its memory"));
    let Some(buffer) = nearly_all(owner)? else {
        let message = format!("GPU {n}: its memory is not gone over: others use nearly all of it");
        told.broken.push(Code::GpuInUse.finding(Severity::Warn, &format!("GPU {n}"), message));
        return Ok(());
    };
    let places = places::places(buffer.whole().bytes);
    told.reached.push(Reached { owner: n, bytes: buffer.whole().bytes, total: owner.gpu.memory_bytes });
    for peer in peers {
        let pair = Pair { from: peer.seat.gpu.ordinal, to: n };
        let access = match PeerAccess::one_way(peer.seat.gpu, owner.gpu) {
            Ok(access) => access,
            Err(error) if error.is_sticky() => return Err(error),
            Err(error) => {
                let message = format!("{pair}: not tried: peer access is refused: {error}");
                told.broken.push(Code::P2pRefused.finding(refusal(machine), &pair, message));
                continue;
            }
        };
        for (engine, way) in KINDS {
            let missed = sweep(machine, (peer, owner), (&buffer, &places), (engine, way))?;
            let kind = Kind { engine, way, memory: Memory::Plain };
            told.swept.push(Swept { pair, kind, places: places.len(), missed });
        }
        drop(access);
    }
    Ok(())
}

const KINDS: [(Engine, Way); 4] = [
    (Engine::Copy, Way::Write),
    (Engine::Sm, Way::Write),
    (Engine::Copy, Way::Read),
    (Engine::Sm, Way::Read),
];

/// Where small buffers could be reached, a refusal is about the size of this one.
fn refusal(machine: &Machine) -> Severity {
    if machine.outcome("p2p-capability") == Some(Outcome::Pass) { Severity::Fail } else { Severity::Info }
}

/// All memory that is free, or a little less where it lies in pieces; `None` where that is too little.
fn nearly_all(owner: &Seat<'_>) -> Result<Option<Buffer>, GpuError> {
    let (free, total) = owner.gpu.memory()?;
    let mut bytes = places::reach(free, total);
    while bytes >= places::LITTLE {
        match owner.gpu.alloc(bytes) {
            Err(error) if error.code() == Some(OUT_OF_MEMORY) => {
                bytes = bytes / 8 * 7 / places::BYTES * places::BYTES;
            }
            other => return other.map(Some),
        }
    }
    Ok(None)
}
