//! Runs transfers at the same time, once, and returns how long each took and whether its data arrived. The
//! owner of the source fills it with a fresh pattern and the owner of the target with another, everything is
//! queued behind a latch, and afterwards the target's owner checks every word.

use super::bench::{Bench, BenchGpu, Lane};
use super::flow::{CopyMethod, Flow, patience};
use super::host_load::{HostLoad, WrongHostCopy};
use gpu::{CheckCounts, Event, GpuError, Tally};
use machine::GpuId;
use std::time::Instant;

/// How long a parked queue waits for the host at most, clocks: p2pBandwidthLatencyTest's number.
pub(super) const PARKED: u64 = 10_000_000;

/// The times of a group of transfers that ran together.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::suite) struct GroupTiming {
    /// The time of each transfer by its own clock, ms.
    pub(in crate::suite) each: Vec<f64>,
    /// From the first start until all had stopped, ms.
    pub(in crate::suite) total: f64,
    /// How long the host took to queue each, ms.
    pub(in crate::suite) queued: Vec<f64>,
    /// The first transfer with wrong data, and its check.
    pub(in crate::suite) wrong: Option<(Flow, CheckCounts)>,
}

impl GroupTiming {
    /// Which part of the whole time a transfer takes, on average: 1 if all run from the first start to the last stop.
    #[expect(clippy::cast_precision_loss, reason = "a few hundred transfers")]
    pub(super) fn overlap(&self) -> f64 {
        self.each.iter().sum::<f64>() / (self.each.len() as f64 * self.total)
    }
}

/// The lane and the tally that a transfer uses, by index, and its patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LaneAssignment {
    flow: Flow,
    lane: usize,
    tally: usize,
    /// Seeds of the patterns: of the data sent, and of the previous content of the target.
    sent: u64,
    before: u64,
}

/// A transfer with the resources that it uses.
struct Running<'a> {
    assignment: LaneAssignment,
    from: &'a BenchGpu,
    to: &'a BenchGpu,
    lane: &'a Lane,
    tally: &'a Tally,
}

impl Bench<'_> {
    /// Runs `groups`, all at the same time; the clocks of one group start together.
    pub(in crate::suite) fn run(&self, groups: &[Vec<Flow>]) -> Result<Vec<GroupTiming>, GpuError> {
        self.run_polling(groups, &mut || true)
    }

    /// As `run`; `poll` is called while the transfers run, until it returns true.
    pub(in crate::suite) fn run_polling(
        &self,
        groups: &[Vec<Flow>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<GroupTiming>, GpuError> {
        self.run_beside(groups, &mut |_| Ok(()), poll)
    }

    /// As `run`, while the copies of `load` are under way, `times` in each direction of each GPU; also the first wrong
    /// data of these.
    pub(in crate::suite) fn run_with_host(
        &self,
        groups: &[Vec<Flow>],
        load: &HostLoad<'_>,
        times: u32,
    ) -> Result<(Vec<GroupTiming>, Option<WrongHostCopy>), GpuError> {
        let sent = self.fresh_seed();
        load.prepare(sent)?;
        let timed = self.run_beside(groups, &mut |start| load.queue(start, times), &mut || true)?;
        Ok((timed, load.finish(sent)?))
    }

    /// As `run_polling`; `beside` queues other work, which waits for the event that it gets: the start of the first
    /// transfer.
    fn run_beside(
        &self,
        groups: &[Vec<Flow>],
        beside: &mut dyn FnMut(&Event) -> Result<(), GpuError>,
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<GroupTiming>, GpuError> {
        let groups = assign_lanes(groups, || (self.fresh_seed(), self.fresh_seed()));
        let groups: Vec<Vec<Running<'_>>> = groups
            .into_iter()
            .map(|assignments| {
                assignments
                    .into_iter()
                    .map(|assignment| self.running(assignment))
                    .collect()
            })
            .collect::<Result<_, _>>()?;
        self.latch.close();
        for running in groups.iter().flatten() {
            self.fill(running)?;
        }
        let queued = groups
            .iter()
            .map(|group| self.queue(group))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(first) = groups.iter().flatten().next() {
            beside(&first.lane.start)?;
        }
        self.latch.open();
        while !poll() && !idle(groups.iter().flatten().map(|r| r.lane))? {}
        let within = patience(groups.iter().flatten().map(|r| &r.assignment.flow));
        for running in groups.iter().flatten() {
            let doing = running.assignment.flow.to_string();
            running.lane.finish(&doing, within)?;
            running
                .to
                .own_stream
                .finish(&format!("{doing}: checking"), within)?;
        }
        groups
            .iter()
            .zip(queued)
            .map(|(group, queued)| timed(group, queued))
            .collect()
    }

    fn running(&self, assignment: LaneAssignment) -> Result<Running<'_>, GpuError> {
        let none =
            || GpuError::Nonsense(format!("{}: too many transfers at once", assignment.flow));
        let (from, to) = (
            self.bench_gpu(assignment.flow.pair.from)?,
            self.bench_gpu(assignment.flow.pair.to)?,
        );
        let lane = self
            .bench_gpu(assignment.flow.actor())?
            .lanes
            .get(assignment.lane)
            .ok_or_else(none)?;
        let tally = to.tallies.get(assignment.tally).ok_or_else(none)?;
        Ok(Running {
            assignment,
            from,
            to,
            lane,
            tally,
        })
    }

    /// Each owner fills its part; the transfer waits for both.
    fn fill(&self, running: &Running<'_>) -> Result<(), GpuError> {
        let Running {
            assignment,
            from,
            to,
            lane,
            ..
        } = running;
        from.own_stream
            .fill(self.source(&assignment.flow)?, assignment.sent, 0)?;
        to.own_stream
            .fill(self.target(&assignment.flow)?, assignment.before, 0)?;
        for bench_gpu in [from, to] {
            bench_gpu.own_stream.record(&bench_gpu.ready)?;
            lane.stream.wait_event(&bench_gpu.ready)?;
        }
        Ok(())
    }

    /// Queues a group: the first transfer waits at the latch, and each GPU's first transfer waits for its start. A
    /// GPU's further transfers begin in the group's order, microseconds apart or in turn. A GPU that moves one
    /// transfer after the other (H200) would otherwise choose the order, and many GPUs might send to the same one.
    /// Returns how long the host took to queue the copies of each, ms.
    fn queue(&self, group: &[Running<'_>]) -> Result<Vec<f64>, GpuError> {
        let Some((first, others)) = group.split_first() else {
            return Ok(Vec::new());
        };
        first.lane.stream.park(&self.latch, PARKED)?;
        let mut queued = vec![self.copies(first)?];
        for (other, n) in others.iter().zip(1..) {
            let flow = other.assignment.flow;
            let before = group
                .iter()
                .take(n)
                .rev()
                .find(|r| r.assignment.flow.actor() == flow.actor());
            let begins = match before {
                Some(before) if flow.in_turn => &before.lane.stop,
                before => &before.unwrap_or(first).lane.start,
            };
            other.lane.stream.wait_event(begins)?;
            queued.push(self.copies(other)?);
            first.lane.stream.wait_event(&other.lane.stop)?;
        }
        first.lane.stream.record(&first.lane.end)?;
        for running in group {
            let Running {
                assignment,
                to,
                tally,
                ..
            } = running;
            // Only after all have stopped, because checking is traffic too.
            to.own_stream.wait_event(&first.lane.end)?;
            to.own_stream.check(
                self.target(&assignment.flow)?,
                0,
                assignment.sent,
                assignment.before,
                tally,
            )?;
        }
        Ok(queued)
    }

    fn copies(&self, running: &Running<'_>) -> Result<f64, GpuError> {
        let Running {
            assignment: LaneAssignment { flow, .. },
            lane,
            ..
        } = running;
        let (to, from) = (self.target(flow)?, self.source(flow)?);
        let (to_gpu, from_gpu) = (self.gpu(flow.pair.to)?, self.gpu(flow.pair.from)?);
        lane.stream.record(&lane.start)?;
        let start = Instant::now();
        for _ in 0..flow.times {
            match flow.method {
                CopyMethod::Peer => lane.stream.copy_peer(to, to_gpu, from, from_gpu)?,
                CopyMethod::Ce => lane.stream.copy(to, from)?,
                CopyMethod::Sm => lane.stream.copy_sm(to, from)?,
            }
        }
        let took = start.elapsed();
        lane.stream.record(&lane.stop)?;
        Ok(took.as_secs_f64() * 1e3)
    }
}

/// Whether all queues are empty.
pub(super) fn idle<'a>(lanes: impl IntoIterator<Item = &'a Lane>) -> Result<bool, GpuError> {
    for lane in lanes {
        if !lane.is_idle()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn timed(group: &[Running<'_>], queued: Vec<f64>) -> Result<GroupTiming, GpuError> {
    let each = group
        .iter()
        .map(|r| r.lane.stop.ms_since(&r.lane.start))
        .collect::<Result<_, _>>()?;
    let total = group
        .first()
        .map_or(Ok(0.0), |r| r.lane.end.ms_since(&r.lane.start))?;
    let checked = |r: &Running<'_>| (r.assignment.flow, r.tally.checked());
    let wrong = group
        .iter()
        .map(checked)
        .find(|(flow, checked)| !arrived(flow, checked));
    Ok(GroupTiming {
        each,
        total,
        queued,
        wrong,
    })
}

/// Whether every word was checked and none is wrong.
const fn arrived(flow: &Flow, checked: &CheckCounts) -> bool {
    checked.wrong == 0 && checked.looked == flow.bytes / 4
}

/// Gives every transfer a lane of the GPU that moves it, a tally of the one that receives it, and two fresh
/// patterns.
fn assign_lanes(
    groups: &[Vec<Flow>],
    mut fresh: impl FnMut() -> (u64, u64),
) -> Vec<Vec<LaneAssignment>> {
    let (mut lanes, mut tallies) = (Vec::new(), Vec::new());
    let next = |used: &mut Vec<GpuId>, gpu: GpuId| {
        let before = used.iter().filter(|n| **n == gpu).count();
        used.push(gpu);
        before
    };
    let mut assignment = |flow: &Flow| {
        let (sent, before) = fresh();
        let (lane, tally) = (
            next(&mut lanes, flow.actor()),
            next(&mut tallies, flow.pair.to),
        );
        LaneAssignment {
            flow: *flow,
            lane,
            tally,
            sent,
            before,
        }
    };
    groups
        .iter()
        .map(|group| group.iter().map(&mut assignment).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Pair;

    #[test]
    fn transfers_of_one_gpu_get_lanes_and_tallies_of_their_own() {
        let flow = |from, to| Flow::write(Pair::of(from, to), CopyMethod::Ce, 16, 1);
        let mut seed = 0;
        let assignments = assign_lanes(
            &[
                vec![flow(0, 1), flow(1, 0)],
                vec![flow(0, 2)],
                vec![flow(1, 2)],
            ],
            || {
                seed += 2;
                (seed, seed + 1)
            },
        );
        let places: Vec<_> = assignments
            .concat()
            .iter()
            .map(|s| (s.lane, s.tally))
            .collect();
        assert_eq!(places, [(0, 0), (0, 0), (1, 0), (1, 1)]);
        let seeds: Vec<_> = assignments
            .concat()
            .iter()
            .flat_map(|s| [s.sent, s.before])
            .collect();
        assert_eq!(seeds, [2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
