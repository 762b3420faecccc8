//! One row in an arm's process: each placement is checked first, with fresh data, and then timed.

use super::RowAsk;
use super::element;
use super::layout::{Layout, Part, shift};
use super::seat::Seat;
use super::speech::{Done, Fault};
use super::team::Team;
use super::watch::{patience, wait};
use crate::collective::{Expected, FirstWrong, Placement, Shape, Timed, Values, Wrongs};
use crate::gpu::{Call, GpuError, Group, ValuesExpected};

/// What receive buffers hold before a call: no value's bytes, and not zero.
const POISON: u8 = 0xa5;
/// How many calls are made ready at most; more come back to the same places.
const READY: u32 = 256;

/// Does it, with a seed for each placement.
pub(super) fn row(team: &Team, ask: &RowAsk, seeds: [u64; 2]) -> Result<Done, Fault> {
    let task = Task::new(team, ask)?;
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
    /// `None`: nothing is checked.
    values: Option<Values>,
}

impl<'t> Task<'t> {
    fn new(team: &'t Team, ask: &'t RowAsk) -> Result<Self, Fault> {
        let shape = ask.collective.shape(ask.bytes, team.ranks as u64, ask.data.bytes());
        if team.comms.is_empty() || shape.count == 0 || shape.bytes > team.most_bytes {
            return Err(Fault::broken(format!(
                "{} bytes of {} were asked for",
                shape.bytes, team.most_bytes
            )));
        }
        let values = if ask.check { Some(values(ask, team.ranks)?) } else { None };
        Ok(Self { team, ask, shape, values })
    }

    fn placement(&self, placement: Placement, seed: u64) -> Result<Timed, Fault> {
        let named = |fault: Fault| {
            let place = if placement == Placement::InPlace { "in place" } else { "out of place" };
            Fault { text: format!("{place}: {}", fault.text), ..fault }
        };
        let can = placement == Placement::OutOfPlace || self.ask.collective.checks_in_place();
        let check = |values| self.check(values, placement, seed);
        let wrong = self.values.filter(|_| can).map(check).transpose().map_err(named)?;
        Ok(Timed { us: self.time(placement).map_err(named)?, wrong })
    }

    fn layout(&self, seat: &Seat, placement: Placement, shift: u64) -> Layout {
        let element = self.ask.data.bytes();
        Layout::new(self.ask.collective, self.shape, element, seat.rank, placement, shift)
    }

    fn call(&self, placement: Placement, shift: u64) -> Result<Group<'_>, Fault> {
        let RowAsk { collective, data, op, root, .. } = *self.ask;
        self.team.group(|seat| {
            let (send, receive) = seat.spans(&self.layout(seat, placement, shift))?;
            Ok(Call { collective, send, receive, count: self.shape.count, data, op, root })
        })
    }

    fn check(&self, values: Values, placement: Placement, seed: u64) -> Result<Wrongs, Fault> {
        let each = |act: &dyn Fn(&Seat) -> Result<(), GpuError>| {
            self.team.seats.iter().try_for_each(|seat| act(seat).map_err(|e| Fault::of(Some(seat.rank), &e)))
        };
        each(&|seat| {
            let all = Part { receive: true, offset: 0, bytes: self.shape.bytes };
            seat.stream.set_bytes(seat.span(all)?, POISON)?;
            let (send, _) = seat.spans(&self.layout(seat, placement, 0))?;
            seat.stream.fill_values(send, self.ask.data, values, seat.rank, seed, 0)
        })?;
        self.team.enqueue(&self.call(placement, 0)?)?;
        wait(self.team, patience(self.shape.bytes, 1))?;
        each(&|seat| self.look(seat, values, placement, seed))?;
        wait(self.team, patience(self.shape.bytes, 1))?;
        let mut wrongs = Wrongs::default();
        for seat in &self.team.seats {
            self.count(seat, values, placement, seed, &mut wrongs)?;
        }
        Ok(wrongs)
    }

    fn expected(&self, seat: &Seat) -> Vec<Expected> {
        self.ask.collective.expected(self.shape, self.team.ranks, seat.rank, self.ask.root)
    }

    /// Lets a GPU look at all that it should have received.
    fn look(&self, seat: &Seat, values: Values, placement: Placement, seed: u64) -> Result<(), GpuError> {
        let (data, op, ranks) = (self.ask.data, self.ask.op, self.team.ranks);
        let (_, receive) = seat.spans(&self.layout(seat, placement, 0))?;
        seat.tally.begin(&seat.stream)?;
        for Expected { at, count, first, from } in self.expected(seat) {
            let what = receive.part(at.saturating_mul(data.bytes()), count.saturating_mul(data.bytes()))?;
            let expect = ValuesExpected { from, op, ranks, seed, first, base: at };
            seat.stream.check_values(what, data, values, &expect, &seat.tally)?;
        }
        seat.tally.end(&seat.stream)
    }

    /// Adds what a GPU has found.
    fn count(
        &self,
        seat: &Seat,
        values: Values,
        placement: Placement,
        seed: u64,
        wrongs: &mut Wrongs,
    ) -> Result<(), Fault> {
        let expected = self.expected(seat);
        let all: u64 = expected.iter().map(|part| part.count).sum();
        let said = seat.tally.checked();
        if said.looked != all {
            let text = format!("rank {}: {} elements of {all} were looked at", seat.rank, said.looked);
            return Err(Fault::broken(text));
        }
        wrongs.looked += all;
        wrongs.count += said.wrong;
        let Some(element) = said.first.filter(|_| wrongs.first.is_none()) else { return Ok(()) };
        let part = expected.iter().find(|p| element.checked_sub(p.at).is_some_and(|k| k < p.count));
        let part = part.ok_or_else(|| Fault::broken(format!("element {element} is not there")))?;
        let (op, ranks) = (self.ask.op, self.team.ranks);
        let wanted = element::expected(*part, element - part.at, op, ranks, values, seed);
        let found = self.found(seat, placement, element)?;
        wrongs.first = Some(FirstWrong { rank: seat.rank, element, found, expected: wanted.to_string() });
        Ok(())
    }

    /// What a received element holds.
    fn found(&self, seat: &Seat, placement: Placement, element: u64) -> Result<String, Fault> {
        let bytes = self.ask.data.bytes();
        let fetch = || {
            let (_, receive) = seat.spans(&self.layout(seat, placement, 0))?;
            seat.fetch(receive.part(element.saturating_mul(bytes), bytes)?)
        };
        fetch().map_err(|error| Fault::of(Some(seat.rank), &error))?;
        wait(self.team, patience(bytes, 1))?;
        Ok(element::text(self.ask.data, seat.fetched()))
    }

    /// Microseconds of one call: of the slowest rank here, by its GPU's clock. The calls before the first
    /// event bring the ranks into step.
    fn time(&self, placement: Placement) -> Result<f64, Fault> {
        let (warmups, iterations) = (self.ask.warmups.max(1), self.ask.iterations.max(1));
        // Ready before the clock runs: of a few bytes the processor's part is all of the time.
        let groups = |count: u32| {
            let places = (0..count.min(READY)).map(|n| shift(n, self.shape.bytes, self.team.most_bytes));
            places.map(|shift| self.call(placement, shift)).collect::<Result<Vec<_>, _>>()
        };
        let (before, timed) = (groups(warmups)?, groups(iterations)?);
        let enqueue = |groups: &[Group<'_>], count: u32| {
            groups.iter().cycle().zip(0..count).try_for_each(|(group, _)| self.team.enqueue(group))
        };
        let seats = &self.team.seats;
        enqueue(&before, warmups)?;
        seats.iter().try_for_each(|seat| seat.stream.record(&seat.begin))?;
        enqueue(&timed, iterations)?;
        seats.iter().try_for_each(|seat| seat.stream.record(&seat.end))?;
        wait(self.team, patience(self.shape.bytes, warmups.saturating_add(iterations)))?;
        let mut slowest = 0.0_f64;
        for seat in seats {
            slowest = slowest.max(seat.end.ms_since(&seat.begin)?);
        }
        Ok(slowest * 1e3 / f64::from(iterations))
    }
}

/// Values whose result is exact.
pub(super) fn values(ask: &RowAsk, ranks: usize) -> Result<Values, Fault> {
    let op = ask.collective.reduces().then_some(ask.op);
    let known = u32::try_from(ranks).ok().and_then(|ranks| Values::exact(ask.data, op, ranks));
    known.ok_or_else(|| {
        let RowAsk { data, op, .. } = ask;
        Fault::broken(format!("{op} of {ranks} ranks' {data} is not exact: it cannot be checked"))
    })
}
