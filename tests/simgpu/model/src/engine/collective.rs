//! Collectives on streams. One starts when the streams of all its ranks have reached it, including those of other
//! processes; it takes its time and writes its results. Its data between two GPUs meets the faults of transfers by kernels
//! that write to a peer.

use super::begin::StartOutcome;
use super::finish::{Effect, arriving, flipped};
use super::resolve::MemoryRange;
use super::{Engine, Running, StreamId, Work};
use crate::collective::{Call, Collective, Contribution, Path, agree, results};
use crate::content::Content;
use crate::extents::{Piece, after, cut};
use crate::fault::PeerTransfer;
use crate::links::Route;
use crate::scenario::{Engine as EngineKind, Fault, Kind, MemoryKind, Way};
use crate::status::{Result, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// How many bytes too many a collective writes (fault `nccl-beyond`).
const OVERRUN: u64 = 4;

/// The connection to a communicator's ranks in other processes.
pub trait RemoteRanks: Debug + Send {
    /// Sends them what a rank of this process contributes to collective `number`.
    fn send_contribution(&self, rank: usize, number: u64, part: &[u8]);
    /// What all ranks contributed to it, once all have.
    fn contributions(&self, number: u64) -> Option<Vec<Vec<u8>>>;
    /// Waits a moment for a message. Returns false if there is none.
    fn wait_for_message(&self) -> bool;
}

/// A communicator.
#[derive(Debug)]
pub struct Comm {
    /// Number of ranks.
    pub ranks: usize,
    /// The connection to the other processes, if they have some of the ranks.
    pub remote: Option<Box<dyn RemoteRanks>>,
    /// The ranks of this process.
    local_ranks: BTreeSet<usize>,
    /// Waiting streams, by the collective's number.
    waiting: BTreeMap<u64, Vec<StreamId>>,
}

impl Comm {
    /// A communicator that no rank has joined yet.
    #[must_use]
    pub fn new(ranks: usize, remote: Option<Box<dyn RemoteRanks>>) -> Self {
        Self {
            ranks,
            remote,
            local_ranks: BTreeSet::new(),
            waiting: BTreeMap::new(),
        }
    }
}

impl Engine {
    /// Lets a rank of this process join a communicator, which `make` creates for the first rank.
    pub fn join(&mut self, id: u64, rank: usize, make: impl FnOnce() -> Comm) {
        self.comms
            .entry(id)
            .or_insert_with(make)
            .local_ranks
            .insert(rank);
    }

    /// Lets a rank of this process leave its communicator. Collectives that its streams still had to do are dropped.
    pub fn leave_comm(&mut self, id: u64, rank: usize) {
        let own = |call: &Call| call.comm == id && call.rank == rank;
        for (n, stream) in &mut self.streams {
            let before = stream.queue.len();
            stream
                .queue
                .retain(|w| !matches!(w, Work::Collective(call) if own(call)));
            let waits = match &stream.running {
                Some(Running::AwaitRanks { call, .. }) => own(call),
                Some(Running::Hung(comm)) => *comm == Some((id, rank)),
                _ => false,
            };
            if waits {
                stream.running = None;
            }
            if waits || before > stream.queue.len() {
                self.ready.insert(*n);
            }
        }
        let left = self.comms.get_mut(&id).is_some_and(|comm| {
            comm.local_ranks.remove(&rank);
            comm.local_ranks.is_empty()
        });
        if left {
            self.comms.remove(&id);
        }
    }

    /// Called when a stream reaches a collective.
    pub(super) fn collective(
        &mut self,
        id: StreamId,
        by: usize,
        call: &Call,
    ) -> Result<StartOutcome> {
        let bytes = call
            .send
            .iter()
            .chain(&call.receive)
            .map(|(_, _, bytes)| *bytes)
            .max()
            .unwrap_or_default();
        let last = self
            .streams
            .get_mut(&id)
            .and_then(|s| s.last_call.replace(bytes));
        let (follows, alike) = (last.is_some(), last == Some(bytes));
        let part = Contribution {
            follows,
            alike,
            how: call.how,
            ..self.contribution(by, call)?
        };
        let key = (call.comm, call.number);
        let hangs = self
            .nccl_fault(Kind::NcclHang, std::slice::from_ref(&part))
            .is_some();
        let comm = self
            .comms
            .get_mut(&call.comm)
            .ok_or(Status::INVALID_HANDLE)?;
        if hangs {
            return Ok(StartOutcome::running(Running::Hung(Some((
                call.comm, call.rank,
            )))));
        }
        comm.waiting.entry(call.number).or_default().push(id);
        if let Some(remote) = &comm.remote {
            remote.send_contribution(call.rank, call.number, &part.encode());
        }
        self.set_running(
            id,
            Running::AwaitRanks {
                call: Box::new(call.clone()),
                part,
            },
        );
        self.start_if_complete(key);
        // Either it waits for other ranks, or all of them have just started.
        let running = self.streams.get_mut(&id).and_then(|s| s.running.take());
        Ok(running.map_or(StartOutcome::Done, StartOutcome::running))
    }

    /// A rank's contribution: the content of its buffers now.
    fn contribution(&mut self, by: usize, call: &Call) -> Result<Contribution> {
        let mut sent = Vec::new();
        for (to, address, bytes) in &call.send {
            sent.push((*to, self.contents(by, *address, *bytes)?));
        }
        for (_, address, bytes) in &call.receive {
            self.resolve(by, *address, *bytes, EngineKind::Sm)?;
        }
        let wanted = call
            .receive
            .iter()
            .map(|(from, _, bytes)| (*from, *bytes))
            .collect();
        let (collective, in_place) = (call.collective, call.in_place);
        Ok(Contribution {
            collective,
            in_place,
            sent,
            wanted,
            gpu: by,
            follows: false,
            alike: false,
            how: 0,
        })
    }

    fn contents(&mut self, by: usize, address: u64, bytes: u64) -> Result<Vec<Piece>> {
        Ok(match self.resolve(by, address, bytes, EngineKind::Sm)? {
            MemoryRange::Host { address, pinned } => self.fetch(address, bytes, pinned),
            MemoryRange::Gpu { spans, .. } => self.memory.read(&spans, by),
        })
    }

    /// Starts a collective on its streams, if all its ranks have reached it.
    pub(super) fn start_if_complete(&mut self, (comm, number): (u64, u64)) {
        let Some(known) = self.comms.get(&comm) else {
            return;
        };
        let Some(waiting) = known.waiting.get(&number) else {
            return;
        };
        let own = waiting
            .iter()
            .filter_map(|id| match self.streams.get(id)?.running.as_ref()? {
                Running::AwaitRanks { call, part } => Some((*id, call.clone(), part)),
                _ => None,
            });
        let own: Vec<_> = own.collect();
        let parts: Option<Vec<Contribution>> = match &known.remote {
            None if own.len() < known.ranks => return,
            None => (0..known.ranks)
                .map(|rank| {
                    own.iter()
                        .find(|(_, call, _)| call.rank == rank)
                        .map(|(_, _, part)| (*part).clone())
                })
                .collect(),
            Some(remote) => {
                let Some(all) = remote.contributions(number) else {
                    return;
                };
                all.iter()
                    .map(|bytes| Contribution::decode(bytes))
                    .collect()
            }
        };
        let own: Vec<_> = own.into_iter().map(|(id, call, _)| (id, call)).collect();
        if let Some(known) = self.comms.get_mut(&comm) {
            known.waiting.remove(&number);
        }
        match parts.filter(|parts| agree(parts)) {
            Some(parts) => self.start_collective(own, &parts),
            // As in the real library, each rank waits for something that the others do not do.
            None => own.into_iter().for_each(|(id, call)| self.hang(id, &call)),
        }
    }

    fn start_collective(&mut self, own: Vec<(StreamId, Box<Call>)>, parts: &[Contribution]) {
        let Some((_, call)) = own.first() else { return };
        let takes = self
            .scenario
            .collective_ns(call.comm, parts, call.path, call.channels);
        let mut turn = |kind| {
            let met = self.nccl_fault(kind, parts);
            met.and_then(|n| self.faults.turn(&self.scenario, n))
        };
        let beyond = turn(Kind::NcclBeyond);
        let (wrong, skipped) = (turn(Kind::NcclWrong), turn(Kind::NcclSkip).is_some());
        let ranks: Vec<_> = own.iter().map(|(_, call)| call.rank).collect();
        for ((id, call), got) in own.into_iter().zip(results(parts, &ranks)) {
            let by = parts.get(call.rank).map_or(0, |p| p.gpu);
            if call.path == Path::P2p {
                self.count_arrivals(parts, &call, by);
            }
            let is_hit = |fault: &Option<Fault>| {
                fault
                    .as_ref()
                    .is_some_and(|f| f.gpu.unwrap_or_default() == by)
            };
            let (hit, overruns) = (is_hit(&wrong), is_hit(&beyond));
            let mut left = Vec::new();
            for (pieces, (from, address, bytes)) in
                got.into_iter().zip(&call.receive).filter(|_| !skipped)
            {
                let pieces = if hit {
                    flipped(&pieces, bytes / 2)
                } else {
                    pieces
                };
                let Some(pieces) = self.arriving_pieces(parts, &call, *from, pieces) else {
                    return self.hang(id, &call);
                };
                if overruns && *bytes >= OVERRUN {
                    let more = after(&pieces, bytes - OVERRUN);
                    let behind = self.resolve(by, address + bytes, OVERRUN, EngineKind::Sm);
                    left.extend(behind.ok().map(|to| (to, more)));
                }
                left.extend(
                    self.resolve(by, *address, *bytes, EngineKind::Sm)
                        .ok()
                        .map(|to| (to, pieces)),
                );
            }
            let effect = Effect::WriteResults(left);
            let (begins, route) = (self.now + takes, Route::alone(takes, f64::INFINITY));
            self.set_running(
                id,
                Running::Moving {
                    begins,
                    left: 0.0,
                    route,
                    effect,
                },
            );
        }
    }

    /// Counts what reaches a rank over NVLinks: in an exchange from each sender, else from the previous rank on the ring.
    fn count_arrivals(&mut self, parts: &[Contribution], call: &Call, by: usize) {
        let ranks = parts.len() as u64;
        let received: u64 = call.receive.iter().map(|(_, _, bytes)| bytes).sum();
        let before = (call.rank + parts.len().saturating_sub(1)) % parts.len().max(1);
        let steps = |bytes: u64, times: u64| bytes * times * ranks.saturating_sub(1) / ranks.max(1);
        let arrivals = match call.collective {
            Collective::Exchange => call
                .receive
                .iter()
                .map(|(from, _, bytes)| (*from, *bytes))
                .collect(),
            Collective::AllReduce(..) => vec![(before, steps(received, 2))],
            Collective::AllGather => vec![(before, steps(received, 1))],
            Collective::ReduceScatter(..) => vec![(before, received * ranks.saturating_sub(1))],
            Collective::Broadcast(root) if root == call.rank => Vec::new(),
            Collective::Broadcast(_) | Collective::Reduce(..) => vec![(before, received)],
        };
        for (from, bytes) in arrivals {
            let Some(from) = parts
                .get(from)
                .map(|part| part.gpu)
                .filter(|from| *from != by)
            else {
                continue;
            };
            let meets = |fault: &Fault| {
                fault.engine != Some(EngineKind::Ce) && fault.way != Some(Way::Read)
            };
            if self.scenario.is_on_nvlink(from, by)
                && !self.scenario.faults(Kind::Detour, from, by).any(meets)
            {
                self.nvlink_bytes.add(from, by, bytes);
            }
        }
    }

    /// Makes a call on a stream hang.
    fn hang(&mut self, id: StreamId, call: &Call) {
        self.set_running(id, Running::Hung(Some((call.comm, call.rank))));
    }

    /// The first NCCL fault of this kind that these ranks meet.
    fn nccl_fault(&self, kind: Kind, parts: &[Contribution]) -> Option<usize> {
        if self.scenario.fault.iter().all(|f| f.kind != kind) {
            return None;
        }
        self.scenario
            .fault
            .iter()
            .position(|f| f.kind == kind && f.meets_call(parts))
    }

    /// Whether a message of another process has arrived that streams here wait for.
    pub(super) fn message_arrived(&self) -> bool {
        let waits = |comm: &Comm| {
            comm.remote
                .as_ref()
                .filter(|_| !comm.waiting.is_empty())
                .is_some_and(|w| w.wait_for_message())
        };
        self.comms.values().any(waits)
    }
}

impl Engine {
    /// What arrives at a rank of the `pieces` that it should receive: in an exchange from rank `from`, else from the
    /// previous rank on the ring. `None` if the call hangs. Data that goes through host memory meets no fault.
    fn arriving_pieces(
        &mut self,
        parts: &[Contribution],
        call: &Call,
        from: usize,
        pieces: Vec<Piece>,
    ) -> Option<Vec<Piece>> {
        let before = (call.rank + parts.len().saturating_sub(1)) % parts.len().max(1);
        let from = if call.collective == Collective::Exchange {
            from
        } else {
            before
        };
        let gpu = |rank: usize| parts.get(rank).map(|part| part.gpu);
        let (Some(a), Some(b)) = (gpu(from), gpu(call.rank)) else {
            return Some(pieces);
        };
        if a == b || call.path != Path::P2p {
            return Some(pieces);
        }
        let bytes = pieces.iter().map(|(n, _)| n).sum();
        let memory = if self.scenario.machine.vmm {
            MemoryKind::Vmm
        } else {
            MemoryKind::Alloc
        };
        // Every rank of a collective sends at the same time.
        let load = parts.len().saturating_sub(1);
        let transfer = PeerTransfer {
            load,
            ..PeerTransfer::write(a, b, memory, bytes)
        };
        let faults = self.faults.met_by(&self.scenario, &transfer);
        faults
            .iter()
            .try_fold(pieces, |pieces, fault| after_fault(fault, pieces, bytes))
    }
}

/// What a fault leaves of the data. On a ring only part of it crosses each link, here the second half.
fn after_fault(fault: &Fault, pieces: Vec<Piece>, bytes: u64) -> Option<Vec<Piece>> {
    let half = bytes / 2;
    let lost = |pieces: &[Piece]| cut(pieces, half);
    Some(match fault.kind {
        Kind::Hang => return None,
        Kind::Flip => flipped(&pieces, half),
        Kind::Zeros | Kind::Ones => {
            let mut first = lost(&pieces);
            let rest = if fault.kind == Kind::Ones {
                Content::ONES
            } else {
                Content::ZEROS
            };
            first.push((bytes - half, Some(rest)));
            first
        }
        Kind::Partial => cut(&pieces, arriving(fault, bytes)),
        Kind::Stale | Kind::Mirror | Kind::Offset => lost(&pieces),
        Kind::Victim if fault.instead => lost(&pieces),
        _ => pieces,
    })
}
