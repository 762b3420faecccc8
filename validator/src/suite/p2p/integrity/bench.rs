//! The transfers: prepared by both ends in their own memory, carried out by the acting GPU, then checked by
//! the target's owner, by the source's owner and by the host.

use super::field::{Field, Station, counts};
use super::level_plan::{GUARD, Plan};
use super::results::Sent;
use crate::gpu::pattern::{Counts, Nonces, Piece, Wrong, compare, pieces};
use crate::gpu::{Clique, GpuError, Span};
use crate::machine::GpuId;
use crate::schedule::Pair;
use crate::suite::Machine;
use crate::suite::shared::plot::{Changed, Plot};
use crate::suite::shared::transfer::{Cell, Engine, Fault, Kind, SAMPLE, Traces, What};
use std::cell::RefCell;

/// All GPUs, ready for transfers.
pub(super) struct Bench<'m> {
    pub(super) machine: &'m Machine,
    pub(super) stations: Vec<Station<'m>>,
    pub(super) plan: Plan,
    pub(super) nonces: RefCell<Nonces>,
    /// The seeds of the most recent transfers.
    pub(super) older: RefCell<Vec<u64>>,
    /// Transfers since all other memory was last checked.
    pub(super) since: RefCell<Vec<Past>>,
    /// The transfers before those.
    pub(super) history: RefCell<Vec<Past>>,
    /// What all pairs together sent.
    pub(super) sent: RefCell<Vec<Sent>>,
    /// What changed while all pairs moved data.
    pub(super) crowd_changes: RefCell<Vec<Changed>>,
    /// All other memory, from level standard on.
    pub(super) ground: Vec<Plot<'m>>,
}

/// A transfer without a fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub(super) cell: Cell,
    pub(super) seed: u64,
    pub(super) first: u64,
}

/// One transfer, prepared.
pub(super) struct Moved<'b, 'm> {
    pub(super) cell: Cell,
    pub(super) seed: u64,
    pub(super) source: Span<'b>,
    pub(super) target: Span<'b>,
    /// The number of the target's first word in its field; the pattern counts from there.
    pub(super) first: u64,
    pub(super) sender: &'b Station<'m>,
    pub(super) receiver: &'b Station<'m>,
    pub(super) from: &'b Field,
    pub(super) to: &'b Field,
}

/// What was found after a transfer.
pub(super) struct Seen {
    pub(super) data: Counts,
    below: Counts,
    above: Counts,
    source: Counts,
    /// The host's own comparison of samples.
    host: Vec<(Counts, Piece)>,
}

impl<'m> Bench<'m> {
    /// Memory and queues for every GPU.
    pub(super) fn new(machine: &'m Machine, clique: &'m Clique, plan: Plan) -> Result<Self, GpuError> {
        let free = clique.gpus.iter().map(|g| Ok(g.memory()?.0)).collect::<Result<Vec<_>, GpuError>>()?;
        // The remainder is for the driver, which uses some for every context and mapping.
        let plan = plan.within(free.into_iter().min().unwrap_or_default() / 2);
        let layout = plan.layout();
        let stations = clique.gpus.iter().map(|g| Station::new(g, layout)).collect::<Result<_, _>>()?;
        let nonces = RefCell::new(Nonces::new());
        let bench = Self {
            machine,
            stations,
            plan,
            nonces,
            older: RefCell::default(),
            since: RefCell::default(),
            history: RefCell::default(),
            sent: RefCell::default(),
            crowd_changes: RefCell::default(),
            ground: Vec::new(),
        };
        bench.rest()?;
        Ok(bench)
    }

    pub(super) fn station(&self, gpu: GpuId) -> Result<&Station<'m>, GpuError> {
        self.stations.get(gpu.index()).ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
    }

    pub(super) fn nonce(&self) -> u64 {
        self.nonces.borrow_mut().next()
    }

    /// Fills every field of every GPU with fresh sentinels.
    pub(super) fn rest(&self) -> Result<(), GpuError> {
        for station in &self.stations {
            station.rest(&mut self.nonces.borrow_mut())?;
        }
        self.stations.iter().try_for_each(Station::wait)
    }

    /// All transfers of one kind; stops at the first that goes wrong. True when all went well.
    pub(super) fn round(&self, pair: Pair, kind: Kind, faults: &mut Vec<Fault>) -> Result<bool, GpuError> {
        for shift in &self.plan.shifts {
            for bytes in &self.plan.sizes {
                let cell = Cell { pair, kind, bytes: *bytes, shift: *shift };
                if !self.judge(cell, faults)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// One transfer, with a closer look if it goes wrong. True when it went well.
    pub(super) fn judge(&self, cell: Cell, faults: &mut Vec<Fault>) -> Result<bool, GpuError> {
        let moved = self.set_up(cell)?;
        self.carry(&moved)?;
        let seen = Self::look(&moved)?;
        let Some(what) = fault_of(&moved, &seen) else {
            self.tidy(&moved)?;
            return Ok(true);
        };
        let traces = self.traces(&moved, what, &seen)?;
        let place = faults.len();
        faults.push(Fault { cell, what, traces, times: None, amid: false });
        // Recorded now, in case the closer look hangs.
        let what = self.closer(&moved, what, &seen)?;
        self.rest()?;
        let times = if place == 0 { Some(self.again(cell)?) } else { None };
        if let Some(fault) = faults.get_mut(place) {
            (fault.what, fault.times) = (what, times);
        }
        Ok(false)
    }

    /// How many repetitions go wrong, the first transfer included.
    fn again(&self, cell: Cell) -> Result<(u32, u32), GpuError> {
        const TIMES: u32 = 4;
        let mut bad = 1;
        for _ in 0..TIMES {
            let moved = self.set_up(cell)?;
            self.carry(&moved)?;
            bad += u32::from(fault_of(&moved, &Self::look(&moved)?).is_some());
            self.rest()?;
        }
        Ok((bad, TIMES + 1))
    }

    /// Fresh data in the source; the target holds the sentinel.
    fn set_up(&self, cell: Cell) -> Result<Moved<'_, 'm>, GpuError> {
        let (sends, receives) = cell.ends();
        let (sender, receiver) = (self.station(sends)?, self.station(receives)?);
        let (from, to) = (sender.field(cell.kind.memory)?, receiver.field(cell.kind.memory)?);
        let layout = self.plan.layout();
        let begin = layout.target() + cell.shift.1;
        let source = from.part(layout.source() + cell.shift.0, cell.bytes)?;
        let target = to.part(begin, cell.bytes)?;
        let (seed, first) = (self.nonce(), begin / 4);
        sender.stream.fill(source, seed, first)?;
        sender.wait()?;
        // This overwrites what the last transfer wrote there.
        receiver.wait()?;
        Ok(Moved { cell, seed, source, target, first, sender, receiver, from, to })
    }

    /// The transfer itself.
    fn carry(&self, moved: &Moved<'_, 'm>) -> Result<(), GpuError> {
        let Moved { cell, source, target, .. } = moved;
        let doing = format!("{}: {cell}", cell.pair);
        self.machine.doing(&doing);
        let stream = &self.station(cell.pair.from)?.stream;
        match cell.kind.engine {
            Engine::Copy => stream.copy(*target, *source)?,
            Engine::Sm => stream.copy_sm(*target, *source)?,
            Engine::Staged => stream.copy_peer(*target, moved.receiver.gpu, *source, moved.sender.gpu)?,
        }
        stream.finish(&doing, cell.patience())
    }

    /// Each end checks its own memory, and the host checks samples of what arrived.
    fn look(moved: &Moved<'_, 'm>) -> Result<Seen, GpuError> {
        let Moved { seed, first, sender, receiver, to, .. } = moved;
        let (target, sentinel) = (moved.target, to.sentinel());
        let tallies = &receiver.tallies;
        receiver.stream.check(target, *first, *seed, sentinel, &tallies.data)?;
        let (below, above) = moved.guards()?;
        for (span, tally) in [(below, &tallies.below), (above, &tallies.above)] {
            let number = moved.number(span);
            receiver.stream.check(span, number, sentinel, *seed, tally)?;
        }
        let parts = pieces(target.bytes, &mut Nonces::from(*seed));
        receiver.fetch(target, &parts)?;
        sender.stream.check(moved.source, *first, *seed, moved.from.sentinel(), &sender.tallies.data)?;
        receiver.wait()?;
        sender.wait()?;
        let compared = |p: Piece| (compare(&p.words, first + p.place, *seed, sentinel), p);
        Ok(Seen {
            data: counts(&tallies.data),
            below: counts(&tallies.below),
            above: counts(&tallies.above),
            source: counts(&sender.tallies.data),
            host: receiver.fetched(&parts).into_iter().map(compared).collect(),
        })
    }

    /// The counts of the wrong memory, with a sample.
    fn traces(&self, moved: &Moved<'_, 'm>, what: What, seen: &Seen) -> Result<Traces, GpuError> {
        let (below, above) = moved.guards()?;
        let sentinel = moved.to.sentinel();
        let (station, span, first, seed, counts) = match what {
            What::Source => (moved.sender, moved.source, moved.first, moved.seed, seen.source),
            What::Beside if seen.below.wrong > 0 => {
                (moved.receiver, below, moved.number(below), sentinel, seen.below)
            }
            What::Beside => (moved.receiver, above, moved.number(above), sentinel, seen.above),
            _ => (moved.receiver, moved.target, moved.first, moved.seed, seen.data),
        };
        let place = counts.first.unwrap_or_default();
        let found = station.words(span, place, SAMPLE as u64)?.words;
        Ok(Traces { counts, address: span.address, first, seed, found, expected: None })
    }

    /// Restores the sentinel in source and target.
    fn tidy(&self, moved: &Moved<'_, 'm>) -> Result<(), GpuError> {
        let Moved { source, target, sender, receiver, from, to, .. } = moved;
        let source_first = (source.address - from.whole().address) / 4;
        sender.stream.fill(*source, from.sentinel(), source_first)?;
        receiver.stream.fill(*target, to.sentinel(), moved.first)?;
        let mut older = self.older.borrow_mut();
        older.push(moved.seed);
        let many = older.len().saturating_sub(16);
        older.drain(..many);
        let Moved { cell, seed, first, .. } = *moved;
        self.since.borrow_mut().push(Past { cell, seed, first });
        Ok(())
    }
}

impl Moved<'_, '_> {
    /// The guard bands before and behind the target.
    fn guards(&self) -> Result<(Span<'_>, Span<'_>), GpuError> {
        let at = self.target.address - self.to.whole().address;
        let behind = at + self.target.bytes;
        Ok((self.to.part(at - GUARD, GUARD)?, self.to.part(behind, GUARD)?))
    }

    /// The number of a span's first word within its field.
    pub(super) fn number(&self, span: Span<'_>) -> u64 {
        (span.address - self.to.whole().address) / 4
    }
}

/// The worst fault of a transfer, if any.
fn fault_of(moved: &Moved<'_, '_>, seen: &Seen) -> Option<What> {
    let words = moved.cell.bytes / 4;
    let guard = GUARD / 4;
    let looked = seen.data.looked == words
        && seen.source.looked == words
        && seen.below.looked == guard
        && seen.above.looked == guard;
    if !looked {
        return Some(What::Checker("a check did not read every word"));
    }
    if seen.data.wrong > 0 {
        return Some(What::Data(Wrong::Garbage));
    }
    if seen.host.iter().any(|(counts, piece)| !counts.all_right(piece.words.len() as u64)) {
        return Some(What::Checker("the owner's check passes, but the host's copy is wrong"));
    }
    let beside = seen.below.wrong > 0 || seen.above.wrong > 0;
    beside.then_some(What::Beside).or_else(|| (seen.source.wrong > 0).then_some(What::Source))
}
