//! Starts work when its turn comes: determines its route, the faults that it meets, and its effect on completion.

use super::finish::{From, Job, Move};
use super::pages::Looked;
use super::pingpong::Waiting;
use super::reach::Reach;
use super::{Engine, PATIENCE, Running, SMALL, StreamId, Work};
use crate::content::{Content, Ring};
use crate::fault::Passage;
use crate::kernel::{Calls, Kernel, PingPong};
use crate::links::Route;
use crate::scenario::{Engine as Who, Fault, Kind, Way};
use crate::status::{Result, Status};
use crate::values::Values;
use std::time::Duration;

/// The outcome of starting a piece of work.
pub(super) enum Begun {
    /// It is complete.
    Done,
    /// It cannot start yet.
    NotYet,
    /// It is running.
    Running(Box<Running>),
}

impl Begun {
    pub(super) fn running(running: Running) -> Self {
        Self::Running(Box::new(running))
    }
}

impl Engine {
    /// Starts a piece of work of a stream of GPU `by`.
    pub(super) fn begin(&mut self, id: StreamId, by: usize, work: &Work) -> Result<Begun> {
        // Event records and waits may occur between timed calls.
        if !matches!(work, Work::Record { .. } | Work::Wait { .. } | Work::Collective(_))
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.in_calls = false;
        }
        match work {
            Work::Record { event, version } => {
                let now = self.now;
                if let Some(event) = self.events.get_mut(event) {
                    event.done = Some((*version, now));
                }
                Ok(Begun::Done)
            }
            Work::Wait { event, version } => {
                // An event that no longer exists is not waited for.
                let reached =
                    self.events.get(event).is_none_or(|e| e.done.is_some_and(|(v, _)| v >= *version));
                Ok(if reached { Begun::Done } else { Begun::NotYet })
            }
            Work::Copy { dst, src, bytes, kept } => self.copy(by, *dst, *src, *bytes, kept.clone()),
            Work::Set { dst, byte, bytes } => self.fill(by, *dst, *bytes, Content::Byte(*byte), Who::Ce),
            Work::Launch { kernel, threads } => self.launch(id, by, *kernel, *threads),
            Work::Collective(call) => self.collective(id, by, call),
        }
    }

    fn launch(&mut self, id: StreamId, by: usize, kernel: Kernel, threads: u64) -> Result<Begun> {
        match kernel {
            Kernel::Fill { dst, words, seed, first } => {
                self.fill(by, dst, words * 4, Content::pattern(seed, first), Who::Sm)
            }
            Kernel::Check { src, words, first, expected, sentinel, out } => {
                self.reach(by, out, 64, Who::Sm)?;
                let (route, from) = self.looked_at(by, src, words * 4)?;
                let wanted = crate::check::Wanted {
                    expected: crate::pattern::Pattern { seed: expected, first, flip: 0 },
                    sentinel: crate::pattern::Pattern { seed: sentinel, first, flip: 0 },
                };
                self.moving(route, words * 4, Job::Check { from, wanted, out })
            }
            Kernel::March { memory, vectors, first, seed, before, after, out } => {
                let wanted = super::stress::inverted(seed, first, before, after);
                self.march(by, (memory, vectors), wanted, out)
            }
            Kernel::Products { seed, batches, times, out } => {
                self.products(by, (seed, batches, times), threads, out)
            }
            Kernel::Copy { dst, src, bytes } => self.kernel_copy(by, dst, src, bytes),
            Kernel::Spin { flag, cycles } => {
                self.reach(by, flag, 4, Who::Sm)?;
                let takes = self.nanoseconds(cycles);
                let since = (self.host.clock(), self.now);
                Ok(Begun::running(Running::Spin { flag, until: self.patience(takes), takes, since }))
            }
            Kernel::ChaseInit { ring, count, stride } => {
                if stride < 8 {
                    return Err(Status::ILLEGAL_ADDRESS);
                }
                let all = Content::Ring(Ring { base: ring, stride, count }, 0);
                self.fill(by, ring, count.saturating_sub(1) * stride + 8, all, Who::Sm)
            }
            Kernel::Chase { start, steps, out } => self.chase(by, start, steps, out),
            Kernel::Count { counter, times } => {
                let reach = self.reach(by, counter, 8, Who::Sm)?;
                let (route, faults) = self.access(by, &reach, Way::Write, 8, [0, 0]);
                // The atomic operations are serialised at one address.
                let takes = (threads * times) as f64;
                let job = Job::Count { counter, reach, add: threads * times, by, faults };
                self.moving(Route { latency: route.latency + takes, ..route }, 8, job)
            }
            Kernel::Reduce(args) => self.reduce(id, by, args),
            Kernel::ReduceFill { input, words, seed, rank, n, books } => {
                self.reduce_input(by, (input, words), (seed, rank), (n, books))
            }
            Kernel::ReduceCheck { src, words, seed, ranks, n, books, out } => {
                self.check_sums(by, (src, words), (seed, ranks), (n, books, out))
            }
            Kernel::ReduceNext { books, rounds } => self.reduce_next(by, books, rounds),
            Kernel::PingPong(args) => self.ping_pong(id, by, args),
            Kernel::Tag { base, tags } => {
                let (route, tagged) = self.tagged(by, base, tags, Way::Write)?;
                self.moving(route, tags.pages * crate::memory::TAG, Job::Tag(Box::new(tagged)))
            }
            Kernel::CheckTags { base, tags, sentinel, restore, out } => {
                self.reach(by, out, 64, Who::Sm)?;
                let (route, tagged) = self.tagged(by, base, tags, Way::Read)?;
                let job = Job::CheckTags { tagged: Box::new(tagged), sentinel, restore, out };
                self.moving(route, tags.pages * crate::memory::TAG, job)
            }
            Kernel::CopyBatch { table, count } => self.copy_batch(by, table, count),
            Kernel::CheckBatch { table, count, seed, sentinel, guard, restore, out } => {
                let looked = Looked { by, copies: Vec::new(), seed, sentinel, guard, restore };
                self.check_batch(table, count, looked, out)
            }
            Kernel::FillValues { dst, count, values, calls } => {
                self.fill_values(by, dst, count, values, calls)
            }
            Kernel::CheckValues { src, count, expected, parts, calls, out } => {
                let elements = calls.count.saturating_sub(1) * calls.stride + parts * count;
                let bytes = if calls.count == 0 { 0 } else { elements * expected.size() };
                self.reach(by, out, 64, Who::Sm)?;
                let (route, from) = self.looked_at(by, src, bytes)?;
                self.moving(route, bytes, Job::CheckValues { from, expected, count, parts, calls, out })
            }
        }
    }

    /// Memory that a kernel reads for a check, and the route to it.
    pub(super) fn looked_at(&mut self, by: usize, src: u64, bytes: u64) -> Result<(Route, Move)> {
        let reach = self.reach(by, src, bytes, Who::Sm)?;
        let (route, faults) = self.access(by, &reach, Way::Read, bytes, [src, 0]);
        Ok((route, Move { to: None, from: Self::source(&reach), bytes, by, faults, way: Way::Read }))
    }

    /// Writes `content` to an address, by a kernel or a copy engine.
    pub(super) fn fill(
        &mut self,
        by: usize,
        dst: u64,
        bytes: u64,
        content: Content,
        who: Who,
    ) -> Result<Begun> {
        if bytes == 0 {
            return Ok(Begun::Done);
        }
        let reach = self.reach(by, dst, bytes, who)?;
        let (route, faults) = match who {
            Who::Sm => self.access(by, &reach, Way::Write, bytes, [0, dst]),
            Who::Ce => (self.scenario.local(by, Who::Ce, 1.0), Vec::new()),
        };
        let to = Some(reach);
        self.moving(
            route,
            bytes,
            Job::Move(Move { to, from: From::Content(content), bytes, by, faults, way: Way::Write }),
        )
    }

    /// Writes a rank's values into the buffers of all calls.
    fn fill_values(
        &mut self,
        by: usize,
        dst: u64,
        count: u64,
        values: Values,
        calls: Calls,
    ) -> Result<Begun> {
        let bytes = count * values.size();
        if calls.count == 1 {
            return self.fill(by, dst, bytes, Content::Values(values, 0), Who::Sm);
        }
        let run = |call: u64| {
            let to = self.reach(by, dst + call * calls.stride * values.size(), bytes, Who::Sm)?;
            Ok((to, vec![(bytes, Some(Content::Values(values.from(call * calls.step), 0)))]))
        };
        let all = (0..calls.count).map(run).collect::<Result<Vec<_>>>()?;
        let route = self.scenario.local(by, Who::Sm, 1.0);
        self.moving(route, bytes * calls.count, Job::Leave(all))
    }

    fn kernel_copy(&mut self, by: usize, dst: u64, src: u64, bytes: u64) -> Result<Begun> {
        if bytes == 0 {
            return Ok(Begun::Done);
        }
        let (route, one) = self.kernel_move(by, dst, src, bytes)?;
        self.moving(route, bytes, Job::Move(one))
    }

    /// A copy by a kernel, and its route.
    pub(super) fn kernel_move(&mut self, by: usize, dst: u64, src: u64, bytes: u64) -> Result<(Route, Move)> {
        let from = self.reach(by, src, bytes, Who::Sm)?;
        let to = self.reach(by, dst, bytes, Who::Sm)?;
        let own = |r: &Reach| matches!(r, Reach::Gpu { owner, .. } if *owner == by);
        let (route, faults, way) = match (own(&from), own(&to)) {
            (true, true) => (self.scenario.local(by, Who::Sm, 2.0), Vec::new(), Way::Write),
            (false, true) => {
                let (route, faults) = self.access(by, &from, Way::Read, bytes, [src, dst]);
                (route, faults, Way::Read)
            }
            (_, false) => {
                let (route, faults) = self.access(by, &to, Way::Write, bytes, [src, dst]);
                (route, faults, Way::Write)
            }
        };
        let from = Self::source(&from);
        Ok((route, Move { to: Some(to), from, bytes, by, faults, way }))
    }

    /// The route of a kernel to memory, and the faults on it; `addresses` are source and target, or 0.
    pub(super) fn access(
        &mut self,
        by: usize,
        reach: &Reach,
        way: Way,
        bytes: u64,
        addresses: [u64; 2],
    ) -> (Route, Vec<Fault>) {
        match reach {
            Reach::Host { .. } => (self.scenario.host(by, way == Way::Read, Who::Sm), Vec::new()),
            Reach::Gpu { owner, .. } if *owner == by => (self.scenario.local(by, Who::Sm, 1.0), Vec::new()),
            Reach::Gpu { spans, owner, .. } => {
                let (from, to) = if way == Way::Write { (by, *owner) } else { (*owner, by) };
                let passage = self.passage(by, (from, to), (Who::Sm, way), spans, bytes, addresses);
                let Some(passage) = passage else {
                    return (Route::alone(0.0, f64::INFINITY), Vec::new());
                };
                let faults = self.faults.of(&self.scenario, &passage);
                (self.scenario.direct(from, to, Who::Sm, way), faults)
            }
        }
    }

    /// A copy by a copy engine of GPU `by`.
    fn copy(&mut self, by: usize, dst: u64, src: u64, bytes: u64, kept: Option<Vec<u8>>) -> Result<Begun> {
        if bytes == 0 {
            return Ok(Begun::Done);
        }
        let to = self.reach(by, dst, bytes, Who::Ce)?;
        let reached = if kept.is_some() { None } else { Some(self.reach(by, src, bytes, Who::Ce)?) };
        if let (Some(Reach::Gpu { owner: a, .. }), Reach::Gpu { owner: b, .. }) = (&reached, &to)
            && a != b
            && self.scenario.one_by_one()
            && self.moves_to_another(by)
        {
            return Ok(Begun::NotYet);
        }
        let (route, faults, way) = match (&reached, &to) {
            (None | Some(Reach::Host { .. }), Reach::Gpu { owner, .. }) => {
                (self.scenario.host(*owner, true, Who::Ce), Vec::new(), Way::Read)
            }
            (Some(Reach::Gpu { owner, .. }), Reach::Host { .. }) => {
                (self.scenario.host(*owner, false, Who::Ce), Vec::new(), Way::Write)
            }
            (None | Some(Reach::Host { .. }), Reach::Host { .. }) => {
                (Route::alone(1000.0, self.scenario.figures.host.memory), Vec::new(), Way::Write)
            }
            (Some(from), to) => self.between(by, from, to, bytes, [src, dst]),
        };
        let from = match (kept, &reached) {
            (Some(bytes), _) => From::Content(Content::bytes(bytes)),
            (None, Some(reach)) => Self::source(reach),
            (None, None) => return Err(Status::INVALID_VALUE),
        };
        self.moving(route, bytes, Job::Move(Move { to: Some(to), from, bytes, by, faults, way }))
    }

    /// The route from GPU memory to GPU memory: within one GPU, directly, or through the host.
    fn between(
        &mut self,
        by: usize,
        from: &Reach,
        to: &Reach,
        bytes: u64,
        addresses: [u64; 2],
    ) -> (Route, Vec<Fault>, Way) {
        let (Reach::Gpu { owner: a, direct: d, .. }, Reach::Gpu { owner: b, direct: e, .. }) = (from, to)
        else {
            return (Route::alone(0.0, f64::INFINITY), Vec::new(), Way::Write);
        };
        let (a, b) = (*a, *b);
        if a == b {
            return (self.scenario.local(a, Who::Ce, 2.0), Vec::new(), Way::Write);
        }
        let (way, remote) = if by == b { (Way::Read, from) } else { (Way::Write, to) };
        let passage = self.passage(by, (a, b), (Who::Ce, way), remote.spans(), bytes, addresses);
        match passage {
            Some(passage) if *d && *e => {
                let faults = self.faults.of(&self.scenario, &passage);
                (self.scenario.direct(a, b, Who::Ce, way), faults, way)
            }
            _ => (self.scenario.staged(a, b), Vec::new(), way),
        }
    }

    fn chase(&mut self, by: usize, start: u64, steps: u64, out: u64) -> Result<Begun> {
        let reach = self.reach(by, start, 8, Who::Sm)?;
        let (route, faults) = self.access(by, &reach, Way::Read, 8, [start, 0]);
        let each = match &reach {
            Reach::Host { .. } => self.scenario.figures.host.chase_ns,
            Reach::Gpu { owner, .. } if *owner == by => self.scenario.figures.local.chase_ns,
            Reach::Gpu { owner, .. } => self.scenario.pair(by, *owner).chase_ns.of(by, *owner),
        };
        let slow = faults.iter().filter(|f| f.kind == Kind::Slow).filter_map(|f| f.rate).product::<f64>();
        let takes = steps as f64 * each / slow * late(&faults);
        let cycles = self.cycles(takes);
        let job = Job::Chase { start, steps, out, cycles, by, faults: faults.clone() };
        self.moving_with(Route { latency: route.latency + takes, ..route }, 8, job, &faults)
    }

    fn ping_pong(&mut self, id: StreamId, by: usize, args: PingPong) -> Result<Begun> {
        let mine = self.reach(by, args.mine, 256, Who::Sm)?;
        let theirs = self.reach(by, args.theirs, 256, Who::Sm)?;
        self.reach(by, args.out, 40, Who::Sm)?;
        let until = self.patience(self.nanoseconds(args.cycles));
        Ok(match self.meet(id, Waiting { by, args, mine, theirs }) {
            Ok(running) => Begun::running(running),
            Err(waiting) => Begun::running(Running::Partner { waiting: *waiting, until }),
        })
    }

    /// Where data comes from.
    fn source(reach: &Reach) -> From {
        match reach {
            Reach::Host { address, pinned } => From::Host { address: *address, pinned: *pinned },
            Reach::Gpu { spans, .. } => From::Spans(spans.clone()),
        }
    }

    /// Starts a transfer over `route`, applying faults that slow it down or make it fail.
    pub(super) fn moving(&self, route: Route, bytes: u64, job: Job) -> Result<Begun> {
        let faults = job.faults();
        self.moving_with(route, bytes, job, &faults)
    }

    fn moving_with(&self, mut route: Route, bytes: u64, job: Job, faults: &[Fault]) -> Result<Begun> {
        // The copies of one table often meet the same fault, which slows them down only once.
        let mut slow = 1.0_f64;
        for fault in faults {
            match (fault.kind, fault.rate) {
                (Kind::Hang, _) => return Ok(Begun::running(Running::Never(None))),
                (Kind::Error, _) => return Err(Status(fault.code)),
                (Kind::Slow, Some(rate)) => slow = slow.min(rate),
                _ => {}
            }
        }
        route.flow.most *= slow;
        // A chase has already applied this to each load.
        let late = if matches!(job, Job::Chase { .. }) { 1.0 } else { late(faults) };
        let (latency, bytes) = (route.latency * late, bytes as f64);
        let small = bytes <= SMALL;
        let begins = self.now + latency;
        let left = if small { 0.0 } else { bytes };
        Ok(Begun::running(Running::Moving { begins, left, route, job }))
    }

    /// Simulated ns of `cycles` cycles.
    pub(super) fn nanoseconds(&self, cycles: u64) -> f64 {
        cycles as f64 * 1000.0 / f64::from(self.scenario.machine.clock_mhz)
    }

    /// Cycles in `ns` ns.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "times are positive and small"
    )]
    pub(super) fn cycles(&self, ns: f64) -> u64 {
        (ns * f64::from(self.scenario.machine.clock_mhz) / 1000.0) as u64
    }

    /// The real time until which something waits that would wait for `ns` simulated ns.
    pub(super) fn patience(&self, ns: f64) -> Duration {
        let wait = Duration::try_from_secs_f64(ns / 1e9).unwrap_or(Duration::MAX);
        self.host.clock().saturating_add(wait.max(PATIENCE))
    }
}

impl Engine {
    /// A direct transfer; `None` if it involves no peer's memory.
    pub(super) fn passage(
        &self,
        by: usize,
        (from, to): (usize, usize),
        (engine, way): (Who, Way),
        remote: &[crate::memory::Span],
        bytes: u64,
        addresses: [u64; 2],
    ) -> Option<Passage> {
        let first = remote.first()?;
        let shared = self.memory.stores.get(&first.store).is_some_and(|s| s.adopted || s.shared.is_some());
        let counts = self.scenario.fault.iter().any(|f| f.load > 0);
        let load = if counts { self.under_way() } else { 0 };
        let (memory, physical) = (first.kind, first.physical);
        Some(Passage { by, from, to, engine, way, memory, physical, bytes, addresses, shared, load })
    }

    /// The transfer that a copy by a copy engine of GPU `by` would be, if it goes directly between GPUs.
    pub(super) fn copy_passage(&self, by: usize, dst: u64, src: u64, bytes: u64) -> Option<Passage> {
        let [from, to] = [src, dst].map(|at| self.reach(by, at, bytes, Who::Ce).ok());
        let (
            Reach::Gpu { owner: a, direct: true, spans: s },
            Reach::Gpu { owner: b, direct: true, spans: t },
        ) = (from?, to?)
        else {
            return None;
        };
        let (way, remote) = if by == b { (Way::Read, s) } else { (Way::Write, t) };
        if a == b { None } else { self.passage(by, (a, b), (Who::Ce, way), &remote, bytes, [src, dst]) }
    }

    /// Number of transfers between GPUs that are in progress.
    fn under_way(&self) -> usize {
        self.streams.values().filter(|s| moves(s)).count()
    }

    /// Whether this GPU moves data to or from another one.
    fn moves_to_another(&self, gpu: usize) -> bool {
        self.streams.values().any(|s| s.gpu == gpu && moves(s))
    }
}

/// Whether a stream moves data between two GPUs.
fn moves(stream: &super::Stream) -> bool {
    matches!(&stream.running, Some(Running::Moving { route, .. }) if route.peers.is_some())
}

/// The factor by which small operations take longer: the maximum over all faults, as a table's copies often meet the same
/// one.
pub(super) fn late(faults: &[Fault]) -> f64 {
    faults.iter().filter(|f| f.kind == Kind::Late).filter_map(|f| f.rate).fold(1.0, f64::max)
}
