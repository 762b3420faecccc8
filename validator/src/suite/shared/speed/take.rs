//! Samples taken on a bench: the current work is reported first, and a fault becomes a finding.

use super::super::gpu_fault::during;
use super::bench::Bench;
use super::flow::{Flow, How, MOST_COPIES};
use super::run::Timed;
use super::sampling::{Job, Taken, sampled};
use super::ways::Ways;
use crate::floors::stats::{Policy, Unusable};
use crate::gpu::GpuError;
use crate::outcome::finding::{Code, Finding, Severity};
use crate::schedule::Pair;
use crate::suite::Machine;
use std::collections::BTreeMap;

/// How many transfers of a round are named.
const NAMED: usize = 4;

/// Transfers of one GPU that take less than this part of the whole time, on average, are moved one after the other: on 4 H200
/// three take 0.33 to 0.56 of it. At the same time each takes nearly all of it.
const ONE_BY_ONE: f64 = 0.7;
/// How often all of them must be seen to do so.
const ASKED: usize = 3;

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

    /// Whether a GPU moves its transfers to several others one after the other. What many GPUs move together is then no
    /// measure of their links, unless the order is given: which of them send to the same GPU would be chance. Asks the GPU
    /// that sends to most others over similar paths, if there are two; `pairs` have access.
    ///
    /// # Errors
    /// A fault of CUDA or of a GPU.
    pub(in crate::suite) fn one_by_one(
        &self,
        machine: &Machine,
        ways: &Ways,
        pairs: &[Pair],
    ) -> Result<bool, Box<Finding>> {
        let flow = |way: Pair| self.for_peer(Flow::write(way, How::Ce, 0, MOST_COPIES));
        let fan: Vec<_> = fan(pairs, |pair| ways.like(pair)).into_iter().map(flow).collect();
        if fan.len() < 2 {
            return Ok(false);
        }
        for _ in 0..ASKED {
            let timed = self.once(machine, std::slice::from_ref(&fan), &mut || true)?;
            if !timed.first().is_some_and(|timed| timed.overlap() < ONE_BY_ONE) {
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

/// Of these pairs, the most that have one sender and are alike.
fn fan(pairs: &[Pair], like: impl Fn(Pair) -> String) -> Vec<Pair> {
    let mut fans: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for pair in pairs {
        fans.entry((pair.from, like(*pair))).or_default().push(*pair);
    }
    fans.into_values().max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_is_of_one_sender_and_of_one_kind() {
        let all: Vec<_> = Pair::all(4).filter(|pair| pair.from != pair.to).collect();
        let socket = |pair: Pair| (pair.from.index() / 2 == pair.to.index() / 2).to_string();
        assert_eq!(fan(&all, |_| String::new()), [Pair::of(3, 0), Pair::of(3, 1), Pair::of(3, 2)]);
        assert_eq!(fan(&all, socket), [Pair::of(3, 0), Pair::of(3, 1)]);
        assert_eq!(fan(&[], socket), []);
    }

    #[test]
    fn transfers_that_run_one_after_the_other_overlap_less() {
        let timed = |each: &[f64]| Timed { each: each.to_vec(), total: 3.0, queued: Vec::new(), wrong: None };
        // Measured on 4 H200: one after the other, and two of three at the same time.
        assert!(
            [&[1.0, 1.0, 1.0][..], &[1.0, 1.0, 3.0]].iter().all(|each| timed(each).overlap() < ONE_BY_ONE)
        );
        assert!(timed(&[2.9, 3.0, 2.8]).overlap() > ONE_BY_ONE);
        assert!(timed(&[]).overlap().is_nan(), "no transfer is not one after the other");
    }

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
