//! Figures from samples: everything of a round is sampled together, and figures that vary too much are sampled
//! again, a bounded number of times. A sample with wrong data ends its figure: data that did not arrive has no speed.

use super::flow::Flow;
use super::run::Timed;
use crate::floors::stats::{Measured, Policy, Unusable, gb_s, us};
use crate::gpu::Checked;

/// How a figure is computed from the clocks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum Figure {
    /// GB/s of the first transfer by its own clock.
    First,
    /// GB/s within one GPU: bytes read plus bytes written, as p2pBandwidthLatencyTest counts.
    Within,
    /// GB/s of all together, from the first start to the last stop: both directions in CUDA's sample
    /// programs.
    Total,
    /// The same within one GPU.
    TotalWithin,
    /// Sum of the GB/s that each has by its own clock: both directions in nvbandwidth.
    Sum,
    /// GB/s of all together, as `Total`, and then of each by its own clock.
    Each,
    /// us that one copy takes on the GPU and, as a second figure, that the host takes to queue it.
    Latency,
}

/// Transfers that run together, and the figure wanted from them.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::suite) struct Job {
    pub(in crate::suite) flows: Vec<Flow>,
    pub(in crate::suite) figure: Figure,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::suite) enum Taken {
    /// Its figures.
    Figures(Vec<Measured>),
    /// A transfer delivered wrong data, so there is no figure.
    Wrong(Flow, Checked),
}

impl Job {
    pub(in crate::suite) const fn new(flows: Vec<Flow>, figure: Figure) -> Self {
        Self { flows, figure }
    }

    /// One sample's figures; the first decides whether it is taken again.
    fn figures(&self, timed: &Timed) -> Result<Vec<f64>, Unusable> {
        let each = || self.flows.iter().zip(&timed.each).map(|(flow, ms)| gb_s(flow.total(), *ms));
        let all = self.flows.iter().map(Flow::total).sum::<u64>();
        let first = || each().next().unwrap_or(Err(Unusable::None));
        Ok(match self.figure {
            Figure::First => vec![first()?],
            Figure::Within => vec![first()? * 2.0],
            Figure::Total => vec![gb_s(all, timed.total)?],
            Figure::TotalWithin => vec![gb_s(all, timed.total)? * 2.0],
            Figure::Sum => vec![each().sum::<Result<f64, _>>()?],
            Figure::Each => {
                std::iter::once(gb_s(all, timed.total)).chain(each()).collect::<Result<_, _>>()?
            }
            Figure::Latency => {
                let times = self.flows.first().map_or(0, |flow| u64::from(flow.times));
                let first = |of: &[f64]| us(of.first().copied().unwrap_or(f64::NAN), times);
                vec![first(&timed.each)?, first(&timed.queued)?]
            }
        })
    }
}

/// One job's samples so far.
struct Samples {
    /// One list per figure.
    figures: Vec<Vec<f64>>,
    wrong: Option<(Flow, Checked)>,
}

/// Samples `jobs` with `run`, which runs all that it is given at the same time. All jobs are sampled
/// `policy.samples` times, then those that vary too much are sampled again.
pub(super) fn sampled<E: From<Unusable>>(
    policy: &Policy,
    jobs: &[Job],
    mut run: impl FnMut(&[&Job]) -> Result<Vec<Timed>, E>,
) -> Result<Vec<Taken>, E> {
    let mut samples: Vec<Samples> =
        jobs.iter().map(|_| Samples { figures: Vec::new(), wrong: None }).collect();
    loop {
        let mut open = Vec::new();
        for (job, samples) in jobs.iter().zip(&mut samples) {
            if samples.want_more(policy)? {
                open.push((job, samples));
            }
        }
        if open.is_empty() {
            break;
        }
        let chosen: Vec<&Job> = open.iter().map(|(job, _)| *job).collect();
        let timed = run(&chosen)?;
        for ((job, samples), timed) in open.into_iter().zip(timed) {
            samples.add(job, &timed)?;
        }
    }
    samples.into_iter().map(|s| Ok(s.taken(policy)?)).collect()
}

impl Samples {
    fn add(&mut self, job: &Job, timed: &Timed) -> Result<(), Unusable> {
        if timed.wrong.is_some() {
            self.wrong = timed.wrong;
            return Ok(());
        }
        let figures = job.figures(timed)?;
        self.figures.resize(figures.len(), Vec::new());
        self.figures.iter_mut().zip(figures).for_each(|(all, one)| all.push(one));
        Ok(())
    }

    fn want_more(&self, policy: &Policy) -> Result<bool, Unusable> {
        let first = self.figures.first().map_or(&[][..], Vec::as_slice);
        Ok(self.wrong.is_none() && policy.wants_more(first)?)
    }

    fn taken(self, policy: &Policy) -> Result<Taken, Unusable> {
        if let Some((flow, checked)) = self.wrong {
            return Ok(Taken::Wrong(flow, checked));
        }
        let figures = self.figures.iter().map(|samples| policy.of(samples)).collect::<Result<_, _>>()?;
        Ok(Taken::Figures(figures))
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::How;
    use super::*;
    use crate::floors::stats::BANDWIDTH;
    use crate::schedule::Pair;

    /// One GB in two copies.
    fn flow(from: usize, to: usize) -> Flow {
        Flow::write(Pair::of(from, to), How::Ce, 500_000_000, 2)
    }

    fn timed(each: &[f64], total: f64) -> Timed {
        Timed { each: each.to_vec(), total, queued: vec![0.5; each.len()], wrong: None }
    }

    fn figures(flows: Vec<Flow>, figure: Figure, timed: &Timed) -> Vec<f64> {
        Job::new(flows, figure).figures(timed).unwrap()
    }

    #[test]
    fn each_matrix_counts_as_its_reference_program_does() {
        let both = || vec![flow(0, 1), flow(1, 0)];
        let clocks = timed(&[2.0, 4.0], 5.0);
        assert_eq!(figures(both(), Figure::First, &clocks), [500.0]);
        assert_eq!(figures(both(), Figure::Within, &clocks), [1000.0]);
        assert_eq!(figures(both(), Figure::Total, &clocks), [400.0]);
        assert_eq!(figures(both(), Figure::TotalWithin, &clocks), [800.0]);
        assert_eq!(figures(both(), Figure::Sum, &clocks), [750.0]);
        assert_eq!(figures(both(), Figure::Each, &clocks), [400.0, 500.0, 250.0]);
        assert_eq!(figures(both(), Figure::Latency, &clocks), [1000.0, 250.0]);
    }

    #[test]
    fn only_scattering_jobs_are_sampled_again() {
        let jobs = [Job::new(vec![flow(0, 1)], Figure::First), Job::new(vec![flow(2, 3)], Figure::First)];
        let mut runs = Vec::new();
        let taken = sampled::<Unusable>(&BANDWIDTH, &jobs, |chosen| {
            runs.push(chosen.len());
            let ms = |job: &&Job| if job.flows[0].way.from == 0 { 2.0 } else { 2.0 + runs.len() as f64 };
            Ok(chosen.iter().map(|job| timed(&[ms(job)], 9.0)).collect())
        });
        assert_eq!(runs, [2, 2, 2, 1, 1]);
        let [Taken::Figures(calm), Taken::Figures(noisy)] = &taken.unwrap()[..] else { panic!() };
        assert_eq!((calm[0].median, calm[0].repeats, calm[0].noisy), (500.0, 0, false));
        assert_eq!((noisy[0].repeats, noisy[0].noisy), (2, true));
    }

    #[test]
    fn wrong_data_in_any_sample_leaves_no_figure() {
        let jobs = [Job::new(vec![flow(0, 1)], Figure::First)];
        let checked =
            Checked { looked: 9, wrong: 1, zeros: 1, ones: 0, sentinels: 0, first: Some(3), last: Some(3) };
        let mut runs = 0;
        let taken = sampled::<Unusable>(&BANDWIDTH, &jobs, |_| {
            runs += 1;
            let wrong = (runs == 2).then_some((flow(0, 1), checked));
            Ok(vec![Timed { wrong, ..timed(&[2.0], 2.0) }])
        });
        assert_eq!((taken, runs), (Ok(vec![Taken::Wrong(flow(0, 1), checked)]), 2));
    }
}
