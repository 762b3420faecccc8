//! Keeps all pairs busy for a minute. Where GPUs cannot have all their peers at once, the rounds of the plan
//! take turns.

use super::{MOVERS, Results, SOAK, Second, SoakMover};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{Bench, Flow, GpuPaths, RoundAccess, states_now, wrong_data};
use gpu::State;
use outcome::finding::{Code, Finding, Severity, Subject};
use report::stats::gb_s;
use std::time::{Duration, Instant};

/// The approximate time between two checks, ms.
const RUN_MS: f64 = 200.0;
const MOST_COPIES: f64 = 64.0;
const SECOND: Duration = Duration::from_secs(1);
/// More findings of wrong data than this add nothing.
const ENOUGH: usize = 16;

/// Runs and measures the traffic.
pub(super) fn all(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let rounds = paths.rounds();
    let mut soak = Soak {
        context,
        bench,
        paths,
        results,
        start: Instant::now(),
        second: Instant::now(),
        moved: (0, 0.0),
    };
    let everything = RoundAccess::of(context, &rounds.concat())?;
    if everything.without_access.is_empty() {
        return MOVERS
            .iter()
            .try_for_each(|by| soak.run_traffic(&everything.pairs, *by, SOAK * by.tenths / 10));
    }
    drop(everything);
    soak.results.in_turns = true;
    let turn = SOAK / u32::try_from(rounds.len()).unwrap_or(u32::MAX).max(1);
    for round in rounds {
        let access = RoundAccess::of(context, &round)?;
        MOVERS
            .iter()
            .try_for_each(|by| soak.run_traffic(&access.pairs, *by, turn * by.tenths / 10))?;
    }
    Ok(())
}

struct Soak<'a, 'b> {
    context: &'a TestContext,
    bench: &'a Bench<'b>,
    paths: &'a GpuPaths,
    results: &'a mut Results,
    start: Instant,
    /// The current second.
    second: Instant,
    /// Bytes moved in it, and their time by the GPUs' clocks, ms: the host's time would include checks and
    /// other work of the host.
    moved: (u64, f64),
}

impl Soak<'_, '_> {
    /// Keeps both directions of all `pairs` busy for `duration`.
    fn run_traffic(
        &mut self,
        pairs: &[Pair],
        by: SoakMover,
        duration: Duration,
    ) -> Result<(), Box<Finding>> {
        if pairs.is_empty() {
            return Ok(());
        }
        let directed = by_shift(pairs, self.bench.gpus());
        let flows = |times, in_turn| {
            let flow = |pair: &Pair| Flow {
                in_turn,
                by: by.by,
                ..Flow::write(*pair, by.method, 0, times)
            };
            directed
                .iter()
                .map(|pair| self.bench.for_peer(flow(pair)))
                .collect::<Vec<_>>()
        };
        let in_turn = self
            .bench
            .serializes_transfers(self.context, self.paths, &directed)?;
        let first = self
            .bench
            .once(self.context, &[flows(1, in_turn)], &mut || true)?;
        let group = [flows(
            first.first().map_or(1, |timed| copies(timed.total)),
            in_turn,
        )];
        let bytes: u64 = group.iter().flatten().map(Flow::total).sum();
        let until = Instant::now() + duration;
        (self.second, self.moved) = (Instant::now(), (0, 0.0));
        while Instant::now() < until && self.results.findings.len() < ENOUGH {
            let due = self.second.elapsed() >= SECOND;
            let mut states = None;
            let context = self.context;
            let poll = &mut || {
                if due && states.is_none() {
                    states = Some(states_now(context));
                }
                true
            };
            for timed in self.bench.once(context, &group, poll)? {
                self.results.findings.extend(
                    timed
                        .wrong
                        .map(|(flow, checked)| wrong_data(&flow, &checked)),
                );
                self.moved.0 += bytes;
                self.moved.1 += timed.total;
            }
            self.results.transfers += pairs.len() as u64 * 2;
            self.end_second(by, states)?;
        }
        Ok(())
    }

    /// Ends a second once its states were read.
    fn end_second(
        &mut self,
        by: SoakMover,
        states: Option<Vec<Option<State>>>,
    ) -> Result<(), Box<Finding>> {
        let Some(states) = states else { return Ok(()) };
        let (bytes, ms) = self.moved;
        let gb_s = gb_s(bytes, ms).map_err(|why| {
            let message = format!("all pairs at once: {why}");
            Box::new(Code::CudaError.finding(Severity::Error, Subject::Machine, message))
        })?;
        self.results.seconds.push(Second {
            at: self.start.elapsed().as_secs_f64(),
            by: by.name,
            gb_s,
            states,
        });
        (self.second, self.moved) = (Instant::now(), (0, 0.0));
        Ok(())
    }
}

/// Both directions of the pairs, ordered by shift: then GPUs that move one transfer after the other never send to the
/// same GPU at the same time, and their speed does not depend on chance.
fn by_shift(pairs: &[Pair], gpus: usize) -> Vec<Pair> {
    let mut directed: Vec<_> = pairs.iter().flat_map(|pair| [*pair, pair.back()]).collect();
    directed.sort_by_key(|pair| {
        (
            (pair.to.index() + gpus - pair.from.index()) % gpus,
            pair.from,
        )
    });
    directed
}

/// The number of copies that keep all busy between two checks, when one of each takes `ms`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1 to 64"
)]
fn copies(ms: f64) -> u32 {
    if ms > 0.0 {
        (RUN_MS / ms).clamp(1.0, MOST_COPIES) as u32
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_a_shift_no_two_gpus_send_to_the_same_one() {
        let pairs: Vec<_> = Pair::all(4).filter(|pair| pair.from < pair.to).collect();
        let directed = by_shift(&pairs, 4);
        assert_eq!(directed.len(), 12);
        for shift in directed.chunks(4) {
            let receivers: std::collections::BTreeSet<_> =
                shift.iter().map(|pair| pair.to).collect();
            assert_eq!(receivers.len(), 4, "{shift:?}");
        }
    }

    #[test]
    fn runs_are_short_enough_to_be_checked_often() {
        assert_eq!(
            [0.5, 4.0, 50.0, 900.0, f64::NAN].map(copies),
            [64, 50, 4, 1, 1]
        );
    }
}
