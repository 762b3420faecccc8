//! Decides which faults a transfer meets.

use crate::links::Mover;
use crate::scenario::{Beside, Engine, Fault, Kind, MemoryKind, Scenario, Way};
use crate::status::Status;

/// A transfer directly from one GPU to another.
#[derive(Debug, Clone)]
pub struct PeerTransfer {
    /// The GPU that does the work.
    pub by: usize,
    /// The GPU that the data comes from.
    pub from: usize,
    /// The GPU that the data should arrive at.
    pub to: usize,
    /// The engine that does the work.
    pub engine: Engine,
    /// Whether the working GPU reads or writes its peer's memory.
    pub way: Way,
    /// How the peer's memory was allocated.
    pub memory: MemoryKind,
    /// Offset of the transfer in the peer's physical memory, in bytes.
    pub physical: u64,
    /// Size of the allocation that it is in, in bytes; `u64::MAX` if no fault asks.
    pub allocation: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Source and target addresses; 0 if there is none.
    pub addresses: [u64; 2],
    /// Whether the peer's memory belongs to another process or is shared with one.
    pub shared: bool,
    /// Number of other transfers between GPUs that are in progress.
    pub load: usize,
    /// Whether it is an atomic addition.
    pub atomic: bool,
    /// What the other transfers in progress are.
    pub beside: Vec<Mover>,
}

impl PeerTransfer {
    /// Kernels of GPU `from` write `bytes` bytes to the beginning of memory of GPU `to`, at aligned addresses, while nothing
    /// else is in progress. What differs is put into its place.
    #[must_use]
    pub const fn write(from: usize, to: usize, memory: MemoryKind, bytes: u64) -> Self {
        Self {
            by: from,
            from,
            to,
            engine: Engine::Sm,
            way: Way::Write,
            memory,
            physical: 0,
            allocation: u64::MAX,
            bytes,
            addresses: [0, 0],
            shared: false,
            load: 0,
            atomic: false,
            beside: Vec::new(),
        }
    }

    fn has_beside(&self, beside: Beside) -> bool {
        self.beside.iter().any(|other| match (beside, other) {
            (Beside::Engine, Mover::Peers(engine, _)) => *engine != self.engine,
            (Beside::Way, Mover::Peers(_, way)) => *way != self.way,
            (Beside::Host, other) => *other == Mover::Host,
            _ => false,
        })
    }
}

impl Fault {
    /// Whether `transfer` meets this fault, leaving aside whether it is the fault's turn.
    #[must_use]
    pub fn meets(&self, transfer: &PeerTransfer) -> bool {
        let PeerTransfer {
            physical,
            bytes,
            addresses,
            ..
        } = transfer;
        let from = self
            .hole
            .map_or(0, |hole| hole[0])
            .max(self.beyond_mib << 20);
        let to = self.hole.map_or(u64::MAX, |hole| hole[1]);
        let misaligned = |n: u64| addresses.iter().any(|at| !at.is_multiple_of(n));
        self.concerns(transfer)
            && physical + bytes > from
            && *physical < to
            && self.unaligned.is_none_or(misaligned)
    }

    /// Whether `transfer` meets this fault, leaving aside the address range and alignment.
    #[must_use]
    pub fn concerns(&self, transfer: &PeerTransfer) -> bool {
        let concerns = !matches!(
            self.kind,
            Kind::Narrow
                | Kind::Collapse
                | Kind::SwitchCollapse
                | Kind::Refuse
                | Kind::Capability
                | Kind::Missing
                | Kind::Init
                | Kind::Clock
                | Kind::OneByOne
                | Kind::NvlinkDown
                | Kind::NvlinkError
                | Kind::Stuck
                | Kind::WrongProduct
        );
        concerns
            && !self.kind.is_nccl()
            && self.pair.has(transfer.from, transfer.to)
            && self.engine.is_none_or(|e| e == transfer.engine)
            && self.way.is_none_or(|w| w == transfer.way)
            && self.memory.is_none_or(|m| m == transfer.memory)
            && self
                .allocated_below
                .is_none_or(|bytes| transfer.allocation < bytes)
            && transfer.bytes >= self.from_bytes
            && self.to_bytes.is_none_or(|most| transfer.bytes <= most)
            && self
                .no_multiple
                .is_none_or(|n| !transfer.bytes.is_multiple_of(n))
            && (transfer.shared || !self.shared)
            && transfer.load >= self.load
            && (transfer.atomic || !self.atomic)
            && self.beside.is_none_or(|beside| transfer.has_beside(beside))
    }

    /// Whether the call itself returns the error and the context survives.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.kind == Kind::Error && !Status(self.code).is_sticky()
    }
}

/// Counts how often each fault was met, for faults that do not apply every time.
#[derive(Debug, Default)]
pub struct FaultCounters {
    met: Vec<u64>,
}

impl FaultCounters {
    /// The faults that this transfer meets.
    pub fn met_by(&mut self, scenario: &Scenario, transfer: &PeerTransfer) -> Vec<Fault> {
        self.met.resize(scenario.fault.len(), 0);
        let mut now = Vec::new();
        for (fault, met) in scenario.fault.iter().zip(&mut self.met) {
            if !fault.is_refusal() && fault.meets(transfer) && is_due(fault, met) {
                now.push(fault.clone());
            }
        }
        now
    }

    /// The error that the driver call for this transfer returns, if a fault makes it fail.
    pub fn refusal(&mut self, scenario: &Scenario, transfer: &PeerTransfer) -> Option<Status> {
        self.met.resize(scenario.fault.len(), 0);
        let mut all = scenario
            .fault
            .iter()
            .zip(&mut self.met)
            .filter(|(f, _)| f.is_refusal());
        all.find_map(|(fault, met)| {
            (fault.meets(transfer) && is_due(fault, met)).then_some(Status(fault.code))
        })
    }

    /// Whether one of the next `n` products of two numbers on a GPU is wrong.
    pub fn wrong_product(&mut self, scenario: &Scenario, gpu: usize, n: u64) -> bool {
        self.met.resize(scenario.fault.len(), 0);
        let mut wrong = false;
        for (fault, met) in scenario.fault.iter().zip(&mut self.met) {
            if fault.kind == Kind::WrongProduct && fault.gpu == Some(gpu) {
                let before = *met / fault.every.max(1);
                *met = met.saturating_add(n);
                wrong |= *met / fault.every.max(1) > before;
            }
        }
        wrong
    }

    /// Counts that fault number `n` was met, and returns the fault if it is its turn.
    pub fn turn(&mut self, scenario: &Scenario, n: usize) -> Option<Fault> {
        self.met.resize(scenario.fault.len(), 0);
        let (fault, met) = scenario.fault.get(n).zip(self.met.get_mut(n))?;
        is_due(fault, met).then(|| fault.clone())
    }
}

fn is_due(fault: &Fault, met: &mut u64) -> bool {
    let place = *met % fault.every;
    *met += 1;
    place + fault.burst >= fault.every
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(every: u64, burst: u64) -> String {
        let text =
            format!("[[fault]]\nkind = \"slow\"\nrate = 0.5\nevery = {every}\nburst = {burst}\n");
        let text = crate::scenario::tests::machine("epyc-8x4090", &text);
        let (scenario, mut faults) = (Scenario::parse(&text).unwrap(), FaultCounters::default());
        (0..8)
            .map(|_| {
                if faults.turn(&scenario, 0).is_some() {
                    'x'
                } else {
                    '.'
                }
            })
            .collect()
    }

    #[test]
    fn every_and_burst_decide_which_transfers_are_affected() {
        assert_eq!(
            [turns(1, 1), turns(4, 1), turns(4, 2)],
            ["xxxxxxxx", "...x...x", "..xx..xx"]
        );
    }
}
