//! Two kernels that send each other flags after data. Neither is run: what both would find follows from what faults do to a
//! flag and to its data on the way.

use super::finish::Effect;
use super::resolve::MemoryRange;
use super::{Engine, Running, StreamId};
use crate::content::Content;
use crate::fault::PeerTransfer;
use crate::kernel::PingPong;
use crate::links::Route;
use crate::scenario::{Engine as EngineKind, Kind, Way};
use crate::status::Result;

/// One of the two kernels.
#[derive(Debug, Clone)]
pub(super) struct PingPongSide {
    pub by: usize,
    pub args: PingPong,
    pub mine: MemoryRange,
    pub theirs: MemoryRange,
}

/// The results of one side: five numbers, and the last message that it received.
#[derive(Debug)]
pub(super) struct PingPongResult {
    pub side: PingPongSide,
    pub wrong: u64,
    pub first_bad: u64,
    pub rounds: u64,
    pub late: bool,
    pub cycles: u64,
}

/// Size of a message's flag in bytes.
const FLAG: u64 = 4;
/// Offset of the data in a mailbox.
const DATA_AT: u64 = 128;

/// Size of a mailbox in bytes.
pub(super) const fn mailbox(args: &PingPong) -> u64 {
    DATA_AT + args.words * 4
}

/// How faults affect one direction.
struct DirectionFaults {
    /// The first round whose flag is lost.
    lost_at: u64,
    /// Every n-th round has wrong words, 0 for none.
    wrong_each: u64,
    /// How many words are wrong in such a round.
    wrong_words: u64,
}

impl Engine {
    /// Starts both sides if the partner is waiting; otherwise returns the side, which has to wait.
    pub(super) fn start_ping_pong(
        &mut self,
        id: StreamId,
        side: PingPongSide,
    ) -> core::result::Result<Running, Box<PingPongSide>> {
        let fits = |other: &PingPongSide| {
            let (a, b) = (other.args, side.args);
            a.mine == b.theirs && a.theirs == b.mine && a.words == b.words
        };
        let partner = self.streams.iter().find_map(|(n, s)| match &s.running {
            Some(Running::AwaitPartner { waiting, .. }) if fits(waiting) && *n != id => {
                Some((*n, waiting.clone()))
            }
            _ => None,
        });
        let Some((partner, other)) = partner else {
            return Err(Box::new(side));
        };
        let (mine, theirs) = self.play(side, other);
        self.set_running(partner, theirs);
        Ok(mine)
    }

    /// Ends a side whose partner did not come.
    pub(super) fn end_without_partner(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let Some(Running::AwaitPartner { waiting, .. }) = stream.running.take() else {
            return;
        };
        let found = PingPongResult {
            side: waiting,
            wrong: 0,
            first_bad: u64::MAX,
            rounds: 0,
            late: true,
            cycles: 0,
        };
        let running = self.take_time(found);
        self.set_running(id, running);
    }

    fn play(&self, a: PingPongSide, b: PingPongSide) -> (Running, Running) {
        let rounds = a.args.rounds.min(b.args.rounds);
        let (to_b, to_a) = (self.direction(&a), self.direction(&b));
        // A round goes to the second side and back; the second completes it when the first's flag arrives.
        let (first, second) = if a.args.first {
            (&to_b, &to_a)
        } else {
            (&to_a, &to_b)
        };
        let by_second = (first.lost_at - 1).min(second.lost_at).min(rounds);
        let by_first = (first.lost_at - 1).min(second.lost_at - 1).min(rounds);
        let both_first = a.args.first == b.args.first;
        let done = |is_first: bool| match (both_first, is_first) {
            (true, _) => 0,
            (false, true) => by_first,
            (false, false) => by_second,
        };
        let side = |side: PingPongSide, incoming: &DirectionFaults| {
            let rounds = done(side.args.first);
            let bad = rounds.checked_div(incoming.wrong_each).unwrap_or_default();
            let late = rounds < side.args.rounds;
            let first_bad = if bad > 0 {
                incoming.wrong_each
            } else {
                u64::MAX
            };
            let found = PingPongResult {
                side,
                wrong: bad * incoming.wrong_words,
                first_bad,
                rounds,
                late,
                cycles: 0,
            };
            self.take_time(found)
        };
        (side(a, &to_a), side(b, &to_b))
    }

    /// How faults affect messages from `side` to its partner.
    fn direction(&self, side: &PingPongSide) -> DirectionFaults {
        let mut found = DirectionFaults {
            lost_at: u64::MAX,
            wrong_each: 0,
            wrong_words: 0,
        };
        let MemoryRange::Gpu { spans, owner, .. } = &side.theirs else {
            return found;
        };
        let Some(span) = spans.first() else {
            return found;
        };
        if *owner == side.by {
            return found;
        }
        // The data also meets what else is under way, which faults may ask for; the flag is judged alone.
        let flag = PeerTransfer {
            physical: span.physical,
            ..PeerTransfer::write(side.by, *owner, span.kind, FLAG)
        };
        let route = (EngineKind::Sm, Way::Write);
        let words = side.args.words;
        let data = self.peer_transfer(side.by, (side.by, *owner), route, spans, words * 4, [0, 0]);
        for fault in &self.scenario.fault {
            let loses = match fault.kind {
                Kind::Zeros
                | Kind::Ones
                | Kind::Stale
                | Kind::Mirror
                | Kind::Offset
                | Kind::Hang
                | Kind::Error => true,
                Kind::Victim => fault.instead,
                _ => false,
            };
            if loses && fault.meets(&flag) {
                found.lost_at = found.lost_at.min(fault.every);
            }
            let wrong = match fault.kind {
                Kind::Flip => 1,
                Kind::Partial => words / 2,
                Kind::Reorder
                | Kind::Zeros
                | Kind::Ones
                | Kind::Stale
                | Kind::Mirror
                | Kind::Offset => words,
                _ => 0,
            };
            if wrong > 0 && data.as_ref().is_some_and(|data| fault.meets(data)) {
                (found.wrong_each, found.wrong_words) = (fault.every, wrong);
            }
        }
        found
    }

    /// Sets how long a side takes.
    fn take_time(&self, mut found: PingPongResult) -> Running {
        let (a, args) = (found.side.by, found.side.args);
        let b = if let MemoryRange::Gpu { owner, .. } = &found.side.theirs {
            *owner
        } else {
            a
        };
        let late = |from, to| {
            let here = self
                .scenario
                .faults(Kind::Late, from, to)
                .filter(|f| f.engine != Some(EngineKind::Ce));
            here.filter_map(|f| f.rate).product::<f64>()
        };
        let flag =
            |from, to| self.scenario.pair(from, to).flag_us.of(from, to) * 1000.0 * late(from, to);
        let round = flag(a, b) + flag(b, a);
        let takes = found.rounds as f64 * round;
        let takes = if found.late {
            takes.max(self.nanoseconds(args.cycles))
        } else {
            takes
        };
        found.cycles = self.cycles(takes);
        let begins = self.now + self.scenario.figures.local.launch_us * 1000.0 + takes;
        let route = Route::alone(takes, f64::INFINITY);
        Running::Moving {
            begins,
            left: 0.0,
            route,
            effect: Effect::PingPong(Box::new(found)),
        }
    }

    /// Writes a side's five numbers, and the last message into its mailbox.
    pub(super) fn write_ping_pong(&mut self, found: &PingPongResult) -> Result<()> {
        let PingPongSide { by, args, mine, .. } = &found.side;
        let old = self.numbers(*by, args.out, 2)?;
        let [_, first] = old[..] else { return Ok(()) };
        let late = u64::from(found.late);
        let numbers = [
            found.wrong,
            first.min(found.first_bad),
            found.rounds,
            late,
            found.cycles,
        ];
        self.put_numbers(*by, args.out, &numbers)?;
        if found.rounds > 0 {
            let at = |from: u64, bytes: u64| {
                let spans = mine.spans().iter().take(1);
                spans
                    .map(|s| crate::memory::Span {
                        offset: s.offset + from,
                        bytes,
                        ..s.clone()
                    })
                    .collect::<Vec<_>>()
            };
            let flag = found.rounds.to_le_bytes().into_iter().take(4).collect();
            self.memory
                .write(&at(0, FLAG), &[(FLAG, Some(Content::bytes(flag)))]);
            let (data, bytes) = (
                Content::pattern(args.seed_mine, found.rounds * args.words),
                args.words * 4,
            );
            self.memory
                .write(&at(DATA_AT, bytes), &[(bytes, Some(data))]);
        }
        Ok(())
    }
}
