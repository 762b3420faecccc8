//! The memory of all GPUs that no transfer uses. While pairs are tried it holds a pattern that must not change, to
//! catch stray writes. It is not mapped for peers, so that enabling peer access takes no longer.

use super::bench::{IntegrityBench, PastTransfer};
use super::results::{AccessState, PairResult};
use crate::schedule::Pair;
use crate::suite::shared::held_memory::{
    ChangedMemory, HeldMemory, MemoryShare, fill_all, find_changes,
};
use crate::suite::shared::transfer::{
    Circumstance, Direction, Engine, Fault, FaultKind, Memory, SAMPLE, Traces, Transfer,
    TransferKind,
};
use gpu::pattern::origin;
use gpu::{Clique, GpuError, PeerAccess, is_cuda_lost};
use outcome::finding::{Code, Finding, Severity};

/// With more pairs than this, pairs are not repeated to find the cause of a change that shows no transfer's data.
const SEARCHED: usize = 8 * 7;

impl<'m> IntegrityBench<'m> {
    /// Takes all free memory except `besides` bytes of each GPU, where the plan asks for it.
    pub(super) fn hold_unused_memory(
        &mut self,
        clique: &'m Clique,
        besides: u64,
    ) -> Result<(), GpuError> {
        if !self.plan.watch_unused {
            return Ok(());
        }
        self.context
            .doing("allocating all other memory of every GPU");
        self.unused_memory = match HeldMemory::take_all(clique, Memory::Mapped, besides) {
            Err(error) if error.is_sticky() => return Err(error),
            // A driver without virtual memory functions still has ordinary allocations.
            Err(_) => HeldMemory::take_all(clique, Memory::Plain, besides)?,
            Ok(memories) => memories,
        };
        fill_all(&self.unused_memory, &mut self.nonces.borrow_mut())
    }

    /// How much of each GPU's memory was watched: unused memory and buffers.
    pub(super) fn watched(&self) -> Vec<MemoryShare> {
        let buffers = self.plan.bytes();
        self.unused_memory
            .iter()
            .map(HeldMemory::share)
            .map(|s| MemoryShare {
                bytes: s.bytes + buffers,
                ..s
            })
            .collect()
    }

    /// Checks the unused memory; adds changes to the faults of the pairs that caused them, and returns the others.
    pub(super) fn check_unused_memory(
        &self,
        clique: &Clique,
        tried: &mut [PairResult],
    ) -> Result<Vec<Finding>, GpuError> {
        if is_cuda_lost() {
            return Ok(Vec::new());
        }
        self.context.doing("checking all other memory of every GPU");
        let mut findings = Vec::new();
        let mut unknown = Vec::new();
        for changed in find_changes(&self.unused_memory)?
            .into_iter()
            .chain(self.all_pairs_changes.take())
        {
            match self.find_sender(&changed) {
                Some((transfer, sure)) => attribute(tried, stray(&changed, transfer, sure)),
                None => unknown.push(changed),
            }
        }
        if !unknown.is_empty() {
            fill_all(&self.unused_memory, &mut self.nonces.borrow_mut())?;
            let transfer = self.find_by_repeating(clique, tried)?;
            for changed in unknown {
                match transfer {
                    Some(transfer) => attribute(tried, stray(&changed, transfer, false)),
                    None => findings.push(unattributed(&changed)),
                }
            }
        }
        Ok(findings)
    }

    /// The transfer whose data is found there; false if only its pair is certain.
    fn find_sender(&self, changed: &ChangedMemory) -> Option<(Transfer, bool)> {
        let of = |past: &PastTransfer| {
            let meant = past.first..past.first + past.transfer.bytes / 4;
            origin(&changed.found, past.seed, &meant).map(|_| past.transfer)
        };
        if let Some(transfer) = self.history.borrow().iter().find_map(of) {
            return Some((transfer, true));
        }
        let words = self.plan.layout(Memory::Plain).area() / 4;
        let sent = self.sent.borrow();
        let (from, number) = sent
            .iter()
            .find_map(|s| Some((s.gpu, origin(&changed.found, s.seed, &(0..words))?)))?;
        let kind = TransferKind {
            engine: Engine::Sm,
            direction: Direction::Write,
            memory: Memory::Plain,
        };
        Some((
            Transfer {
                pair: self.sent_to(from, number),
                kind,
                bytes: 4,
                shift: (0, 0),
            },
            false,
        ))
    }

    /// Repeats the pairs one by one, and returns a transfer of the first pair after which memory has changed.
    fn find_by_repeating(
        &self,
        clique: &Clique,
        tried: &[PairResult],
    ) -> Result<Option<Transfer>, GpuError> {
        let on: Vec<_> = tried
            .iter()
            .filter(|t| t.access == AccessState::On)
            .map(|t| t.pair)
            .collect();
        for pair in on
            .iter()
            .take(if on.len() > SEARCHED { 0 } else { SEARCHED })
        {
            let (Some(from), Some(to)) = (clique.gpu(pair.from), clique.gpu(pair.to)) else {
                continue;
            };
            let access = PeerAccess::one_way(from, to)?;
            for kind in self
                .plan
                .kinds()
                .into_iter()
                .filter(|kind| kind.memory == Memory::Plain)
            {
                let transfer = |bytes: &u64| Transfer {
                    pair: *pair,
                    kind,
                    bytes: *bytes,
                    shift: (0, 0),
                };
                for bytes in &self.plan.sizes {
                    self.try_transfer(transfer(bytes), &mut Vec::new())?;
                }
                let mut beside = Vec::new();
                self.find_strays(&mut beside)?;
                if !beside.is_empty() || !find_changes(&self.unused_memory)?.is_empty() {
                    return Ok(self.plan.sizes.last().map(transfer));
                }
            }
            drop(access);
        }
        Ok(None)
    }
}

fn attribute(tried: &mut [PairResult], fault: Fault) {
    let pair: Pair = fault.transfer.pair;
    if let Some(tried) = tried.iter_mut().find(|t| t.pair == pair) {
        tried.faults.push(fault);
    }
}

fn stray(changed: &ChangedMemory, transfer: Transfer, sure: bool) -> Fault {
    let found = changed.found.iter().copied().take(SAMPLE).collect();
    let (address, first, seed) = (changed.place.address, changed.first, changed.seed);
    let traces = Traces {
        counts: changed.counts,
        address,
        first,
        seed,
        found,
        expected: None,
    };
    Fault {
        transfer,
        what: FaultKind::Stray {
            gpu: changed.gpu,
            sure,
        },
        traces,
        times: None,
        circumstance: Circumstance::Alone,
    }
}

fn unattributed(changed: &ChangedMemory) -> Finding {
    let message = format!(
        "GPU {}: unused memory changed while pairs were tried, and no pair repeats it alone: {} words",
        changed.gpu, changed.counts.wrong
    );
    let place = changed.counts.first.unwrap_or_default();
    let words: Vec<_> = changed
        .found
        .iter()
        .take(SAMPLE)
        .map(|w| format!("{w:08x}"))
        .collect();
    let seen = format!(
        "first at {:#x}: found {}",
        changed.place.address.wrapping_add(place * 4),
        words.join(" ")
    );
    Code::P2pStray
        .finding(Severity::Fail, changed.gpu, message)
        .seen(seen)
}
