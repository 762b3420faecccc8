//! The transfers. Both GPUs prepare their own memory, the acting GPU copies, then the owner of the target, the owner
//! of the source and the host check the result.

use super::level_plan::{GUARD, LevelPlan};
use super::results::SentPattern;
use super::simple_values;
use super::test_gpu::{SentinelBuffer, TestGpu, counts};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::protocol::Activity;
use crate::suite::shared::held_memory::{ChangedMemory, HeldMemory};
use crate::suite::shared::transfer::{
    Circumstance, Engine, Fault, FaultKind, SAMPLE, Traces, Transfer, TransferKind,
};
use gpu::pattern::{Counts, DataFault, Excerpt, Nonces, compare, pieces};
use gpu::{Clique, GpuError, Span};
use machine::GpuId;
use std::cell::RefCell;

/// All GPUs with the buffers for their transfers, and a record of past transfers.
pub(super) struct IntegrityBench<'m> {
    pub(super) context: &'m TestContext,
    pub(super) test_gpus: Vec<TestGpu<'m>>,
    pub(super) plan: LevelPlan,
    /// The words of a transfer of simple values.
    pub(super) simple: Vec<u32>,
    pub(super) nonces: RefCell<Nonces>,
    /// The seeds of the most recent transfers.
    pub(super) older: RefCell<Vec<u64>>,
    /// Transfers since all other memory was last checked.
    pub(super) since: RefCell<Vec<PastTransfer>>,
    /// Transfers after which all other memory has been checked.
    pub(super) history: RefCell<Vec<PastTransfer>>,
    /// The patterns that were sent while all pairs moved data.
    pub(super) sent: RefCell<Vec<SentPattern>>,
    /// Memory outside the targets that changed while all pairs moved data.
    pub(super) all_pairs_changes: RefCell<Vec<ChangedMemory>>,
    /// The memory that no transfer uses, from level standard on.
    pub(super) unused_memory: Vec<HeldMemory<'m>>,
}

/// A transfer without a fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct PastTransfer {
    pub(super) transfer: Transfer,
    pub(super) seed: u64,
    pub(super) first: u64,
}

/// A transfer whose source and target have been filled.
pub(super) struct PreparedTransfer<'b, 'm> {
    pub(super) transfer: Transfer,
    pub(super) seed: u64,
    pub(super) source: Span<'b>,
    pub(super) target: Span<'b>,
    /// The number of the target's first word in its buffer; the pattern counts from there.
    pub(super) first: u64,
    pub(super) sender: &'b TestGpu<'m>,
    pub(super) receiver: &'b TestGpu<'m>,
    pub(super) from: &'b SentinelBuffer,
    pub(super) to: &'b SentinelBuffer,
}

/// The counts of all checks after a transfer.
pub(super) struct TransferChecks {
    pub(super) data: Counts,
    below: Counts,
    above: Counts,
    source: Counts,
    /// The host's own comparison of samples.
    host: Vec<(Counts, Excerpt)>,
}

impl<'m> IntegrityBench<'m> {
    /// Allocates buffers and streams on every GPU; leaves out sizes that do not fit.
    pub(super) fn new(
        context: &'m TestContext,
        clique: &'m Clique,
        plan: LevelPlan,
    ) -> Result<Self, GpuError> {
        let free = clique
            .gpus
            .iter()
            .map(|g| Ok(g.memory()?.0))
            .collect::<Result<Vec<_>, GpuError>>()?;
        // The remainder is for the driver, which uses some for every context and mapping.
        let plan = plan.within(free.into_iter().min().unwrap_or_default() / 2);
        let test_gpus = clique
            .gpus
            .iter()
            .map(|g| TestGpu::new(g, &plan))
            .collect::<Result<_, _>>()?;
        let nonces = RefCell::new(Nonces::new());
        let bench = Self {
            context,
            test_gpus,
            simple: simple_values::all(plan.sizes.last().copied().unwrap_or_default()),
            plan,
            nonces,
            older: RefCell::default(),
            since: RefCell::default(),
            history: RefCell::default(),
            sent: RefCell::default(),
            all_pairs_changes: RefCell::default(),
            unused_memory: Vec::new(),
        };
        bench.reset_sentinels()?;
        Ok(bench)
    }

    pub(super) fn test_gpu(&self, gpu: GpuId) -> Result<&TestGpu<'m>, GpuError> {
        self.test_gpus
            .get(gpu.index())
            .ok_or_else(|| GpuError::Nonsense(format!("there is no GPU {gpu}")))
    }

    pub(super) fn nonce(&self) -> u64 {
        self.nonces.borrow_mut().next()
    }

    /// Fills every buffer of every GPU with fresh sentinels.
    pub(super) fn reset_sentinels(&self) -> Result<(), GpuError> {
        for test_gpu in &self.test_gpus {
            test_gpu.reset_sentinels(&mut self.nonces.borrow_mut())?;
        }
        self.test_gpus.iter().try_for_each(TestGpu::wait)
    }

    /// Tries all transfers of one kind, and stops at the first that goes wrong. True when all went well.
    pub(super) fn try_kind(
        &self,
        pair: Pair,
        kind: TransferKind,
        faults: &mut Vec<Fault>,
    ) -> Result<bool, GpuError> {
        for shift in &self.plan.shifts {
            for bytes in self.plan.sizes(kind.memory) {
                let transfer = Transfer {
                    pair,
                    kind,
                    bytes: *bytes,
                    shift: *shift,
                };
                if !self.try_transfer(transfer, faults)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Tries one transfer, and classifies its fault if it goes wrong. True when it went well.
    pub(super) fn try_transfer(
        &self,
        transfer: Transfer,
        faults: &mut Vec<Fault>,
    ) -> Result<bool, GpuError> {
        let prepared = self.prepare(transfer)?;
        self.execute(&prepared)?;
        let checks = Self::check(&prepared)?;
        let Some(what) = fault_of(&prepared, &checks) else {
            self.restore_sentinels(&prepared)?;
            return Ok(true);
        };
        let traces = self.traces(&prepared, what, &checks)?;
        let place = faults.len();
        faults.push(Fault {
            transfer,
            what,
            traces,
            times: None,
            circumstance: Circumstance::Alone,
        });
        // Recorded now, in case the classification hangs.
        let what = self.classify_fault(&prepared, what, &checks)?;
        self.reset_sentinels()?;
        let times = if place == 0 {
            Some(self.count_repeats(transfer)?)
        } else {
            None
        };
        if let Some(fault) = faults.get_mut(place) {
            (fault.what, fault.times) = (what, times);
        }
        Ok(false)
    }

    /// Repeats a transfer that went wrong: how many went wrong, of how many, the first included.
    fn count_repeats(&self, transfer: Transfer) -> Result<(u32, u32), GpuError> {
        const TIMES: u32 = 4;
        let mut bad = 1;
        for _ in 0..TIMES {
            let prepared = self.prepare(transfer)?;
            self.execute(&prepared)?;
            bad += u32::from(fault_of(&prepared, &Self::check(&prepared)?).is_some());
            self.reset_sentinels()?;
        }
        Ok((bad, TIMES + 1))
    }

    /// Fills the source with fresh data; the target already holds the sentinel.
    pub(super) fn prepare(&self, transfer: Transfer) -> Result<PreparedTransfer<'_, 'm>, GpuError> {
        let (sends, receives) = transfer.ends();
        let (sender, receiver) = (self.test_gpu(sends)?, self.test_gpu(receives)?);
        let (from, to) = (
            sender.buffer(transfer.kind.memory)?,
            receiver.buffer(transfer.kind.memory)?,
        );
        let layout = self.plan.layout(transfer.kind.memory);
        let begin = layout.target() + transfer.shift.1;
        let source = from.part(layout.source() + transfer.shift.0, transfer.bytes)?;
        let target = to.part(begin, transfer.bytes)?;
        let (seed, first) = (self.nonce(), begin / 4);
        sender.stream.fill(source, seed, first)?;
        sender.wait()?;
        // This overwrites what the last transfer wrote there.
        receiver.wait()?;
        Ok(PreparedTransfer {
            transfer,
            seed,
            source,
            target,
            first,
            sender,
            receiver,
            from,
            to,
        })
    }

    /// Copies the data, and waits.
    pub(super) fn execute(&self, prepared: &PreparedTransfer<'_, 'm>) -> Result<(), GpuError> {
        let PreparedTransfer {
            transfer,
            source,
            target,
            ..
        } = prepared;
        let doing = format!("{}: {transfer}", transfer.pair);
        self.context.doing(Activity {
            what: doing.clone(),
            pair: Some(transfer.pair),
        });
        let stream = &self.test_gpu(transfer.pair.from)?.stream;
        match transfer.kind.engine {
            Engine::Copy => stream.copy(*target, *source)?,
            Engine::Sm => stream.copy_sm(*target, *source)?,
            Engine::Staged => {
                stream.copy_peer(*target, prepared.receiver.gpu, *source, prepared.sender.gpu)?;
            }
        }
        stream.finish(&doing, transfer.patience())
    }

    /// Each GPU checks its own memory, and the host checks samples of what arrived.
    fn check(prepared: &PreparedTransfer<'_, 'm>) -> Result<TransferChecks, GpuError> {
        let PreparedTransfer {
            seed,
            first,
            sender,
            receiver,
            to,
            ..
        } = prepared;
        let (target, sentinel) = (prepared.target, to.sentinel());
        let tallies = &receiver.tallies;
        receiver
            .stream
            .check(target, *first, *seed, sentinel, &tallies.data)?;
        let (below, above) = prepared.guards()?;
        for (span, tally) in [(below, &tallies.below), (above, &tallies.above)] {
            let number = prepared.number(span);
            receiver
                .stream
                .check(span, number, sentinel, *seed, tally)?;
        }
        let parts = pieces(target.bytes, &mut Nonces::from(*seed));
        receiver.fetch(target, &parts)?;
        sender.stream.check(
            prepared.source,
            *first,
            *seed,
            prepared.from.sentinel(),
            &sender.tallies.data,
        )?;
        receiver.wait()?;
        sender.wait()?;
        let compared = |p: Excerpt| (compare(&p.words, first + p.place, *seed, sentinel), p);
        Ok(TransferChecks {
            data: counts(&tallies.data),
            below: counts(&tallies.below),
            above: counts(&tallies.above),
            source: counts(&sender.tallies.data),
            host: receiver.fetched(&parts).into_iter().map(compared).collect(),
        })
    }

    /// The counts of the wrong memory, with a sample.
    fn traces(
        &self,
        prepared: &PreparedTransfer<'_, 'm>,
        what: FaultKind,
        checks: &TransferChecks,
    ) -> Result<Traces, GpuError> {
        let (below, above) = prepared.guards()?;
        let sentinel = prepared.to.sentinel();
        let (test_gpu, span, first, seed, counts) = match what {
            FaultKind::Source => (
                prepared.sender,
                prepared.source,
                prepared.first,
                prepared.seed,
                checks.source,
            ),
            FaultKind::Beside if checks.below.wrong > 0 => (
                prepared.receiver,
                below,
                prepared.number(below),
                sentinel,
                checks.below,
            ),
            FaultKind::Beside => (
                prepared.receiver,
                above,
                prepared.number(above),
                sentinel,
                checks.above,
            ),
            _ => (
                prepared.receiver,
                prepared.target,
                prepared.first,
                prepared.seed,
                checks.data,
            ),
        };
        let place = counts.first.unwrap_or_default();
        let found = test_gpu.words(span, place, SAMPLE as u64)?.words;
        Ok(Traces {
            counts,
            address: span.address,
            first,
            seed,
            found,
            expected: None,
        })
    }

    /// Restores the sentinel in source and target.
    pub(super) fn restore_sentinels(
        &self,
        prepared: &PreparedTransfer<'_, 'm>,
    ) -> Result<(), GpuError> {
        let PreparedTransfer {
            source,
            target,
            sender,
            receiver,
            from,
            to,
            ..
        } = prepared;
        let source_first = (source.address - from.whole().address) / 4;
        sender.stream.fill(*source, from.sentinel(), source_first)?;
        receiver
            .stream
            .fill(*target, to.sentinel(), prepared.first)?;
        let mut older = self.older.borrow_mut();
        older.push(prepared.seed);
        let many = older.len().saturating_sub(16);
        older.drain(..many);
        let PreparedTransfer {
            transfer,
            seed,
            first,
            ..
        } = *prepared;
        self.since.borrow_mut().push(PastTransfer {
            transfer,
            seed,
            first,
        });
        Ok(())
    }
}

impl PreparedTransfer<'_, '_> {
    /// The guard bands before and behind the target.
    fn guards(&self) -> Result<(Span<'_>, Span<'_>), GpuError> {
        let at = self.target.address - self.to.whole().address;
        let behind = at + self.target.bytes;
        Ok((
            self.to.part(at - GUARD, GUARD)?,
            self.to.part(behind, GUARD)?,
        ))
    }

    /// The number of a span's first word within the target's buffer.
    pub(super) fn number(&self, span: Span<'_>) -> u64 {
        (span.address - self.to.whole().address) / 4
    }
}

/// The worst fault of a transfer, if any.
fn fault_of(prepared: &PreparedTransfer<'_, '_>, checks: &TransferChecks) -> Option<FaultKind> {
    let words = prepared.transfer.bytes / 4;
    let guard = GUARD / 4;
    let looked = checks.data.looked == words
        && checks.source.looked == words
        && checks.below.looked == guard
        && checks.above.looked == guard;
    if !looked {
        return Some(FaultKind::Checker("a check did not read every word"));
    }
    if checks.data.wrong > 0 {
        return Some(FaultKind::Data(DataFault::Garbage));
    }
    if checks
        .host
        .iter()
        .any(|(counts, piece)| !counts.all_right(piece.words.len() as u64))
    {
        return Some(FaultKind::Checker(
            "the owner's check passes, but the host's copy is wrong",
        ));
    }
    let beside = checks.below.wrong > 0 || checks.above.wrong > 0;
    beside
        .then_some(FaultKind::Beside)
        .or_else(|| (checks.source.wrong > 0).then_some(FaultKind::Source))
}
