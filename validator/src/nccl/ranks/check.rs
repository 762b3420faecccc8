//! The data of a row's timed calls: the input of each call, the expected result, and counting wrong elements,
//! all on the GPUs that own the memory. Calls use consecutive parts of the buffers; no two hold the same
//! values.

use super::layout::{Layout, Part};
use super::messages::Fault;
use super::seat::Seat;
use super::team::Team;
use super::watch::{patience, wait};
use super::{RowAsk, element};
use crate::gpu::{Expected, GpuError, Runs, Shape, Span, Values, ValuesExpected};
use crate::nccl::{FirstWrong, Placement, Wrongs};

/// The content of receive buffers before a call: the bytes of no value, and not zero.
const POISON: u8 = 0xa5;

/// One placement's calls.
pub(super) struct Check<'t> {
    pub(super) team: &'t Team,
    pub(super) ask: &'t RowAsk,
    pub(super) shape: Shape,
    pub(super) values: Values,
    pub(super) placement: Placement,
    pub(super) seed: u64,
    /// The number of checked calls, from the first part on.
    pub(super) calls: u64,
}

impl Check<'_> {
    /// Fills every call's data, on the ranks' streams.
    pub(super) fn prepare(&self) -> Result<(), Fault> {
        self.each(|seat| {
            let all = Part { receive: true, offset: 0, bytes: self.shape.bytes.saturating_mul(self.calls) };
            seat.stream.set_bytes(seat.span(all)?, POISON)?;
            let to = self.places(seat, self.layout(seat).send)?;
            let runs = self.runs(self.shape.send, 1);
            seat.stream.fill_values(to, self.ask.data, self.values, seat.rank, self.seed, &runs)
        })
    }

    /// Checks the results of all calls, once they are done.
    pub(super) fn look(&self) -> Result<Wrongs, Fault> {
        self.each(|seat| self.look_at(seat))?;
        wait(self.team, patience(self.shape.bytes, u32::try_from(self.calls).unwrap_or(u32::MAX)))?;
        let mut wrongs = Wrongs { calls: self.calls, ..Wrongs::default() };
        for seat in &self.team.seats {
            self.count(seat, &mut wrongs)?;
        }
        Ok(wrongs)
    }

    fn each(&self, act: impl Fn(&Seat) -> Result<(), GpuError>) -> Result<(), Fault> {
        self.team.seats.iter().try_for_each(|seat| act(seat).map_err(|e| Fault::of(Some(seat.rank), &e)))
    }

    /// The layout of the first call's data.
    fn layout(&self, seat: &Seat) -> Layout {
        let element = self.ask.data.bytes();
        Layout::new(self.ask.collective, self.shape, element, seat.rank, self.placement, 0)
    }

    /// The memory from a part in the first call to that in the last.
    fn places<'s>(&self, seat: &'s Seat, part: Part) -> Result<Span<'s>, GpuError> {
        let before = self.shape.bytes.saturating_mul(self.calls.saturating_sub(1));
        seat.span(Part { bytes: before.saturating_add(part.bytes), ..part })
    }

    /// Runs of `count` elements in each call's part. Numbers continue from call to call.
    fn runs(&self, count: u64, parts: u64) -> Runs {
        let stride = self.shape.bytes / self.ask.data.bytes();
        Runs { count, parts, calls: self.calls, stride, step: self.shape.send }
    }

    /// The expected content of a rank's receive buffer after one call.
    fn expected(&self, seat: &Seat) -> Vec<Expected> {
        self.ask.collective.expected(self.shape, self.team.ranks, seat.rank, self.ask.root)
    }

    fn look_at(&self, seat: &Seat) -> Result<(), GpuError> {
        let (data, op, ranks, seed) = (self.ask.data, self.ask.op, self.team.ranks, self.seed);
        seat.tally.begin(&seat.stream)?;
        let parts = self.expected(seat);
        if let Some(Expected { count, first, from, .. }) = parts.first().copied() {
            // Parts of several ranks are consecutive, in the ranks' order.
            let runs = self.runs(count, parts.len() as u64);
            let what = self.places(seat, self.layout(seat).receive)?;
            let expect = ValuesExpected { from, op, ranks, seed, first };
            seat.stream.check_values(what, data, self.values, &expect, &runs, &seat.tally)?;
        }
        seat.tally.end(&seat.stream)
    }

    /// Adds the counts of one GPU.
    fn count(&self, seat: &Seat, wrongs: &mut Wrongs) -> Result<(), Fault> {
        let parts = self.expected(seat);
        let of_call: u64 = parts.iter().map(|part| part.count).sum();
        let all = of_call.saturating_mul(self.calls);
        let said = seat.tally.checked();
        if said.looked != all {
            let text = format!("rank {}: {} elements of {all} were checked", seat.rank, said.looked);
            return Err(Fault::broken(text));
        }
        wrongs.looked += all;
        wrongs.count += said.wrong;
        wrongs.ones += said.ones;
        let Some(number) = said.first.filter(|_| wrongs.first.is_none()) else { return Ok(()) };
        let (call, element) = (number / of_call.max(1), number % of_call.max(1));
        let part = parts.iter().find(|p| element.checked_sub(p.at).is_some_and(|k| k < p.count));
        let part = part.ok_or_else(|| Fault::broken(format!("element {element} does not exist")))?;
        let part =
            Expected { first: part.first.saturating_add(call.saturating_mul(self.shape.send)), ..*part };
        let (op, ranks) = (self.ask.op, self.team.ranks);
        let wanted = element::expected(part, element - part.at, op, ranks, self.values, self.seed);
        let found = self.found(seat, call, element)?;
        let expected = wanted.to_string();
        wrongs.first = Some(FirstWrong { rank: seat.rank, call, element, found, expected });
        Ok(())
    }

    /// The content of a received element.
    fn found(&self, seat: &Seat, call: u64, element: u64) -> Result<String, Fault> {
        let bytes = self.ask.data.bytes();
        let fetch = || {
            let place = self.shape.bytes.saturating_mul(call);
            let within = place.saturating_add(element.saturating_mul(bytes));
            seat.fetch(self.places(seat, self.layout(seat).receive)?.part(within, bytes)?)
        };
        fetch().map_err(|error| Fault::of(Some(seat.rank), &error))?;
        wait(self.team, patience(bytes, 1))?;
        Ok(element::text(self.ask.data, seat.fetched()))
    }
}
