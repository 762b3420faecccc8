//! One row in an arm's process: each placement is timed, and the results of the timed calls are checked. Each
//! call has its own part of the buffers with its own data, as far as there is room: in a row of more calls only
//! the last calls have one, and those before them share one. `check` handles the expected results.
//!
//! All timed calls are one series, as in nccl-tests: the first call of a series takes longer than the others, because
//! nothing is under way between the ranks yet, and the more so the slower the transport.

use super::check::DataCheck;
use super::layout::{Layout, places, shift};
use super::local_ranks::LocalRanks;
use super::messages::{Done, Fault};
use super::rank_gpu::{GUARD, RankGpu, SYNC_ROOM};
use super::watch::{calls_time_limit, wait};
use super::{Form, RowAsk};
use crate::nccl::{Placement, Timed};
use gpu::{Call, Group, Shape, Values};

/// The most calls that are prepared; more calls reuse them.
const MOST_PREPARED: u32 = 256;
/// Bytes for each rank in the call that synchronizes the ranks.
const SYNC_BYTES: u64 = 16;

/// Runs the row, with a seed for each placement; rows use `room` bytes of the buffers.
pub(super) fn row(
    local: &LocalRanks,
    ask: &RowAsk,
    seeds: [u64; 2],
    room: u64,
) -> Result<Done, Fault> {
    let run = RowRun::new(local, ask, room)?;
    let [out_of_place, in_place] = seeds;
    Ok(Done {
        out_of_place: run.placement(Placement::OutOfPlace, out_of_place)?,
        in_place: run.placement(Placement::InPlace, in_place)?,
    })
}

/// One row in this process.
struct RowRun<'t> {
    local: &'t LocalRanks,
    ask: &'t RowAsk,
    shape: Shape,
    room: u64,
    /// `None`: nothing is checked.
    values: Option<Values>,
}

/// Calls on one stream of each rank, between two of its events.
struct TimedCalls {
    events: usize,
    calls: u32,
}

impl<'t> RowRun<'t> {
    fn new(local: &'t LocalRanks, ask: &'t RowAsk, room: u64) -> Result<Self, Fault> {
        let shape = ask.shape(local.ranks);
        let room = room.min(local.room);
        if local.comms.is_empty() || shape.count == 0 || shape.bytes > room {
            return Err(Fault::broken(format!(
                "{} bytes of {room} were asked for",
                shape.bytes
            )));
        }
        let values = if ask.check {
            Some(values(ask, local.ranks)?)
        } else {
            None
        };
        Ok(Self {
            local,
            ask,
            shape,
            room,
            values,
        })
    }

    fn placement(&self, placement: Placement, seed: u64) -> Result<Timed, Fault> {
        let named = |fault: Fault| {
            let place = if placement == Placement::InPlace {
                "in place"
            } else {
                "out of place"
            };
            Fault {
                text: format!("{place}: {}", fault.text),
                ..fault
            }
        };
        let can = placement == Placement::OutOfPlace || self.ask.collective.checks_in_place();
        let timed = match self.values.filter(|_| can) {
            Some(values) => self.checked(placement, values, seed),
            None => self.unchecked(placement),
        };
        timed.map_err(named)
    }

    fn check(&self, placement: Placement, values: Values, seed: u64, calls: u32) -> DataCheck<'_> {
        let (local, ask, shape) = (self.local, self.ask, self.shape);
        DataCheck {
            local,
            ask,
            shape,
            values,
            placement,
            seed,
            calls: calls.into(),
        }
    }

    /// Times the calls; the last ones, which have parts of their own, use fresh data and are checked.
    fn checked(&self, placement: Placement, values: Values, seed: u64) -> Result<Timed, Fault> {
        let all = self.ask.iterations.max(1);
        let places = u32::try_from(places(self.shape.bytes, self.room)).unwrap_or(u32::MAX);
        if places < 2 && self.ask.form != Form::Plain {
            return Err(Fault::broken(
                "the buffers are too small for calls of another form",
            ));
        }
        if places < 2 {
            return self.checked_in_two_series(placement, values, seed);
        }
        let last = all.min(places - 1).min(MOST_PREPARED);
        let check = self.check(placement, values, seed, last);
        // The calls that are not checked use memory behind the others' and their guard band.
        let unchecked = check.end().saturating_add(GUARD);
        let other = self.call(placement, self.shape, unchecked)?;
        let mut timed = self.groups(placement, last)?;
        if self.ask.form == Form::Grouped {
            timed = vec![Group::merged(timed)?];
        }
        let _registered = if self.ask.form == Form::Registered {
            self.local.register()?
        } else {
            Vec::new()
        };
        check.prepare()?;
        let series = TimedCalls {
            events: 0,
            calls: all,
        };
        // They also synchronize the ranks, and NCCL connects the paths of this size, which a capture could not hold.
        self.enqueue(std::slice::from_ref(&other), self.ask.warmups.max(1))?;
        let graphs = if self.ask.form == Form::Captured {
            Some(self.local.capture(&timed)?)
        } else {
            None
        };
        self.record(&series, 0)?;
        self.enqueue(std::slice::from_ref(&other), all - last)?;
        match &graphs {
            Some(graphs) => self.local.launch(graphs)?,
            None => self.enqueue(&timed, u32::try_from(timed.len()).unwrap_or(u32::MAX))?,
        }
        self.record(&series, 1)?;
        wait(self.local, self.time_limit())?;
        let us = self.ms(&series)? * 1e3 / f64::from(all);
        Ok(Timed {
            us,
            wrong: Some(check.verify()?),
        })
    }

    /// The same where the buffers hold one call only: its data is prepared between two series.
    fn checked_in_two_series(
        &self,
        placement: Placement,
        values: Values,
        seed: u64,
    ) -> Result<Timed, Fault> {
        let all = self.ask.iterations.max(1);
        let last = TimedCalls {
            events: 1,
            calls: 1,
        };
        let first = TimedCalls {
            events: 0,
            calls: all - last.calls,
        };
        let check = self.check(placement, values, seed, last.calls);
        let (warm, before) = (
            self.warm_up(placement)?,
            self.groups(placement, first.calls)?,
        );
        // Prepared before the measurement: for small sizes nearly all of the time is the processor's.
        let (sync, timed) = (
            self.sync_call(placement)?,
            self.groups(placement, last.calls)?,
        );
        self.enqueue(&warm, self.ask.warmups.max(1))?;
        self.queue_timed(&first, &before)?;
        check.prepare()?;
        // This small call synchronizes the ranks again, which have drifted apart since the previous calls.
        self.local.enqueue(&sync)?;
        self.queue_timed(&last, &timed)?;
        wait(self.local, self.time_limit())?;
        let us = (self.ms(&first)? + self.ms(&last)?) * 1e3 / f64::from(all);
        Ok(Timed {
            us,
            wrong: Some(check.verify()?),
        })
    }

    fn unchecked(&self, placement: Placement) -> Result<Timed, Fault> {
        let all = TimedCalls {
            events: 0,
            calls: self.ask.iterations.max(1),
        };
        let (warm, timed) = (self.warm_up(placement)?, self.groups(placement, all.calls)?);
        self.enqueue(&warm, self.ask.warmups.max(1))?;
        self.queue_timed(&all, &timed)?;
        wait(self.local, self.time_limit())?;
        Ok(Timed {
            us: self.ms(&all)? * 1e3 / f64::from(all.calls),
            wrong: None,
        })
    }

    fn time_limit(&self) -> std::time::Duration {
        let calls = self
            .ask
            .warmups
            .max(1)
            .saturating_add(self.ask.iterations.max(1));
        calls_time_limit(self.shape.bytes, calls)
    }

    /// Calls before the measurement, in which NCCL sets up what it needs for this size.
    fn warm_up(&self, placement: Placement) -> Result<Vec<Group<'_>>, Fault> {
        self.groups(placement, self.ask.warmups.max(1))
    }

    fn groups(&self, placement: Placement, count: u32) -> Result<Vec<Group<'_>>, Fault> {
        let places = (0..count.min(MOST_PREPARED)).map(|n| shift(n, self.shape.bytes, self.room));
        places
            .map(|shift| self.call(placement, self.shape, shift))
            .collect()
    }

    /// A call of a few bytes, in memory behind all other parts and their guard band.
    fn sync_call(&self, placement: Placement) -> Result<Group<'_>, Fault> {
        let (ranks, element) = (self.local.ranks as u64, self.ask.data.bytes());
        let bytes = SYNC_BYTES.saturating_mul(ranks).min(SYNC_ROOM);
        let shape = self.ask.collective.shape(bytes, ranks, element);
        self.call(placement, shape, self.room.saturating_add(GUARD))
    }

    fn call(&self, placement: Placement, shape: Shape, shift: u64) -> Result<Group<'_>, Fault> {
        let RowAsk {
            collective,
            data,
            op,
            root,
            ..
        } = *self.ask;
        self.local.group(|gpu| {
            let layout = Layout::new(collective, shape, data.bytes(), gpu.rank, placement, shift);
            let (send, receive) = gpu.spans(&layout)?;
            Ok(Call {
                collective,
                send,
                receive,
                count: shape.count,
                data,
                op,
                root,
            })
        })
    }

    fn enqueue(&self, groups: &[Group<'_>], count: u32) -> Result<(), Fault> {
        groups
            .iter()
            .cycle()
            .zip(0..count)
            .try_for_each(|(group, _)| self.local.enqueue(group))
    }

    /// Queues calls between two events on each stream.
    fn queue_timed(&self, timed_calls: &TimedCalls, groups: &[Group<'_>]) -> Result<(), Fault> {
        if timed_calls.calls == 0 {
            return Ok(());
        }
        self.record(timed_calls, 0)?;
        self.enqueue(groups, timed_calls.calls)?;
        self.record(timed_calls, 1)
    }

    fn record(&self, timed_calls: &TimedCalls, which: usize) -> Result<(), Fault> {
        let record = |gpu: &RankGpu| {
            let event = gpu
                .events
                .get(timed_calls.events)
                .and_then(|pair| pair.get(which));
            event.map_or(Ok(()), |event| gpu.stream.record(event))
        };
        Ok(self.local.gpus.iter().try_for_each(record)?)
    }

    /// Milliseconds of timed calls: those of the slowest rank of this process, by its GPU's clock.
    fn ms(&self, timed_calls: &TimedCalls) -> Result<f64, Fault> {
        let mut slowest = 0.0_f64;
        for gpu in self.local.gpus.iter().filter(|_| timed_calls.calls > 0) {
            if let Some([begin, end]) = gpu.events.get(timed_calls.events) {
                slowest = slowest.max(end.ms_since(begin)?);
            }
        }
        Ok(slowest)
    }
}

/// Values whose result is exact.
pub(super) fn values(ask: &RowAsk, ranks: usize) -> Result<Values, Fault> {
    let op = ask.collective.reduces().then_some(ask.op);
    let known = u32::try_from(ranks)
        .ok()
        .and_then(|ranks| Values::exact(ask.data, op, ranks));
    known.ok_or_else(|| {
        let RowAsk { data, op, .. } = ask;
        Fault::broken(format!(
            "{op} of {data} over {ranks} ranks is not exact and cannot be checked"
        ))
    })
}
