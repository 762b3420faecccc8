//! Samples taken on a bench: the current work is reported first, and a fault becomes a finding.

use super::super::gpu_fault::during;
use super::bench::Bench;
use super::flow::Flow;
use super::run::Timed;
use super::sampling::{Job, Taken, sampled};
use crate::floors::stats::{Policy, Unusable};
use crate::gpu::GpuError;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::suite::Machine;

/// How many transfers of a round are named.
const NAMED: usize = 4;

/// Why there is no sample.
enum Trouble {
    Gpu(GpuError),
    Unusable(Unusable),
}

impl From<Unusable> for Trouble {
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
        machine: &Machine,
        groups: &[Vec<Flow>],
        look: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Timed>, Box<Finding>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        machine.doing(&doing(groups));
        self.run_and_look(groups, look).map_err(|e| during(&subject(groups), &e))
    }

    /// Samples `jobs`, all at the same time.
    ///
    /// # Errors
    /// A fault of CUDA or of a GPU, or a clock with impossible values.
    pub(in crate::suite) fn sampled(
        &self,
        machine: &Machine,
        policy: &Policy,
        jobs: &[Job],
    ) -> Result<Vec<Taken>, Box<Finding>> {
        let all: Vec<_> = jobs.iter().map(|job| job.flows.clone()).collect();
        if !all.is_empty() {
            machine.doing(&doing(&all));
        }
        let taken = sampled(policy, jobs, |chosen| {
            let groups: Vec<_> = chosen.iter().map(|job| job.flows.clone()).collect();
            self.run(&groups).map_err(Trouble::Gpu)
        });
        taken.map_err(|trouble| match trouble {
            Trouble::Gpu(error) => during(&subject(&all), &error),
            Trouble::Unusable(why) => {
                let message = format!("{}: {why}", doing(&all));
                Box::new(Code::CudaError.finding(Severity::Error, &subject(&all), message))
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

fn subject(groups: &[Vec<Flow>]) -> String {
    let mut flows = groups.iter().flatten();
    match (flows.next(), flows.next()) {
        (Some(flow), None) => flow.way.to_string(),
        _ => "machine".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::How;
    use super::*;
    use crate::schedule::Pair;

    #[test]
    fn a_few_transfers_are_named_and_more_are_counted() {
        let groups = |n: usize| -> Vec<_> {
            (0..n).map(|k| vec![Flow::write(Pair::of(k, k + 1), How::Ce, 4, 1)]).collect()
        };
        assert_eq!(doing(&groups(1)), "GPU 0 -> 1: copy engine writes 1 x 4 bytes");
        assert!(doing(&groups(6)).ends_with("and 2 more at once"), "{}", doing(&groups(6)));
        assert_eq!((subject(&groups(1)), subject(&groups(2))), ("GPU 0 -> 1".into(), "machine".into()));
    }
}
