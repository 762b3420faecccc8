//! One row in an arm's process: each placement is timed, and the results of the timed calls are checked. Each
//! call has its own part of the buffers with its own data, as far as there is room: in a row of more calls only
//! the last calls have one. `check` handles the expected results.

use super::RowAsk;
use super::check::Check;
use super::layout::{Layout, places, shift};
use super::messages::{Done, Fault};
use super::seat::{GUARD, STEP, Seat};
use super::team::Team;
use super::watch::{patience, wait};
use crate::gpu::{Call, Group, Shape, Values};
use crate::nccl::{Placement, Timed};

/// The most calls that are prepared; more calls reuse them.
const READY: u32 = 256;
/// Bytes for each rank in the call that synchronizes the ranks.
const SMALL: u64 = 16;

/// Runs the row, with a seed for each placement; rows use `room` bytes of the buffers.
pub(super) fn row(team: &Team, ask: &RowAsk, seeds: [u64; 2], room: u64) -> Result<Done, Fault> {
    let task = Task::new(team, ask, room)?;
    let [out_of_place, in_place] = seeds;
    Ok(Done {
        out_of_place: task.placement(Placement::OutOfPlace, out_of_place)?,
        in_place: task.placement(Placement::InPlace, in_place)?,
    })
}

struct Task<'t> {
    team: &'t Team,
    ask: &'t RowAsk,
    shape: Shape,
    room: u64,
    /// `None`: nothing is checked.
    values: Option<Values>,
}

/// Calls on one stream of each rank, between two of its events.
struct Burst {
    events: usize,
    calls: u32,
}

impl<'t> Task<'t> {
    fn new(team: &'t Team, ask: &'t RowAsk, room: u64) -> Result<Self, Fault> {
        let shape = ask.shape(team.ranks);
        let room = room.min(team.room);
        if team.comms.is_empty() || shape.count == 0 || shape.bytes > room {
            return Err(Fault::broken(format!("{} bytes of {room} were asked for", shape.bytes)));
        }
        let values = if ask.check { Some(values(ask, team.ranks)?) } else { None };
        Ok(Self { team, ask, shape, room, values })
    }

    fn placement(&self, placement: Placement, seed: u64) -> Result<Timed, Fault> {
        let named = |fault: Fault| {
            let place = if placement == Placement::InPlace { "in place" } else { "out of place" };
            Fault { text: format!("{place}: {}", fault.text), ..fault }
        };
        let can = placement == Placement::OutOfPlace || self.ask.collective.checks_in_place();
        let timed = match self.values.filter(|_| can) {
            Some(values) => self.checked(placement, values, seed),
            None => self.unchecked(placement),
        };
        timed.map_err(named)
    }

    /// Times the calls; the last ones, which have parts of their own, use fresh data and are checked.
    fn checked(&self, placement: Placement, values: Values, seed: u64) -> Result<Timed, Fault> {
        let all = self.ask.iterations.max(1);
        let room = u32::try_from(places(self.shape.bytes, self.room)).unwrap_or(u32::MAX);
        let last = Burst { events: 1, calls: all.min(room).min(READY) };
        let first = Burst { events: 0, calls: all - last.calls };
        let check = Check {
            team: self.team,
            ask: self.ask,
            shape: self.shape,
            values,
            placement,
            seed,
            calls: last.calls.into(),
        };
        let (warm, before) = (self.warm_up(placement)?, self.groups(placement, first.calls)?);
        // Prepared before the measurement: for small sizes nearly all of the time is the processor's.
        let (step, timed) = (self.step(placement)?, self.groups(placement, last.calls)?);
        self.enqueue(&warm, self.ask.warmups.max(1))?;
        self.burst(&first, &before)?;
        check.prepare()?;
        // This small call synchronizes the ranks again, which have drifted apart since the previous calls.
        self.team.enqueue(&step)?;
        self.burst(&last, &timed)?;
        wait(self.team, self.patience())?;
        let us = (self.ms(&first)? + self.ms(&last)?) * 1e3 / f64::from(all);
        Ok(Timed { us, wrong: Some(check.look()?) })
    }

    fn unchecked(&self, placement: Placement) -> Result<Timed, Fault> {
        let all = Burst { events: 0, calls: self.ask.iterations.max(1) };
        let (warm, timed) = (self.warm_up(placement)?, self.groups(placement, all.calls)?);
        self.enqueue(&warm, self.ask.warmups.max(1))?;
        self.burst(&all, &timed)?;
        wait(self.team, self.patience())?;
        Ok(Timed { us: self.ms(&all)? * 1e3 / f64::from(all.calls), wrong: None })
    }

    fn patience(&self) -> std::time::Duration {
        patience(self.shape.bytes, self.ask.warmups.max(1).saturating_add(self.ask.iterations.max(1)))
    }

    /// Calls before the measurement, in which NCCL sets up what it needs for this size.
    fn warm_up(&self, placement: Placement) -> Result<Vec<Group<'_>>, Fault> {
        self.groups(placement, self.ask.warmups.max(1))
    }

    fn groups(&self, placement: Placement, count: u32) -> Result<Vec<Group<'_>>, Fault> {
        let places = (0..count.min(READY)).map(|n| shift(n, self.shape.bytes, self.room));
        places.map(|shift| self.call(placement, self.shape, shift)).collect()
    }

    /// A call of a few bytes, in memory behind all other parts and their guard band.
    fn step(&self, placement: Placement) -> Result<Group<'_>, Fault> {
        let (ranks, element) = (self.team.ranks as u64, self.ask.data.bytes());
        let shape = self.ask.collective.shape(SMALL.saturating_mul(ranks).min(STEP), ranks, element);
        self.call(placement, shape, self.room.saturating_add(GUARD))
    }

    fn call(&self, placement: Placement, shape: Shape, shift: u64) -> Result<Group<'_>, Fault> {
        let RowAsk { collective, data, op, root, .. } = *self.ask;
        self.team.group(|seat| {
            let layout = Layout::new(collective, shape, data.bytes(), seat.rank, placement, shift);
            let (send, receive) = seat.spans(&layout)?;
            Ok(Call { collective, send, receive, count: shape.count, data, op, root })
        })
    }

    fn enqueue(&self, groups: &[Group<'_>], count: u32) -> Result<(), Fault> {
        groups.iter().cycle().zip(0..count).try_for_each(|(group, _)| self.team.enqueue(group))
    }

    /// Queues calls between two events on each stream.
    fn burst(&self, burst: &Burst, groups: &[Group<'_>]) -> Result<(), Fault> {
        if burst.calls == 0 {
            return Ok(());
        }
        self.record(burst, 0)?;
        self.enqueue(groups, burst.calls)?;
        self.record(burst, 1)
    }

    fn record(&self, burst: &Burst, which: usize) -> Result<(), Fault> {
        let record = |seat: &Seat| {
            let event = seat.events.get(burst.events).and_then(|pair| pair.get(which));
            event.map_or(Ok(()), |event| seat.stream.record(event))
        };
        Ok(self.team.seats.iter().try_for_each(record)?)
    }

    /// Milliseconds of a burst: those of the slowest rank of this process, by its GPU's clock.
    fn ms(&self, burst: &Burst) -> Result<f64, Fault> {
        let mut slowest = 0.0_f64;
        for seat in self.team.seats.iter().filter(|_| burst.calls > 0) {
            if let Some([begin, end]) = seat.events.get(burst.events) {
                slowest = slowest.max(end.ms_since(begin)?);
            }
        }
        Ok(slowest)
    }
}

/// Values whose result is exact.
pub(super) fn values(ask: &RowAsk, ranks: usize) -> Result<Values, Fault> {
    let op = ask.collective.reduces().then_some(ask.op);
    let known = u32::try_from(ranks).ok().and_then(|ranks| Values::exact(ask.data, op, ranks));
    known.ok_or_else(|| {
        let RowAsk { data, op, .. } = ask;
        Fault::broken(format!("{op} of {data} over {ranks} ranks is not exact and cannot be checked"))
    })
}
