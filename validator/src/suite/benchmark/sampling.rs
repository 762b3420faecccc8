//! Figures from samples: everything of a round is sampled together, and figures that vary too much are sampled
//! again, a bounded number of times. A sample with wrong data ends its figure: data that did not arrive has no speed.

use super::flow::Flow;
use super::run::GroupTiming;
use gpu::CheckCounts;
use report::stats::{Measured, RepeatPolicy, Unusable, gb_s, us};

/// Which figures are computed from the times of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) enum JobFigure {
    /// GB/s of the first transfer by its own clock.
    First,
    /// GB/s within one GPU: bytes read plus bytes written, as p2pBandwidthLatencyTest counts.
    Within,
    /// GB/s of all together, from the first start to the last stop: both directions in CUDA's sample
    /// programs.
    Total,
    /// As `Total`, within one GPU: bytes read plus bytes written.
    TotalWithin,
    /// Sum of the GB/s that each has by its own clock: both directions in nvbandwidth.
    Sum,
    /// GB/s of all together, as `Total`, and then of each by its own clock.
    Each,
    /// us that one copy takes on the GPU and, as a second figure, that the host takes to queue it.
    Latency,
}

/// Transfers that run together, and the metric that is computed from their times.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::suite) struct Job {
    pub(in crate::suite) flows: Vec<Flow>,
    pub(in crate::suite) metric: JobFigure,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::suite) enum JobResult {
    /// The job's figures.
    Figures(Vec<Measured>),
    /// A transfer delivered wrong data, so there is no figure.
    Wrong(Flow, CheckCounts),
}

impl Job {
    pub(in crate::suite) const fn new(flows: Vec<Flow>, metric: JobFigure) -> Self {
        Self { flows, metric }
    }

    /// The figures of one sample; the first of them decides whether the job is sampled again.
    fn figures(&self, timed: &GroupTiming) -> Result<Vec<f64>, Unusable> {
        let each = || {
            self.flows
                .iter()
                .zip(&timed.each)
                .map(|(flow, ms)| gb_s(flow.total(), *ms))
        };
        let all = self.flows.iter().map(Flow::total).sum::<u64>();
        let first = || each().next().unwrap_or(Err(Unusable::None));
        Ok(match self.metric {
            JobFigure::First => vec![first()?],
            JobFigure::Within => vec![first()? * 2.0],
            JobFigure::Total => vec![gb_s(all, timed.total)?],
            JobFigure::TotalWithin => vec![gb_s(all, timed.total)? * 2.0],
            JobFigure::Sum => vec![each().sum::<Result<f64, _>>()?],
            JobFigure::Each => std::iter::once(gb_s(all, timed.total))
                .chain(each())
                .collect::<Result<_, _>>()?,
            JobFigure::Latency => {
                let times = self.flows.first().map_or(0, |flow| u64::from(flow.times));
                let first = |of: &[f64]| us(of.first().copied().unwrap_or(f64::NAN), times);
                vec![first(&timed.each)?, first(&timed.queued)?]
            }
        })
    }
}

/// The samples of one job so far.
struct Samples {
    /// One list per figure.
    figures: Vec<Vec<f64>>,
    wrong: Option<(Flow, CheckCounts)>,
}

/// Samples `jobs` with `run`, which runs all that it is given at the same time. All jobs are sampled
/// `policy.samples` times, then those that vary too much are sampled again.
pub(super) fn sampled<E: From<Unusable>>(
    policy: &RepeatPolicy,
    jobs: &[Job],
    mut run: impl FnMut(&[&Job]) -> Result<Vec<GroupTiming>, E>,
) -> Result<Vec<JobResult>, E> {
    let mut samples: Vec<Samples> = jobs
        .iter()
        .map(|_| Samples {
            figures: Vec::new(),
            wrong: None,
        })
        .collect();
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
    fn add(&mut self, job: &Job, timed: &GroupTiming) -> Result<(), Unusable> {
        if timed.wrong.is_some() {
            self.wrong = timed.wrong;
            return Ok(());
        }
        let figures = job.figures(timed)?;
        self.figures.resize(figures.len(), Vec::new());
        self.figures
            .iter_mut()
            .zip(figures)
            .for_each(|(all, one)| all.push(one));
        Ok(())
    }

    fn want_more(&self, policy: &RepeatPolicy) -> Result<bool, Unusable> {
        let first = self.figures.first().map_or(&[][..], Vec::as_slice);
        Ok(self.wrong.is_none() && policy.wants_more(first)?)
    }

    fn taken(self, policy: &RepeatPolicy) -> Result<JobResult, Unusable> {
        if let Some((flow, checked)) = self.wrong {
            return Ok(JobResult::Wrong(flow, checked));
        }
        let figures = self
            .figures
            .iter()
            .map(|samples| policy.of(samples))
            .collect::<Result<_, _>>()?;
        Ok(JobResult::Figures(figures))
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::CopyMethod;
    use super::*;
    use crate::schedule::Pair;
    use report::stats::BANDWIDTH;

    /// One GB in two copies.
    fn flow(from: usize, to: usize) -> Flow {
        Flow::write(Pair::of(from, to), CopyMethod::Ce, 500_000_000, 2)
    }

    fn timed(each: &[f64], total: f64) -> GroupTiming {
        GroupTiming {
            each: each.to_vec(),
            total,
            queued: vec![0.5; each.len()],
            wrong: None,
        }
    }

    fn figures(flows: Vec<Flow>, metric: JobFigure, timed: &GroupTiming) -> Vec<f64> {
        Job::new(flows, metric).figures(timed).unwrap()
    }

    #[test]
    fn each_matrix_counts_as_its_reference_program_does() {
        let both = || vec![flow(0, 1), flow(1, 0)];
        let clocks = timed(&[2.0, 4.0], 5.0);
        assert_eq!(figures(both(), JobFigure::First, &clocks), [500.0]);
        assert_eq!(figures(both(), JobFigure::Within, &clocks), [1000.0]);
        assert_eq!(figures(both(), JobFigure::Total, &clocks), [400.0]);
        assert_eq!(figures(both(), JobFigure::TotalWithin, &clocks), [800.0]);
        assert_eq!(figures(both(), JobFigure::Sum, &clocks), [750.0]);
        assert_eq!(
            figures(both(), JobFigure::Each, &clocks),
            [400.0, 500.0, 250.0]
        );
        assert_eq!(
            figures(both(), JobFigure::Latency, &clocks),
            [1000.0, 250.0]
        );
    }

    #[test]
    fn only_scattering_jobs_are_sampled_again() {
        let jobs = [
            Job::new(vec![flow(0, 1)], JobFigure::First),
            Job::new(vec![flow(2, 3)], JobFigure::First),
        ];
        let mut runs = Vec::new();
        let taken = sampled::<Unusable>(&BANDWIDTH, &jobs, |chosen| {
            runs.push(chosen.len());
            let ms = |job: &&Job| {
                if job.flows[0].pair.from == 0 {
                    2.0
                } else {
                    2.0 + runs.len() as f64
                }
            };
            Ok(chosen.iter().map(|job| timed(&[ms(job)], 9.0)).collect())
        });
        assert_eq!(runs, [2, 2, 2, 1, 1]);
        let [JobResult::Figures(calm), JobResult::Figures(noisy)] = &taken.unwrap()[..] else {
            panic!()
        };
        assert_eq!(
            (calm[0].median, calm[0].repeats, calm[0].noisy),
            (500.0, 0, false)
        );
        assert_eq!((noisy[0].repeats, noisy[0].noisy), (2, true));
    }

    #[test]
    fn wrong_data_in_any_sample_leaves_no_figure() {
        let jobs = [Job::new(vec![flow(0, 1)], JobFigure::First)];
        let checked = CheckCounts {
            looked: 9,
            wrong: 1,
            zeros: 1,
            ones: 0,
            sentinels: 0,
            first: Some(3),
            last: Some(3),
        };
        let mut runs = 0;
        let taken = sampled::<Unusable>(&BANDWIDTH, &jobs, |_| {
            runs += 1;
            let wrong = (runs == 2).then_some((flow(0, 1), checked));
            Ok(vec![GroupTiming {
                wrong,
                ..timed(&[2.0], 2.0)
            }])
        });
        assert_eq!(
            (taken, runs),
            (Ok(vec![JobResult::Wrong(flow(0, 1), checked)]), 2)
        );
    }
}
