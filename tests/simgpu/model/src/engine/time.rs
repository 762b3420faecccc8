//! Advances time: starts work, computes the rates of simultaneous transfers, and completes what ends next.

use super::begin::StartOutcome;
use super::finish::Effect;
use super::{Engine, Running, StreamId};
use crate::flow;
use crate::links::{Link, Mover, Route};
use crate::scenario::{Kind, Way};
use crate::status::Status;
use std::collections::{BTreeMap, BTreeSet};

/// A duration that counts as zero, in ns.
const INSTANT: f64 = 0.01;

impl Engine {
    /// Runs all work as far as possible.
    pub fn run(&mut self) {
        // The host may meanwhile have done what a stream waits for.
        self.ready.clone_from(&self.active);
        self.released = None;
        loop {
            while let Some(id) = self.ready.pop_first() {
                while self.begin_next(id) {}
            }
            match self.next_interval() {
                Some(interval) => self.advance(&interval),
                None if self.message_arrived() => self.ready.clone_from(&self.active),
                None => {
                    self.nvlink_bytes.write();
                    return self.work_time.write(self.now);
                }
            }
        }
    }

    /// Starts a stream's next work, if it is its turn. Returns whether more may follow immediately.
    fn begin_next(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else {
            self.active.remove(&id);
            return false;
        };
        let gpu = stream.gpu;
        if stream.running.is_some() {
            self.check_wait(id);
            return false;
        }
        let Some(work) = stream.queue.pop_front() else {
            self.active.remove(&id);
            return false;
        };
        match self.begin(id, gpu, &work) {
            Ok(StartOutcome::Done) => {
                // A blocked stream may be waiting for this record.
                self.ready.append(&mut self.blocked);
                true
            }
            Ok(StartOutcome::Blocked) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.queue.push_front(work);
                }
                self.blocked.insert(id);
                false
            }
            Ok(StartOutcome::Running(running)) => {
                self.set_running(id, *running);
                false
            }
            Err(status) => {
                self.lose_context(gpu, status);
                true
            }
        }
    }

    /// Ends waiting for the host, if the host has set the flag or the timeout has passed.
    fn check_wait(&mut self, id: StreamId) {
        match self.streams.get(&id).and_then(|s| s.running.as_ref()) {
            Some(Running::Spin {
                flag, until, takes, ..
            }) => {
                let (flag, until, takes) = (*flag, *until, *takes);
                self.materialize(flag);
                let set = self.host.word(flag) != 0;
                if !set && self.host.clock() < until {
                    return;
                }
                let begins = if set {
                    self.released_at(flag)
                } else {
                    self.now + takes
                };
                let route = Route::alone(begins - self.now, f64::INFINITY);
                self.set_running(
                    id,
                    Running::Moving {
                        begins,
                        left: 0.0,
                        route,
                        effect: Effect::Nothing,
                    },
                );
            }
            Some(Running::AwaitRanks { call, .. }) => {
                let key = (call.comm, call.number);
                self.start_if_complete(key);
            }
            Some(Running::AllReduce(_)) => {
                let gpu = self.streams.get(&id).map(|s| s.gpu).unwrap_or_default();
                if let Err(status) = self.continue_all_reduce(id) {
                    self.lose_context(gpu, status);
                }
            }
            Some(Running::AwaitPartner { until, .. }) if self.host.clock() >= *until => {
                self.end_without_partner(id);
            }
            _ => {}
        }
    }

    /// When the streams that waited for this flag continue: as much simulated time has passed as host time, since this is
    /// the one duration that a program can compare.
    fn released_at(&mut self, flag: u64) -> f64 {
        if let Some((_, at)) = self.released.filter(|(known, _)| *known == flag) {
            return at.max(self.now);
        }
        let clock = self.host.clock();
        let spins = self
            .streams
            .values()
            .filter_map(|s| match s.running.as_ref()? {
                Running::Spin {
                    flag: waits,
                    since: (real, simulated),
                    ..
                } if *waits == flag => {
                    Some(simulated + clock.saturating_sub(*real).as_secs_f64() * 1e9)
                }
                _ => None,
            });
        let at = spins.fold(self.now, f64::max);
        self.released = Some((flag, at));
        at
    }

    pub(super) fn set_running(&mut self, id: StreamId, running: Running) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.running = Some(running);
        }
    }

    /// Marks a GPU's context as lost and drops all its work.
    fn lose_context(&mut self, gpu: usize, status: Status) {
        if let Some(state) = self.gpus.get_mut(gpu) {
            state.lost.get_or_insert(status);
        }
        for (id, stream) in self.streams.iter_mut().filter(|(_, s)| s.gpu == gpu) {
            stream.queue.clear();
            stream.running = None;
            self.ready.insert(*id);
        }
    }

    /// The rates of all transfers in progress, and when the next one ends; `None` if none is in progress.
    fn next_interval(&self) -> Option<Interval> {
        let mut moving = Vec::new();
        let mut flows = Vec::new();
        let mut until = f64::INFINITY;
        for id in &self.active {
            let running = self.streams.get(id).and_then(|s| s.running.as_ref());
            let Some(Running::Moving {
                begins,
                left,
                route,
                ..
            }) = running
            else {
                continue;
            };
            if *begins > self.now || *left <= 0.0 {
                until = until.min(begins.max(self.now));
            } else {
                moving.push((*id, *left, 0.0));
                flows.push(route);
            }
        }
        let collapsed = self.collapsed(&flows);
        let shares: Vec<_> = flows.iter().map(|r| &r.flow).collect();
        let rates = flow::share(&shares, |link| {
            self.scenario.capacity(link) * collapse_factor(&collapsed, link)
        });
        for ((_, left, rate), new) in moving.iter_mut().zip(rates) {
            *rate = new.max(1e-9);
            until = until.min(self.now + *left / *rate);
        }
        let resolution = resolution(moving.len());
        let until = if resolution > 0.0 {
            (until / resolution).ceil() * resolution
        } else {
            until
        };
        until.is_finite().then_some(Interval { until, moving })
    }

    /// The GPUs on which enough transfers run simultaneously for a collapse, with the fraction of their links' rate that is
    /// left.
    fn collapsed(&self, flows: &[&Route]) -> BTreeMap<usize, f64> {
        let mut found = BTreeMap::new();
        for fault in self
            .scenario
            .fault
            .iter()
            .filter(|f| f.kind == Kind::Collapse)
        {
            let mut count: BTreeMap<usize, usize> = BTreeMap::new();
            let moved = |route: &Route| match route.mover {
                Mover::Peers(engine, way) => {
                    fault.engine.is_none_or(|e| e == engine) && fault.way.is_none_or(|w| w == way)
                }
                Mover::Host | Mover::Other => false,
            };
            let peers = flows.iter().filter(|r| moved(r)).filter_map(|r| r.peers);
            for (from, to) in peers.filter(|p| fault.pair.has(p.0, p.1)) {
                for gpu in [from, to] {
                    *count.entry(gpu).or_default() += 1;
                }
            }
            let hit = count
                .into_iter()
                .filter(|(_, n)| *n >= fault.flows)
                .map(|(gpu, _)| gpu);
            found.extend(hit.map(|gpu| (gpu, fault.rate.unwrap_or(1.0))));
        }
        for fault in self
            .scenario
            .fault
            .iter()
            .filter(|f| f.kind == Kind::SwitchCollapse)
        {
            found.extend(
                self.behind_collapsed(flows, fault.flows)
                    .map(|gpu| (gpu, fault.rate.unwrap_or(1.0))),
            );
        }
        found
    }

    /// The GPUs behind uplinks over which `senders` of them write to GPUs behind two or more other uplinks.
    fn behind_collapsed(&self, flows: &[&Route], senders: usize) -> impl Iterator<Item = usize> {
        let uplinks = &self.scenario.figures.uplink;
        let behind = |gpu: usize| uplinks.iter().position(|uplink| uplink.gpus.contains(&gpu));
        let mut written: BTreeMap<usize, (BTreeSet<usize>, BTreeSet<usize>)> = BTreeMap::new();
        for route in flows
            .iter()
            .filter(|route| matches!(route.mover, Mover::Peers(_, Way::Write)))
        {
            let Some((from, to)) = route.peers else {
                continue;
            };
            let (Some(here), Some(there)) = (behind(from), behind(to)) else {
                continue;
            };
            if here != there {
                let (by, to) = written.entry(here).or_default();
                by.insert(from);
                to.insert(there);
            }
        }
        let hit = written
            .into_iter()
            .filter(move |(_, (by, to))| by.len() >= senders && to.len() > 1);
        hit.flat_map(|(here, (by, _))| by.into_iter().map(move |gpu| (here, gpu)))
            .map(|(_, gpu)| gpu)
    }

    /// Advances the clock, and completes what has ended.
    fn advance(&mut self, interval: &Interval) {
        let passed = interval.until - self.now;
        let instant = INSTANT.max(self.now * 1e-15);
        for (id, left, rate) in &interval.moving {
            let running = self.streams.get_mut(id).and_then(|s| s.running.as_mut());
            if let Some(Running::Moving { left: bytes, .. }) = running {
                let rest = left - passed * rate;
                // A remainder this short counts as nothing: what ends together must end in one step, and after hours the
                // clock cannot represent smaller steps.
                *bytes = if rest < rate * instant { 0.0 } else { rest };
            }
        }
        self.now = interval.until;
        let active: Vec<_> = self.active.iter().copied().collect();
        for id in active {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            let ended = matches!(&stream.running,
                Some(Running::Moving { begins, left, .. }) if *begins <= self.now && *left <= 0.0);
            if !ended {
                continue;
            }
            let gpu = stream.gpu;
            self.ready.insert(id);
            if self.scenario.one_by_one() {
                self.ready.append(&mut self.blocked);
            }
            if let Some(Running::Moving { effect, .. }) = stream.running.take()
                && let Err(status) = self.finish(effect)
            {
                self.lose_context(gpu, status);
            }
        }
    }
}

/// Resolution of time in ns while `moving` transfers run: transfers that end at nearly the same time end in one step, since
/// each step computes all shares again. With many at a time, each takes thousands of times as long.
fn resolution(moving: usize) -> f64 {
    match moving {
        0..=32 => 0.0,
        33..=512 => 5_000.0,
        _ => 20_000.0,
    }
}

/// The transfers until the next step: stream, bytes left, GB/s.
struct Interval {
    until: f64,
    moving: Vec<(StreamId, f64, f64)>,
}

/// The fraction of a link's rate that a collapse leaves.
fn collapse_factor(collapsed: &BTreeMap<usize, f64>, link: Link) -> f64 {
    match link {
        Link::Out(gpu) | Link::In(gpu) | Link::Link(gpu) => {
            collapsed.get(&gpu).copied().unwrap_or(1.0)
        }
        _ => 1.0,
    }
}
