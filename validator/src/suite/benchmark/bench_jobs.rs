//! Runs and samples jobs on a bench: reports the current work first, and turns a fault into a finding.

use super::bench::Bench;
use super::flow::{CopyMethod, Flow, MOST_COPIES};
use super::paths::GpuPaths;
use super::run::GroupTiming;
use super::sampling::{Job, JobResult, sampled};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::shared::gpu_fault::fault_finding;
use gpu::GpuError;
use outcome::finding::{Code, Finding, Severity, Subject};
use report::stats::{RepeatPolicy, Unusable};
use std::collections::BTreeMap;

/// How many transfers of a round are named.
const NAMED: usize = 4;

/// If the transfers of one GPU each take less than this part of the whole time, on average, the GPU moves them
/// one after the other. On 4 H200, three transfers take 0.33 to 0.56 of it; transfers that run at the same time
/// take nearly all.
const SERIAL_FRACTION: f64 = 0.7;
/// In how many runs this must be seen.
const TRIES: usize = 3;

/// Why sampling failed.
enum SampleError {
    Gpu(GpuError),
    Unusable(Unusable),
}

impl From<Unusable> for SampleError {
    fn from(unusable: Unusable) -> Self {
        Self::Unusable(unusable)
    }
}

impl Bench<'_> {
    /// Runs `groups` at the same time, once.
    ///
    /// # Errors
    /// A fault of CUDA or of a GPU.
    pub(in crate::suite) fn once(
        &self,
        context: &TestContext,
        groups: &[Vec<Flow>],
        poll: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<GroupTiming>, Box<Finding>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        context.doing(doing(groups));
        self.run_polling(groups, poll)
            .map_err(|e| fault_finding(subject(groups), &e))
    }

    /// Whether a GPU moves its transfers to several others one after the other. The speed of many GPUs together
    /// is then no measure of their links, unless the order is given: which of them send to the same GPU would
    /// be chance. Tests the GPU that sends to most others over similar paths, if it sends to two at least;
    /// `pairs` have access.
    ///
    /// # Errors
    /// A fault of CUDA or of a GPU.
    pub(in crate::suite) fn serializes_transfers(
        &self,
        context: &TestContext,
        paths: &GpuPaths,
        pairs: &[Pair],
    ) -> Result<bool, Box<Finding>> {
        let flow = |pair: Pair| self.for_peer(Flow::write(pair, CopyMethod::Ce, 0, MOST_COPIES));
        let fan_out: Vec<_> = fan_out(pairs, |pair| paths.path_group(pair))
            .into_iter()
            .map(flow)
            .collect();
        if fan_out.len() < 2 {
            return Ok(false);
        }
        for _ in 0..TRIES {
            let timed = self.once(context, std::slice::from_ref(&fan_out), &mut || true)?;
            if !timed
                .first()
                .is_some_and(|timed| timed.overlap() < SERIAL_FRACTION)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Samples `jobs`, all at the same time.
    ///
    /// # Errors
    /// A fault of CUDA or of a GPU, or a clock with impossible values.
    pub(in crate::suite) fn sampled(
        &self,
        context: &TestContext,
        policy: &RepeatPolicy,
        jobs: &[Job],
    ) -> Result<Vec<JobResult>, Box<Finding>> {
        let all: Vec<_> = jobs.iter().map(|job| job.flows.clone()).collect();
        if !all.is_empty() {
            context.doing(doing(&all));
        }
        let taken = sampled(policy, jobs, |chosen| {
            let groups: Vec<_> = chosen.iter().map(|job| job.flows.clone()).collect();
            self.run(&groups).map_err(SampleError::Gpu)
        });
        taken.map_err(|error| match error {
            SampleError::Gpu(error) => fault_finding(subject(&all), &error),
            SampleError::Unusable(why) => {
                let message = format!("{}: {why}", doing(&all));
                Box::new(Code::CudaError.finding(Severity::Error, subject(&all), message))
            }
        })
    }
}

/// `GPU 0 -> 1: copy engine writes .., GPU 2 -> 3: ..`
fn doing(groups: &[Vec<Flow>]) -> String {
    let flows: Vec<_> = groups.iter().flatten().collect();
    let names: Vec<_> = flows.iter().take(NAMED).map(ToString::to_string).collect();
    match flows.len().saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more at once", names.join(", ")),
    }
}

fn subject(groups: &[Vec<Flow>]) -> Subject {
    let mut flows = groups.iter().flatten();
    match (flows.next(), flows.next()) {
        (Some(flow), None) => flow.pair.into(),
        _ => Subject::Machine,
    }
}

/// The largest set of these pairs that have the same sender and the same path group.
fn fan_out(pairs: &[Pair], path_group: impl Fn(Pair) -> String) -> Vec<Pair> {
    let mut fan_outs: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for pair in pairs {
        fan_outs
            .entry((pair.from, path_group(*pair)))
            .or_default()
            .push(*pair);
    }
    fan_outs
        .into_values()
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_is_of_one_sender_and_of_one_kind() {
        let all: Vec<_> = Pair::all(4).filter(|pair| pair.from != pair.to).collect();
        let socket = |pair: Pair| (pair.from.index() / 2 == pair.to.index() / 2).to_string();
        assert_eq!(
            fan_out(&all, |_| String::new()),
            [Pair::of(3, 0), Pair::of(3, 1), Pair::of(3, 2)]
        );
        assert_eq!(fan_out(&all, socket), [Pair::of(3, 0), Pair::of(3, 1)]);
        assert_eq!(fan_out(&[], socket), []);
    }

    #[test]
    fn transfers_that_run_one_after_the_other_overlap_less() {
        let timed = |each: &[f64]| GroupTiming {
            each: each.to_vec(),
            total: 3.0,
            queued: Vec::new(),
            wrong: None,
        };
        // Measured on 4 H200: one after the other, and two of three at the same time.
        assert!(
            [&[1.0, 1.0, 1.0][..], &[1.0, 1.0, 3.0]]
                .iter()
                .all(|each| timed(each).overlap() < SERIAL_FRACTION)
        );
        assert!(timed(&[2.9, 3.0, 2.8]).overlap() > SERIAL_FRACTION);
        assert!(
            timed(&[]).overlap().is_nan(),
            "no transfer is not one after the other"
        );
    }

    #[test]
    fn a_few_transfers_are_named_and_more_are_counted() {
        let groups = |n: usize| -> Vec<_> {
            (0..n)
                .map(|k| vec![Flow::write(Pair::of(k, k + 1), CopyMethod::Ce, 4, 1)])
                .collect()
        };
        assert_eq!(
            doing(&groups(1)),
            "GPU 0 -> 1: copy engine writes 1 x 4 bytes"
        );
        assert!(
            doing(&groups(6)).ends_with("and 2 more at once"),
            "{}",
            doing(&groups(6))
        );
        assert_eq!(
            (subject(&groups(1)), subject(&groups(2))),
            (Pair::of(0, 1).into(), Subject::Machine)
        );
    }
}
