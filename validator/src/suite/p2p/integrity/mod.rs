//! Whether data that one GPU sends to another arrives, and changes nothing else. Every ordered pair moves
//! fresh data by copy engine and by kernel, writing and reading; the owner checks its own memory, the host
//! checks samples, and all other memory must stay unchanged. Nothing is timed here.

mod bench;
mod checker;
mod closer;
mod crowd;
mod field;
mod ground;
mod judge;
mod level_plan;
mod results;
#[cfg(test)]
mod tests;
mod tried_table;

use crate::config::Level;
use crate::gpu::{self, Gpu, GpuError, PeerAccess};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::p2p::processes;
use crate::suite::p2p::processes::NOT_SUPPORTED;
use crate::suite::shared::gpu_fault::during;
use crate::suite::shared::room;
use crate::suite::shared::transfer::{Cell, Engine, Kind, Memory, Way};
use crate::suite::{Group, Machine, Test};
use bench::Bench;
use level_plan::Plan;
use results::{Access, All, Tried};
use std::time::Duration;

/// With more GPUs than this, other memory is checked only once for each pair, because its content shows whose data
/// it is anyway.
const MANY: usize = 16;

pub(in crate::suite) const TEST: Test = Test {
    id: "p2p-integrity",
    title: "Peer data",
    proves: "all data that a GPU writes to or reads from another arrives, and no other memory changes",
    level: Level::Quick,
    deadline: Duration::from_secs(60),
    mandatory: true,
    group: Group::Gpu,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    if let Some(none) = machine.no_gpus(true)? {
        return Ok(none);
    }
    let clique = machine.clique()?;
    let broken = |e: GpuError| during("machine", &e);
    if let Some(full) = room::full(clique, room::LEAST).map_err(broken)? {
        return Ok(Judgement::by(full));
    }
    // It starts while pairs are tried.
    let starting = machine.beside.begin(machine);
    machine.doing("preparing memory on every GPU");
    let asked = Plan::of(machine.config.validate.level);
    let mut bench = Bench::new(machine, clique, asked.clone()).map_err(broken)?;
    let wrong = bench.checkers().map_err(broken)?;
    let avoid = &machine.config.validate.avoid;
    let wanted = |(from, to): &(&Gpu, &Gpu)| !avoid.contains(&(from.id(), to.id()));
    let pairs = clique.pairs().filter(wanted).count();
    if !wrong.is_empty() {
        let summary = wrong.first().map(|f| f.message.clone()).unwrap_or_default();
        return Ok(Judgement::of(summary, wrong));
    }
    let mut more: Vec<Finding> = bench.plan.left_out(&asked).into_iter().collect();
    if bench.plan.memories.contains(&Memory::Mapped) {
        more.extend(bench.map().map_err(broken)?);
    }
    bench.lay_ground(clique, if starting { processes::CONTEXT } else { 0 }).map_err(broken)?;
    let mut tried = Vec::new();
    for (from, to) in clique.pairs().filter(wanted) {
        tried.push(bench.pair(from, to).map_err(broken)?);
        if gpu::is_spoiled() {
            break;
        }
    }
    let mut all = All { watched: bench.watched(), crowd: None };
    if !gpu::is_spoiled() {
        all.crowd = bench.crowd(clique, &mut tried, &mut more).map_err(broken)?;
        more.extend(bench.look_around(clique, &mut tried).map_err(broken)?);
    }
    Ok(judge::judge(&bench.plan, pairs, &tried, more, &all))
}

impl<'m> Bench<'m> {
    /// Wrong results of the GPUs' checkers.
    fn checkers(&self) -> Result<Vec<Finding>, GpuError> {
        let mut wrong = Vec::new();
        for station in &self.stations {
            self.machine.doing(&format!("GPU {}: testing the checker", station.gpu.id()));
            wrong.extend(checker::test(station, &mut self.nonces.borrow_mut())?);
        }
        Ok(wrong)
    }

    /// Adds mapped memory to every GPU, for all that may reach it; a refusal is a finding, and mapped memory
    /// is left out.
    fn map(&mut self) -> Result<Option<Finding>, GpuError> {
        let gpus: Vec<&Gpu> = self.stations.iter().map(|s| s.gpu).collect();
        let layout = self.plan.layout();
        let mut refused = None;
        for station in &mut self.stations {
            let peers = reaching(&gpus, station.gpu)?;
            self.machine.doing(&format!("GPU {}: mapping memory for its peers", station.gpu.id()));
            match station.map(layout, &peers) {
                Err(error) if error.is_sticky() => return Err(error),
                // One refused peer, which p2p-capability reports, must not stop the others.
                Err(_) => match station.map(layout, &enabling(&peers, station.gpu)?) {
                    Err(error) if error.is_sticky() => return Err(error),
                    Err(error) => refused = Some((station.gpu.id(), error)),
                    Ok(()) => {}
                },
                Ok(()) => {}
            }
        }
        if let Some((n, error)) = refused {
            self.stations.iter_mut().for_each(|station| station.mapped = None);
            self.plan.memories.retain(|m| *m != Memory::Mapped);
            // A driver without such memory does not refuse it.
            let none = error.code() == Some(NOT_SUPPORTED);
            let (severity, what) =
                if none { (Severity::Info, "is not supported") } else { (Severity::Fail, "is refused") };
            let message = format!("GPU {n}: mapped memory that its peers may use {what}: {error}");
            return Ok(Some(Code::P2pRefused.finding(severity, &format!("GPU {n}"), message)));
        }
        self.rest()?;
        Ok(None)
    }

    /// All transfers of one pair. An error that ends it early is recorded, and other pairs are still tried,
    /// with memory restored.
    fn pair(&self, from: &Gpu, to: &Gpu) -> Result<Tried, GpuError> {
        let pair = Pair { from: from.id(), to: to.id() };
        let mut tried = Tried { pair, access: Access::No, faults: Vec::new(), ended: None };
        if let Err(error) = self.transfers(from, to, &mut tried) {
            tried.ended = Some(during(&pair.to_string(), &error));
            if !gpu::is_spoiled() {
                let since = self.since.take();
                self.history.borrow_mut().extend(since);
                self.rest()?;
            }
        }
        Ok(tried)
    }

    fn transfers(&self, from: &Gpu, to: &Gpu, tried: &mut Tried) -> Result<(), GpuError> {
        self.control(tried)?;
        if !from.can_access(to)? {
            return Ok(());
        }
        let mut access = match PeerAccess::one_way(from, to) {
            Ok(access) => Some(access),
            Err(error) if error.is_sticky() => return Err(error),
            Err(error) => {
                tried.access = Access::Refused(error.to_string());
                return Ok(());
            }
        };
        tried.access = Access::On;
        let mut failed: Vec<Kind> = Vec::new();
        for alike in self.plan.kinds().chunk_by(|a, b| (a.memory, a.way) == (b.memory, b.way)) {
            for kind in alike {
                if kind.memory == Memory::Mapped {
                    // Mapped memory needs no enabled access, and must not benefit from it.
                    access = None;
                }
                // The same transfer in another kind of memory would prove nothing new.
                let known = failed.iter().any(|f| (f.engine, f.way) == (kind.engine, kind.way));
                if !known && !self.round(tried.pair, *kind, &mut tried.faults)? {
                    failed.push(*kind);
                }
            }
            if self.stations.len() <= MANY {
                self.strays(&mut tried.faults)?;
            }
        }
        drop(access);
        self.strays(&mut tried.faults)
    }

    /// With peer access off the driver copies through host memory, and the data must arrive: then any fault
    /// with peer access on is caused by peer access.
    fn control(&self, tried: &mut Tried) -> Result<(), GpuError> {
        let kind = Kind { engine: Engine::Staged, way: Way::Write, memory: Memory::Plain };
        let cell = Cell { pair: tried.pair, kind, bytes: (64 << 10) + 4, shift: (0, 0) };
        self.judge(cell, &mut tried.faults)?;
        Ok(())
    }
}

/// The GPUs that reach `owner`'s memory according to CUDA.
fn reaching<'g>(gpus: &[&'g Gpu], owner: &Gpu) -> Result<Vec<&'g Gpu>, GpuError> {
    let mut peers = Vec::new();
    for peer in gpus.iter().filter(|g| g.id() != owner.id()) {
        if peer.can_access(owner)? {
            peers.push(*peer);
        }
    }
    Ok(peers)
}

/// Those of `peers` for which access to `owner` can actually be enabled.
fn enabling<'g>(peers: &[&'g Gpu], owner: &Gpu) -> Result<Vec<&'g Gpu>, GpuError> {
    let mut good = Vec::new();
    for peer in peers {
        match PeerAccess::one_way(peer, owner) {
            Ok(_) => good.push(*peer),
            Err(error) if error.is_sticky() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(good)
}
