//! All memory of all GPUs that no transfer uses, while pairs are tried: it holds a pattern that must not
//! change, to catch stray writes. Only its owner may use it, so that peer access costs nothing more for it.

use super::bench::{Bench, Past};
use super::results::{Access, Tried};
use crate::gpu::pattern::origin;
use crate::gpu::{Clique, GpuError, PeerAccess, is_spoiled};
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::shared::plot::{Changed, Plot, Share, changed, fill_all};
use crate::suite::shared::transfer::{Cell, Engine, Fault, Kind, Memory, SAMPLE, Traces, Way, What};

/// With more pairs than this, the cause of a change that shows no transfer's data is not searched for.
const SEARCHED: usize = 8 * 7;

impl<'m> Bench<'m> {
    /// Takes all free memory except `besides` bytes of each GPU, where the plan asks for it.
    pub(super) fn lay_ground(&mut self, clique: &'m Clique, besides: u64) -> Result<(), GpuError> {
        if !self.plan.ground {
            return Ok(());
        }
        self.machine.doing("allocating all other memory of every GPU");
        self.ground = match Plot::take_all(clique, Memory::Mapped, besides) {
            Err(error) if error.is_sticky() => return Err(error),
            // A driver without virtual memory functions still has ordinary allocations.
            Err(_) => Plot::take_all(clique, Memory::Plain, besides)?,
            Ok(plots) => plots,
        };
        fill_all(&self.ground, &mut self.nonces.borrow_mut())
    }

    /// How much of each GPU's memory was watched: ground and fields.
    pub(super) fn watched(&self) -> Vec<Share> {
        let fields = self.plan.layout().bytes().saturating_mul(self.plan.memories.len() as u64);
        self.ground.iter().map(Plot::share).map(|s| Share { bytes: s.bytes + fields, ..s }).collect()
    }

    /// Changes in the ground, as faults of the pairs that caused them.
    pub(super) fn look_around(&self, clique: &Clique, tried: &mut [Tried]) -> Result<Vec<Finding>, GpuError> {
        if is_spoiled() {
            return Ok(Vec::new());
        }
        self.machine.doing("checking all other memory of every GPU");
        let mut findings = Vec::new();
        let mut unknown = Vec::new();
        for it in changed(&self.ground)?.into_iter().chain(self.crowd_changes.take()) {
            match self.whose(&it) {
                Some((cell, sure)) => blame(tried, stray(&it, cell, sure)),
                None => unknown.push(it),
            }
        }
        if !unknown.is_empty() {
            fill_all(&self.ground, &mut self.nonces.borrow_mut())?;
            let cell = self.search(clique, tried)?;
            for it in unknown {
                match cell {
                    Some(cell) => blame(tried, stray(&it, cell, false)),
                    None => findings.push(unattributed(&it)),
                }
            }
        }
        Ok(findings)
    }

    /// The transfer whose data is there.
    fn whose(&self, it: &Changed) -> Option<(Cell, bool)> {
        let of = |past: &Past| {
            let meant = past.first..past.first + past.cell.bytes / 4;
            origin(&it.found, past.seed, &meant).map(|_| past.cell)
        };
        if let Some(cell) = self.history.borrow().iter().find_map(of) {
            return Some((cell, true));
        }
        let words = self.plan.layout().area() / 4;
        let sent = self.sent.borrow();
        let (from, number) =
            sent.iter().find_map(|s| Some((s.gpu, origin(&it.found, s.seed, &(0..words))?)))?;
        let kind = Kind { engine: Engine::Sm, way: Way::Write, memory: Memory::Plain };
        Some((Cell { pair: self.sent_to(from, number), kind, bytes: 4, shift: (0, 0) }, false))
    }

    /// The pair that repeats the fault when it runs alone.
    fn search(&self, clique: &Clique, tried: &[Tried]) -> Result<Option<Cell>, GpuError> {
        let on: Vec<_> = tried.iter().filter(|t| t.access == Access::On).map(|t| t.pair).collect();
        for pair in on.iter().take(if on.len() > SEARCHED { 0 } else { SEARCHED }) {
            let (Some(from), Some(to)) = (clique.gpu(pair.from), clique.gpu(pair.to)) else { continue };
            let access = PeerAccess::one_way(from, to)?;
            for kind in self.plan.kinds().into_iter().filter(|kind| kind.memory == Memory::Plain) {
                let cell = |bytes: &u64| Cell { pair: *pair, kind, bytes: *bytes, shift: (0, 0) };
                for bytes in &self.plan.sizes {
                    self.judge(cell(bytes), &mut Vec::new())?;
                }
                let mut beside = Vec::new();
                self.strays(&mut beside)?;
                if !beside.is_empty() || !changed(&self.ground)?.is_empty() {
                    return Ok(self.plan.sizes.last().map(cell));
                }
            }
            drop(access);
        }
        Ok(None)
    }
}

fn blame(tried: &mut [Tried], fault: Fault) {
    let pair: Pair = fault.cell.pair;
    if let Some(tried) = tried.iter_mut().find(|t| t.pair == pair) {
        tried.faults.push(fault);
    }
}

fn stray(it: &Changed, cell: Cell, sure: bool) -> Fault {
    let found = it.found.iter().copied().take(SAMPLE).collect();
    let (address, first, seed) = (it.place.address, it.first, it.seed);
    let traces = Traces { counts: it.counts, address, first, seed, found, expected: None };
    Fault { cell, what: What::Stray { gpu: it.gpu, sure }, traces, times: None, amid: false }
}

fn unattributed(it: &Changed) -> Finding {
    let message = format!(
        "GPU {}: unused memory changed while pairs were tried, and no pair repeats it alone: {} words",
        it.gpu, it.counts.wrong
    );
    let place = it.counts.first.unwrap_or_default();
    let words: Vec<_> = it.found.iter().take(SAMPLE).map(|w| format!("{w:08x}")).collect();
    let seen = format!("first at {:#x}: found {}", it.place.address.wrapping_add(place * 4), words.join(" "));
    Code::P2pStray.finding(Severity::Fail, &format!("GPU {}", it.gpu), message).seen(seen)
}
