//! The judgement over all GPUs: matrices of one row, findings and the summary. Pure.

use super::Results;
use crate::floors::{contradicted_link, impossible_speed, slow_host_copy};
use crate::schedule::Pair;
use crate::suite::benchmark::{doubtful, judged, noisy, repeat_differences, rounded};
use machine::GpuId;
use outcome::finding::Finding;
use outcome::metric::{Beside, Metric};
use outcome::text::count;
use outcome::{Judgement, Matrix};
use report::stats::{BANDWIDTH, RepeatPolicy};

/// The matrices in the report's order, and their row.
const MATRICES: &[(Metric, &str)] = &[
    (Metric::HOST_TO, "CPU"),
    (Metric::HOST_FROM, "CPU"),
    (Metric::HOST_BI_TO, "CPU"),
    (Metric::HOST_BI_FROM, "CPU"),
    (Metric::HOST_ALL_TO, "CPU"),
    (Metric::HOST_ALL_FROM, "CPU"),
    (Metric::LOCAL, "GPU"),
];

/// The limits of a GPU's path to the host, GB/s, where known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HostLimits {
    /// What the narrowest link carries under load.
    pub(super) raw: Option<f64>,
    /// What the GPU's own link carries under load.
    pub(super) own: Option<f64>,
    /// What the GPU's own link carries at its best.
    pub(super) most: Option<f64>,
}

/// The matrices that are judged, and their directions in words.
const JUDGED: [(Metric, &str); 2] = [
    (Metric::HOST_TO, "from the host"),
    (Metric::HOST_FROM, "to the host"),
];

/// The GPUs that must be measured again before they are judged: slow ones, and those whose figures scatter.
pub(super) fn suspect_gpus(results: &Results, all_limits: &[HostLimits]) -> Vec<GpuId> {
    let scattered: Vec<_> = doubtful(&results.grid, policy)
        .map(|(_, pair)| pair.from)
        .collect();
    let suspect =
        |gpu, limits| scattered.contains(&gpu) || !slow_findings(results, gpu, limits).is_empty();
    GpuId::each(all_limits)
        .filter(|(gpu, limits)| suspect(*gpu, **limits))
        .map(|(gpu, _)| gpu)
        .collect()
}

/// How far the samples of a figure may differ: of one GPU alone. What GPUs share varies.
fn policy(metric: Metric) -> Option<RepeatPolicy> {
    matches!(
        metric,
        Metric::Host {
            beside: Beside::Alone,
            ..
        }
    )
    .then_some(BANDWIDTH)
}

fn slow_findings(results: &Results, gpu: GpuId, limits: HostLimits) -> Vec<Finding> {
    let moved = JUDGED
        .iter()
        .filter_map(|(name, _)| results.grid.get(*name, Pair::new(gpu, gpu)));
    let moved = moved.reduce(f64::max);
    // If the links carry more than they report, the report is not used for the floor.
    let raw = match (limits.raw, moved, limits.own.or(limits.most)) {
        (Some(raw), Some(moved), Some(own)) if moved > raw && own > raw => Some(own),
        (raw, ..) => raw,
    };
    let one = |(metric, what): &(Metric, &str)| {
        slow_host_copy(
            gpu,
            what,
            results.grid.both(*metric, Pair::new(gpu, gpu))?,
            raw,
        )
    };
    JUDGED.iter().filter_map(one).collect()
}

/// Figures above what the links can carry.
fn above_ceiling(results: &Results, gpu: GpuId, limits: HostLimits) -> Vec<Finding> {
    let own = Pair::new(gpu, gpu);
    let above =
        |metric: Metric| impossible_speed(gpu, metric, results.grid.get(metric, own)?, limits.most);
    let bounded = Metric::all().filter(|metric| matches!(metric, Metric::Host { .. }));
    let all: Vec<_> = bounded.filter_map(above).collect();
    if !all.is_empty() {
        return all;
    }
    let one = |(metric, _): &(Metric, &str)| {
        contradicted_link(gpu, results.grid.get(*metric, own)?, limits.raw, limits.own)
    };
    JUDGED.iter().find_map(one).into_iter().collect()
}

/// Judges everything; `all_limits`: what carries each GPU's data; `states`: the GPUs' states, a line each. The
/// figures of all GPUs at once and of both directions depend on what GPUs share, and are reported only.
pub(super) fn judge(results: Results, all_limits: &[HostLimits], states: &[String]) -> Judgement {
    let figure = |metric: Metric, gpu| results.grid.get(metric, Pair::new(gpu, gpu));
    let gpus = || GpuId::each(all_limits.iter().copied());
    let mut findings: Vec<_> = gpus()
        .flat_map(|(gpu, limits)| above_ceiling(&results, gpu, limits))
        .collect();
    findings.extend(gpus().flat_map(|(gpu, limits)| slow_findings(&results, gpu, limits)));
    for finding in &mut findings {
        finding.evidence.extend(states.iter().cloned());
    }
    findings.extend(noisy(&results.grid, policy));
    findings.extend(repeat_differences(&results.grid));
    let summary = summary(&results);
    let row = |(metric, label): &(Metric, &str)| Matrix {
        name: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        rows: vec![(*label).to_owned()],
        columns: (0..all_limits.len()).map(|n| n.to_string()).collect(),
        values: vec![
            GpuId::all(all_limits.len())
                .map(|gpu| figure(*metric, gpu).map(rounded))
                .collect(),
        ],
    };
    let matrices = MATRICES.iter().map(row).collect();
    judged(summary, results.findings.into_iter().chain(findings)).showing(matrices)
}

/// `4 GPUs: 54.9 to 55.6 GB/s from the host, 55.4 to 55.4 to it; all at once at least 55.3 and 55.3 each`
fn summary(results: &Results) -> String {
    let gpus = results.grid.all(Metric::HOST_TO).count();
    let range = |name| {
        results
            .grid
            .range(name)
            .map(|(low, high)| format!("{low:.1} to {high:.1}"))
    };
    let (Some(to), Some(from)) = (range(Metric::HOST_TO), range(Metric::HOST_FROM)) else {
        return "nothing was measured".to_owned();
    };
    let least = |name| results.grid.range(name).map(|(low, _)| format!("{low:.1}"));
    let all = least(Metric::HOST_ALL_TO).zip(least(Metric::HOST_ALL_FROM));
    let all = all.map(|(to, from)| format!("; all at once at least {to} and {from} each"));
    format!(
        "{}: {to} GB/s from the host, {from} to it{}",
        count(gpus, "GPU"),
        all.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Outcome;
    use outcome::finding::{Code, Severity};
    use report::stats::Measured;

    /// Two GPUs as recorded on H200, with this figure from the host to GPU 0.
    fn results(to: f64) -> Results {
        let mut results = Results::default();
        for (metric, _) in MATRICES {
            for gpu in GpuId::all(2) {
                let median = if *metric == Metric::HOST_TO && gpu.index() == 0 {
                    to
                } else {
                    55.4
                };
                let figure = Measured {
                    samples: vec![median; 3],
                    median,
                    spread: 0.0,
                    repeats: 0,
                    noisy: false,
                };
                results.grid.put(*metric, Pair::new(gpu, gpu), figure);
            }
        }
        results
    }

    fn said(results: Results, raw: Option<f64>, states: &[String]) -> Judgement {
        judge(
            results,
            &[HostLimits {
                raw,
                own: raw,
                most: raw,
            }; 2],
            states,
        )
    }

    #[test]
    fn healthy_gpus_pass_with_all_matrices() {
        let said = said(results(54.9), Some(63.0), &[]);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "2 GPUs: 54.9 to 55.4 GB/s from the host, 55.4 to 55.4 to it; all at once at least 55.4 and \
             55.4 each"
        );
        assert_eq!(said.matrices.len(), MATRICES.len());
        assert_eq!(said.matrices[0].values, [vec![Some(54.9), Some(55.4)]]);
    }

    #[test]
    fn a_gpu_that_stays_slow_warns_with_its_state() {
        let limits = HostLimits {
            raw: Some(63.0),
            own: Some(63.0),
            most: Some(63.0),
        };
        assert_eq!(
            (
                suspect_gpus(&results(13.0), &[limits; 2]),
                suspect_gpus(&results(54.9), &[limits; 2])
            ),
            (GpuId::list([0]), Vec::new())
        );
        let judged = said(results(13.0), Some(63.0), &["GPU 0: 35 C".to_owned()]);
        assert_eq!(judged.outcome(), Outcome::Warn);
        assert!(judged.findings[0].is(Code::HostSlow));
        assert_eq!(judged.findings[0].evidence, ["GPU 0: 35 C"]);
        let mut moment = results(13.0);
        let figure = Measured {
            samples: vec![54.0; 3],
            median: 54.0,
            spread: 0.0,
            repeats: 0,
            noisy: false,
        };
        moment
            .grid
            .put_again(Metric::HOST_TO, Pair::of(0, 0), figure);
        assert_eq!(said(moment, Some(63.0), &[]).outcome(), Outcome::Pass);
        assert_eq!(
            said(results(44.9), Some(63.0), &[]).outcome(),
            Outcome::Pass,
            "a shared host is busy at times"
        );
    }

    #[test]
    fn more_than_the_link_carries_is_an_error_and_more_than_it_reports_a_warning() {
        let judged = said(results(640.0), Some(63.0), &[]);
        assert_eq!(judged.outcome(), Outcome::Error);
        assert!(judged.findings[0].is(Code::SpeedImpossible));
        let limits = HostLimits {
            raw: Some(0.25),
            own: Some(0.25),
            most: Some(63.0),
        };
        let judged = judge(results(54.9), &[limits; 2], &[]);
        assert!(judged.outcome() == Outcome::Warn && judged.findings[0].is(Code::LinkContradicted));
        // A virtual machine's port may report this; the GPU itself does not.
        let port = HostLimits {
            own: Some(63.0),
            ..limits
        };
        assert_eq!(
            judge(results(54.9), &[port; 2], &[]).outcome(),
            Outcome::Pass
        );
        assert_eq!(judge(results(54.9), &[port; 2], &[]).findings.len(), 2);
        assert_eq!(
            judge(results(13.0), &[port; 2], &[]).outcome(),
            Outcome::Warn,
            "the floor is not 0.75 of 0.25"
        );
    }

    /// As recorded on four H100 of a host that other machines share: 54.9 to 42.0 GB/s in five copies, and 54.9 before and after.
    #[test]
    fn a_gpu_whose_figures_scatter_is_measured_again_and_judged_by_the_calm_figure() {
        let limits = HostLimits {
            raw: Some(63.0),
            own: Some(63.0),
            most: Some(63.0),
        };
        let mut scattered = results(54.9);
        let own = Pair::of(0, 0);
        scattered.grid.put(
            Metric::HOST_TO,
            own,
            BANDWIDTH.of(&[54.88, 54.75, 48.88, 47.23, 42.03]).unwrap(),
        );
        assert_eq!(suspect_gpus(&scattered, &[limits; 2]), [GpuId::new(0)]);
        assert!(suspect_gpus(&results(54.9), &[limits; 2]).is_empty());
        scattered
            .grid
            .put_again(Metric::HOST_TO, own, BANDWIDTH.of(&[54.9; 3]).unwrap());
        assert_eq!(said(scattered, Some(63.0), &[]).outcome(), Outcome::Pass);
    }

    #[test]
    fn data_that_is_wrong_fails_and_has_no_figure() {
        let mut wrong = Results::default();
        wrong
            .findings
            .push(Code::HostWrongData.finding(Severity::Fail, GpuId::new(0), "wrong"));
        let judged = said(wrong, Some(63.0), &[]);
        assert_eq!(
            (judged.outcome(), &judged.matrices[0].values),
            (Outcome::Fail, &vec![vec![None; 2]])
        );
    }
}
