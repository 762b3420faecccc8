//! Starts work when its turn comes: determines its route, the faults that it meets, and its effect on completion.

use super::finish::{Effect, Source, Transfer};
use super::pages::BatchCheck;
use super::pingpong::PingPongSide;
use super::resolve::MemoryRange;
use super::{Engine, MIN_WAIT, Running, SMALL, StreamId, Work};
use crate::content::{Content, Ring};
use crate::fault::PeerTransfer;
use crate::kernel::{Calls, Kernel, PingPong};
use crate::links::{Mover, Route};
use crate::scenario::{Engine as EngineKind, Fault, Kind, Way};
use crate::status::{Result, Status};
use crate::values::Values;
use std::time::Duration;

/// The result of starting a piece of work.
pub(super) enum StartOutcome {
    /// It is complete.
    Done,
    /// It waits for an event or another transfer, and is tried again.
    Blocked,
    /// It is running.
    Running(Box<Running>),
}

impl StartOutcome {
    pub(super) fn running(running: Running) -> Self {
        Self::Running(Box::new(running))
    }
}

impl Engine {
    /// Starts a piece of work of a stream of GPU `by`.
    pub(super) fn begin(&mut self, id: StreamId, by: usize, work: &Work) -> Result<StartOutcome> {
        // Event records and waits may occur between timed calls.
        if !matches!(
            work,
            Work::Record { .. } | Work::Wait { .. } | Work::Collective(_)
        ) && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.last_call = None;
        }
        match work {
            Work::Record { event, version } => {
                let now = self.now;
                if let Some(event) = self.events.get_mut(event) {
                    event.done = Some((*version, now));
                }
                Ok(StartOutcome::Done)
            }
            Work::Wait { event, version } => {
                // An event that no longer exists is not waited for.
                let reached = self
                    .events
                    .get(event)
                    .is_none_or(|e| e.done.is_some_and(|(v, _)| v >= *version));
                Ok(if reached {
                    StartOutcome::Done
                } else {
                    StartOutcome::Blocked
                })
            }
            Work::Copy {
                dst,
                src,
                bytes,
                pageable_bytes,
            } => self.copy(by, *dst, *src, *bytes, pageable_bytes.clone()),
            Work::Set { dst, byte, bytes } => {
                self.fill(by, *dst, *bytes, Content::Byte(*byte), EngineKind::Ce)
            }
            Work::Launch { kernel, threads } => self.launch(id, by, *kernel, *threads),
            Work::Collective(call) => self.collective(id, by, call),
        }
    }

    fn launch(
        &mut self,
        id: StreamId,
        by: usize,
        kernel: Kernel,
        threads: u64,
    ) -> Result<StartOutcome> {
        match kernel {
            Kernel::Fill {
                dst,
                words,
                seed,
                first,
            } => self.fill(
                by,
                dst,
                words * 4,
                Content::pattern(seed, first),
                EngineKind::Sm,
            ),
            Kernel::Check {
                src,
                words,
                first,
                expected,
                sentinel,
                out,
            } => {
                self.resolve(by, out, 64, EngineKind::Sm)?;
                let (route, from) = self.check_source(by, src, words * 4)?;
                let wanted = crate::check::CheckPatterns {
                    expected: crate::pattern::Pattern {
                        seed: expected,
                        first,
                        flip: 0,
                    },
                    sentinel: crate::pattern::Pattern {
                        seed: sentinel,
                        first,
                        flip: 0,
                    },
                };
                self.moving(route, words * 4, Effect::Check { from, wanted, out })
            }
            Kernel::March {
                memory,
                vectors,
                first,
                seed,
                before,
                after,
                out,
            } => {
                let wanted = super::stress::inverted(seed, first, before, after);
                self.march(by, (memory, vectors), wanted, out)
            }
            Kernel::Products {
                seed,
                batches,
                times,
                out,
            } => self.products(by, (seed, batches, times), threads, out),
            Kernel::Copy { dst, src, bytes } => self.kernel_copy(by, dst, src, bytes),
            Kernel::Spin { flag, cycles } => {
                self.resolve(by, flag, 4, EngineKind::Sm)?;
                let takes = self.nanoseconds(cycles);
                let since = (self.host.clock(), self.now);
                Ok(StartOutcome::running(Running::Spin {
                    flag,
                    until: self.deadline(takes),
                    takes,
                    since,
                }))
            }
            Kernel::ChaseInit {
                ring,
                count,
                stride,
            } => {
                if stride < 8 {
                    return Err(Status::ILLEGAL_ADDRESS);
                }
                let all = Content::Ring(
                    Ring {
                        base: ring,
                        stride,
                        count,
                    },
                    0,
                );
                self.fill(
                    by,
                    ring,
                    count.saturating_sub(1) * stride + 8,
                    all,
                    EngineKind::Sm,
                )
            }
            Kernel::Chase { start, steps, out } => self.chase(by, start, steps, out),
            Kernel::Count { counter, times } => {
                let range = self.resolve(by, counter, 8, EngineKind::Sm)?;
                let (route, faults) = self.access_by(by, &range, Way::Write, 8, [0, 0], true);
                // The atomic operations are serialised at one address.
                let takes = (threads * times) as f64;
                let effect = Effect::Count {
                    counter,
                    range,
                    add: threads * times,
                    by,
                    faults,
                };
                self.moving(
                    Route {
                        latency: route.latency + takes,
                        ..route
                    },
                    8,
                    effect,
                )
            }
            Kernel::Reduce(args) => self.reduce(id, by, args),
            Kernel::ReduceFill {
                input,
                words,
                seed,
                rank,
                n,
                books,
            } => self.reduce_input(by, (input, words), (seed, rank), (n, books)),
            Kernel::ReduceCheck {
                src,
                words,
                seed,
                ranks,
                n,
                books,
                out,
            } => self.check_sums(by, (src, words), (seed, ranks), (n, books, out)),
            Kernel::ReduceNext { books, rounds } => self.reduce_next(by, books, rounds),
            Kernel::PingPong(args) => self.ping_pong(id, by, args),
            Kernel::Tag { base, tags } => {
                let (route, tagged) = self.tag_transfer(by, base, tags, Way::Write)?;
                self.moving(
                    route,
                    tags.pages * crate::memory::TAG,
                    Effect::Tag(Box::new(tagged)),
                )
            }
            Kernel::CheckTags {
                base,
                tags,
                sentinel,
                restore,
                out,
            } => {
                self.resolve(by, out, 64, EngineKind::Sm)?;
                let (route, tagged) = self.tag_transfer(by, base, tags, Way::Read)?;
                let effect = Effect::CheckTags {
                    tagged: Box::new(tagged),
                    sentinel,
                    restore,
                    out,
                };
                self.moving(route, tags.pages * crate::memory::TAG, effect)
            }
            Kernel::CopyBatch { table, count } => self.copy_batch(by, table, count),
            Kernel::CheckBatch {
                table,
                count,
                seed,
                sentinel,
                guard,
                restore,
                out,
            } => {
                let check = BatchCheck {
                    by,
                    copies: Vec::new(),
                    seed,
                    sentinel,
                    guard,
                    restore,
                };
                self.check_batch(table, count, check, out)
            }
            Kernel::FillValues {
                dst,
                count,
                values,
                calls,
            } => self.fill_values(by, dst, count, values, calls),
            Kernel::CheckValues {
                src,
                count,
                expected,
                parts,
                calls,
                out,
            } => {
                let elements = calls.count.saturating_sub(1) * calls.stride + parts * count;
                let bytes = if calls.count == 0 {
                    0
                } else {
                    elements * expected.size()
                };
                self.resolve(by, out, 64, EngineKind::Sm)?;
                let (route, from) = self.check_source(by, src, bytes)?;
                self.moving(
                    route,
                    bytes,
                    Effect::CheckValues {
                        from,
                        expected,
                        count,
                        parts,
                        calls,
                        out,
                    },
                )
            }
        }
    }

    /// Memory that a kernel reads for a check, and the route to it.
    pub(super) fn check_source(
        &mut self,
        by: usize,
        src: u64,
        bytes: u64,
    ) -> Result<(Route, Transfer)> {
        let range = self.resolve(by, src, bytes, EngineKind::Sm)?;
        let (route, faults) = self.access(by, &range, Way::Read, bytes, [src, 0]);
        Ok((
            route,
            Transfer {
                to: None,
                from: Self::source(&range),
                bytes,
                by,
                faults,
                way: Way::Read,
            },
        ))
    }

    /// Writes `content` to an address, by a kernel or a copy engine.
    pub(super) fn fill(
        &mut self,
        by: usize,
        dst: u64,
        bytes: u64,
        content: Content,
        engine: EngineKind,
    ) -> Result<StartOutcome> {
        if bytes == 0 {
            return Ok(StartOutcome::Done);
        }
        let range = self.resolve(by, dst, bytes, engine)?;
        let (route, faults) = match engine {
            EngineKind::Sm => self.access(by, &range, Way::Write, bytes, [0, dst]),
            EngineKind::Ce => (self.scenario.local(by, EngineKind::Ce, 1.0), Vec::new()),
        };
        let to = Some(range);
        self.moving(
            route,
            bytes,
            Effect::Move(Transfer {
                to,
                from: Source::Content(content),
                bytes,
                by,
                faults,
                way: Way::Write,
            }),
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
    ) -> Result<StartOutcome> {
        let bytes = count * values.size();
        if calls.count == 1 {
            return self.fill(by, dst, bytes, Content::Values(values, 0), EngineKind::Sm);
        }
        let run = |call: u64| {
            let to = self.resolve(
                by,
                dst + call * calls.stride * values.size(),
                bytes,
                EngineKind::Sm,
            )?;
            Ok((
                to,
                vec![(
                    bytes,
                    Some(Content::Values(values.from(call * calls.step), 0)),
                )],
            ))
        };
        let all = (0..calls.count).map(run).collect::<Result<Vec<_>>>()?;
        let route = self.scenario.local(by, EngineKind::Sm, 1.0);
        self.moving(route, bytes * calls.count, Effect::WriteResults(all))
    }

    fn kernel_copy(&mut self, by: usize, dst: u64, src: u64, bytes: u64) -> Result<StartOutcome> {
        if bytes == 0 {
            return Ok(StartOutcome::Done);
        }
        let (route, one) = self.kernel_transfer(by, dst, src, bytes)?;
        self.moving(route, bytes, Effect::Move(one))
    }

    /// A copy by a kernel, and its route.
    pub(super) fn kernel_transfer(
        &mut self,
        by: usize,
        dst: u64,
        src: u64,
        bytes: u64,
    ) -> Result<(Route, Transfer)> {
        let from = self.resolve(by, src, bytes, EngineKind::Sm)?;
        let to = self.resolve(by, dst, bytes, EngineKind::Sm)?;
        let own = |r: &MemoryRange| matches!(r, MemoryRange::Gpu { owner, .. } if *owner == by);
        let (route, faults, way) = match (own(&from), own(&to)) {
            (true, true) => (
                self.scenario.local(by, EngineKind::Sm, 2.0),
                Vec::new(),
                Way::Write,
            ),
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
        Ok((
            route,
            Transfer {
                to: Some(to),
                from,
                bytes,
                by,
                faults,
                way,
            },
        ))
    }

    /// The route of a kernel to memory, and the faults on it; `addresses` are source and target, or 0.
    pub(super) fn access(
        &mut self,
        by: usize,
        range: &MemoryRange,
        way: Way,
        bytes: u64,
        addresses: [u64; 2],
    ) -> (Route, Vec<Fault>) {
        self.access_by(by, range, way, bytes, addresses, false)
    }

    /// The same; `atomic`: by atomic additions.
    fn access_by(
        &mut self,
        by: usize,
        range: &MemoryRange,
        way: Way,
        bytes: u64,
        addresses: [u64; 2],
        atomic: bool,
    ) -> (Route, Vec<Fault>) {
        match range {
            MemoryRange::Host { .. } => (
                self.scenario.host(by, way == Way::Read, EngineKind::Sm),
                Vec::new(),
            ),
            MemoryRange::Gpu { owner, .. } if *owner == by => {
                (self.scenario.local(by, EngineKind::Sm, 1.0), Vec::new())
            }
            MemoryRange::Gpu { spans, owner, .. } => {
                let (from, to) = if way == Way::Write {
                    (by, *owner)
                } else {
                    (*owner, by)
                };
                let transfer = self.peer_transfer(
                    by,
                    (from, to),
                    (EngineKind::Sm, way),
                    spans,
                    bytes,
                    addresses,
                );
                let Some(transfer) = transfer else {
                    return (Route::alone(0.0, f64::INFINITY), Vec::new());
                };
                let transfer = PeerTransfer { atomic, ..transfer };
                let faults = self.faults.met_by(&self.scenario, &transfer);
                (self.scenario.direct(from, to, EngineKind::Sm, way), faults)
            }
        }
    }

    /// A copy by a copy engine of GPU `by`.
    fn copy(
        &mut self,
        by: usize,
        dst: u64,
        src: u64,
        bytes: u64,
        pageable_bytes: Option<Vec<u8>>,
    ) -> Result<StartOutcome> {
        if bytes == 0 {
            return Ok(StartOutcome::Done);
        }
        let to = self.resolve(by, dst, bytes, EngineKind::Ce)?;
        let reached = if pageable_bytes.is_some() {
            None
        } else {
            Some(self.resolve(by, src, bytes, EngineKind::Ce)?)
        };
        if let (Some(MemoryRange::Gpu { owner: a, .. }), MemoryRange::Gpu { owner: b, .. }) =
            (&reached, &to)
            && a != b
            && self.scenario.one_by_one()
            && self.moves_to_another(by)
        {
            return Ok(StartOutcome::Blocked);
        }
        let (route, faults, way) = match (&reached, &to) {
            (None | Some(MemoryRange::Host { .. }), MemoryRange::Gpu { owner, .. }) => (
                self.scenario.host(*owner, true, EngineKind::Ce),
                Vec::new(),
                Way::Read,
            ),
            (Some(MemoryRange::Gpu { owner, .. }), MemoryRange::Host { .. }) => (
                self.scenario.host(*owner, false, EngineKind::Ce),
                Vec::new(),
                Way::Write,
            ),
            (None | Some(MemoryRange::Host { .. }), MemoryRange::Host { .. }) => (
                Route::alone(1000.0, self.scenario.figures.host.memory),
                Vec::new(),
                Way::Write,
            ),
            (Some(from), to) => self.between(by, from, to, bytes, [src, dst]),
        };
        let from = match (pageable_bytes, &reached) {
            (Some(bytes), _) => Source::Content(Content::bytes(bytes)),
            (None, Some(range)) => Self::source(range),
            (None, None) => return Err(Status::INVALID_VALUE),
        };
        self.moving(
            route,
            bytes,
            Effect::Move(Transfer {
                to: Some(to),
                from,
                bytes,
                by,
                faults,
                way,
            }),
        )
    }

    /// The route from GPU memory to GPU memory: within one GPU, directly, or through the host.
    fn between(
        &mut self,
        by: usize,
        from: &MemoryRange,
        to: &MemoryRange,
        bytes: u64,
        addresses: [u64; 2],
    ) -> (Route, Vec<Fault>, Way) {
        let (
            MemoryRange::Gpu {
                owner: a,
                direct: d,
                ..
            },
            MemoryRange::Gpu {
                owner: b,
                direct: e,
                ..
            },
        ) = (from, to)
        else {
            return (Route::alone(0.0, f64::INFINITY), Vec::new(), Way::Write);
        };
        let (a, b) = (*a, *b);
        if a == b {
            return (
                self.scenario.local(a, EngineKind::Ce, 2.0),
                Vec::new(),
                Way::Write,
            );
        }
        let (way, remote) = if by == b {
            (Way::Read, from)
        } else {
            (Way::Write, to)
        };
        let transfer = self.peer_transfer(
            by,
            (a, b),
            (EngineKind::Ce, way),
            remote.spans(),
            bytes,
            addresses,
        );
        match transfer {
            Some(transfer) if *d && *e => {
                let faults = self.faults.met_by(&self.scenario, &transfer);
                (self.scenario.direct(a, b, EngineKind::Ce, way), faults, way)
            }
            _ => (self.scenario.staged(a, b), Vec::new(), way),
        }
    }

    fn chase(&mut self, by: usize, start: u64, steps: u64, out: u64) -> Result<StartOutcome> {
        let range = self.resolve(by, start, 8, EngineKind::Sm)?;
        let (route, faults) = self.access(by, &range, Way::Read, 8, [start, 0]);
        let each = match &range {
            MemoryRange::Host { .. } => self.scenario.figures.host.chase_ns,
            MemoryRange::Gpu { owner, .. } if *owner == by => self.scenario.figures.local.chase_ns,
            MemoryRange::Gpu { owner, .. } => {
                self.scenario.pair(by, *owner).chase_ns.of(by, *owner)
            }
        };
        let slow = faults
            .iter()
            .filter(|f| f.kind == Kind::Slow)
            .filter_map(|f| f.rate)
            .product::<f64>();
        let takes = steps as f64 * each / slow * latency_factor(&faults);
        let cycles = self.cycles(takes);
        let effect = Effect::Chase {
            start,
            steps,
            out,
            cycles,
            by,
            faults: faults.clone(),
        };
        self.moving_with(
            Route {
                latency: route.latency + takes,
                ..route
            },
            8,
            effect,
            &faults,
        )
    }

    fn ping_pong(&mut self, id: StreamId, by: usize, args: PingPong) -> Result<StartOutcome> {
        let mailbox = super::pingpong::mailbox(&args);
        let mine = self.resolve(by, args.mine, mailbox, EngineKind::Sm)?;
        let theirs = self.resolve(by, args.theirs, mailbox, EngineKind::Sm)?;
        self.resolve(by, args.out, 40, EngineKind::Sm)?;
        let until = self.deadline(self.nanoseconds(args.cycles));
        Ok(
            match self.start_ping_pong(
                id,
                PingPongSide {
                    by,
                    args,
                    mine,
                    theirs,
                },
            ) {
                Ok(running) => StartOutcome::running(running),
                Err(waiting) => StartOutcome::running(Running::AwaitPartner {
                    waiting: *waiting,
                    until,
                }),
            },
        )
    }

    /// Where data comes from.
    fn source(range: &MemoryRange) -> Source {
        match range {
            MemoryRange::Host { address, pinned } => Source::Host {
                address: *address,
                pinned: *pinned,
            },
            MemoryRange::Gpu { spans, .. } => Source::Spans(spans.clone()),
        }
    }

    /// Starts a transfer over `route`, applying faults that slow it down or make it fail.
    pub(super) fn moving(
        &mut self,
        route: Route,
        bytes: u64,
        effect: Effect,
    ) -> Result<StartOutcome> {
        let faults = effect.faults();
        self.moving_with(route, bytes, effect, &faults)
    }

    fn moving_with(
        &mut self,
        mut route: Route,
        bytes: u64,
        effect: Effect,
        faults: &[Fault],
    ) -> Result<StartOutcome> {
        // The copies of one table often meet the same fault, which slows them down only once.
        let mut slow = 1.0_f64;
        for fault in faults {
            match (fault.kind, fault.rate) {
                (Kind::Hang, _) => return Ok(StartOutcome::running(Running::Hung(None))),
                (Kind::Error, _) => return Err(Status(fault.code)),
                (Kind::Slow, Some(rate)) => slow = slow.min(rate),
                _ => {}
            }
        }
        route.flow.max_rate *= slow;
        let detour = faults.iter().any(|fault| fault.kind == Kind::Detour);
        if let Some((from, to)) = route
            .peers
            .filter(|(a, b)| self.scenario.is_on_nvlink(*a, *b) && !detour)
        {
            self.nvlink_bytes.add(from, to, bytes);
        }
        // A chase has already applied this to each load.
        let late = if matches!(effect, Effect::Chase { .. }) {
            1.0
        } else {
            latency_factor(faults)
        };
        let (latency, bytes) = (route.latency * late, bytes as f64);
        let small = bytes <= SMALL;
        let begins = self.now + latency;
        let left = if small { 0.0 } else { bytes };
        Ok(StartOutcome::running(Running::Moving {
            begins,
            left,
            route,
            effect,
        }))
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
    pub(super) fn deadline(&self, ns: f64) -> Duration {
        let wait = Duration::try_from_secs_f64(ns / 1e9).unwrap_or(Duration::MAX);
        self.host.clock().saturating_add(wait.max(MIN_WAIT))
    }
}

impl Engine {
    /// A direct transfer; `None` if it involves no peer's memory.
    pub(super) fn peer_transfer(
        &self,
        by: usize,
        (from, to): (usize, usize),
        (engine, way): (EngineKind, Way),
        remote: &[crate::memory::Span],
        bytes: u64,
        addresses: [u64; 2],
    ) -> Option<PeerTransfer> {
        let first = remote.first()?;
        let store = self.memory.stores.get(&first.store);
        let shared = store.is_some_and(|s| s.adopted || s.shared.is_some());
        let allocation = store.map_or(u64::MAX, |s| s.bytes);
        let counts = self.scenario.fault.iter().any(|f| f.load > 0);
        let load = if counts {
            self.transfers_in_progress()
        } else {
            0
        };
        let looks = self.scenario.fault.iter().any(|f| f.beside.is_some());
        let beside = if looks {
            self.movers_in_progress()
        } else {
            Vec::new()
        };
        let physical = first.physical;
        let write = PeerTransfer::write(from, to, first.kind, bytes);
        Some(PeerTransfer {
            by,
            engine,
            way,
            physical,
            allocation,
            addresses,
            shared,
            load,
            beside,
            ..write
        })
    }

    /// The transfer that a copy by a copy engine of GPU `by` would be, if it goes directly between GPUs.
    pub(super) fn copy_transfer(
        &self,
        by: usize,
        dst: u64,
        src: u64,
        bytes: u64,
    ) -> Option<PeerTransfer> {
        let [from, to] = [src, dst].map(|at| self.resolve(by, at, bytes, EngineKind::Ce).ok());
        let (
            MemoryRange::Gpu {
                owner: a,
                direct: true,
                spans: s,
            },
            MemoryRange::Gpu {
                owner: b,
                direct: true,
                spans: t,
            },
        ) = (from?, to?)
        else {
            return None;
        };
        let (way, remote) = if by == b {
            (Way::Read, s)
        } else {
            (Way::Write, t)
        };
        if a == b {
            None
        } else {
            self.peer_transfer(
                by,
                (a, b),
                (EngineKind::Ce, way),
                &remote,
                bytes,
                [src, dst],
            )
        }
    }

    /// Number of transfers between GPUs that are in progress.
    fn transfers_in_progress(&self) -> usize {
        self.streams
            .values()
            .filter(|s| moves_between_gpus(s))
            .count()
    }

    /// What moves data in the transfers that are in progress.
    fn movers_in_progress(&self) -> Vec<Mover> {
        let mover = |stream: &super::Stream| match &stream.running {
            Some(Running::Moving { route, .. }) if route.mover != Mover::Other => Some(route.mover),
            _ => None,
        };
        self.streams.values().filter_map(mover).collect()
    }

    /// Whether this GPU moves data to or from another one.
    fn moves_to_another(&self, gpu: usize) -> bool {
        self.streams
            .values()
            .any(|s| s.gpu == gpu && moves_between_gpus(s))
    }
}

/// Whether a stream moves data between two GPUs.
fn moves_between_gpus(stream: &super::Stream) -> bool {
    matches!(&stream.running, Some(Running::Moving { route, .. }) if route.peers.is_some())
}

/// The factor by which small operations take longer: the maximum over all faults, as a table's copies often meet the same
/// one.
pub(super) fn latency_factor(faults: &[Fault]) -> f64 {
    faults
        .iter()
        .filter(|f| f.kind == Kind::Late)
        .filter_map(|f| f.rate)
        .fold(1.0, f64::max)
}
