//! The judgement over the latencies: matrices, findings and the summary. Pure.

use super::Results;
use crate::floors::{LatencyKind, LatencyReference, latency};
use crate::schedule::Pair;
use crate::suite::benchmark::{Grid, LOADS, doubtful, judged, noisy, repeat_differences};
use outcome::Judgement;
use outcome::finding::Finding;
use outcome::metric::Metric;
use report::Level;
use report::stats::{LATENCY, RepeatPolicy, median};
use std::collections::BTreeMap;

/// The matrices of copies, in the report's order.
const COPIES: &[Metric] = &[
    Metric::LATENCY_OFF_GPU,
    Metric::LATENCY_OFF_HOST,
    Metric::LATENCY_ON_GPU,
    Metric::LATENCY_ON_HOST,
];
/// The only one that is judged: without peer access and on the host's clock, other factors dominate.
const JUDGED: Metric = Metric::LATENCY_ON_GPU;

/// What is known about the pairs' paths.
pub(super) struct Basis<'a> {
    /// The name of the group of pairs with similar paths, which are compared with each other.
    pub(super) path_group: &'a dyn Fn(Pair) -> String,
    /// Whether NVLinks carry a pair's data.
    pub(super) nvlink: &'a dyn Fn(Pair) -> bool,
}

/// The ordered pairs that are too slow or scatter, to be measured again before they are judged.
pub(super) fn suspect_pairs(results: &Results, basis: &Basis<'_>) -> Vec<Pair> {
    let slow = latency_findings(results, basis)
        .into_iter()
        .map(|(pair, _)| pair);
    let scattered = [&results.copies, &results.loads]
        .into_iter()
        .flat_map(|grid| doubtful(grid, policy));
    let scattered = scattered
        .map(|(_, pair)| pair)
        .filter(|pair| pair.from != pair.to);
    let mut pairs: Vec<_> = slow.chain(scattered).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// How far the samples of a figure may differ: by the GPU's clock.
fn policy(metric: Metric) -> Option<RepeatPolicy> {
    (metric == JUDGED || metric == Metric::LOAD).then_some(LATENCY)
}

fn latency_findings(results: &Results, basis: &Basis<'_>) -> Vec<(Pair, Finding)> {
    let within: Vec<_> = results
        .copies
        .all(JUDGED)
        .filter(|(pair, _)| pair.from == pair.to)
        .map(|(_, us)| us)
        .collect();
    let local = median(&within).ok();
    let copies = compare_with_best(&results.copies, JUDGED, LatencyKind::Copy, local, basis);
    copies
        .into_iter()
        .chain(compare_with_best(
            &results.loads,
            Metric::LOAD,
            LatencyKind::Load,
            None,
            basis,
        ))
        .collect()
}

/// Compares each pair with the best of its group.
fn compare_with_best(
    grid: &Grid,
    metric: Metric,
    small: LatencyKind,
    local: Option<f64>,
    basis: &Basis<'_>,
) -> Vec<(Pair, Finding)> {
    let pairs = || grid.all(metric).filter(|(pair, _)| pair.from != pair.to);
    let mut best: BTreeMap<String, f64> = BTreeMap::new();
    for (pair, figure) in pairs() {
        let least = best.entry((basis.path_group)(pair)).or_insert(figure);
        *least = least.min(figure);
    }
    let one = |(pair, _)| {
        let best = best.get(&(basis.path_group)(pair)).copied();
        let like = LatencyReference {
            nvlink: (basis.nvlink)(pair),
            best,
            local,
        };
        Some((pair, latency(pair, small, grid.both(metric, pair)?, &like)?))
    };
    pairs().filter_map(one).collect()
}

/// Judges everything; `states`: the GPUs' states, a line each.
pub(super) fn judge(
    results: Results,
    basis: &Basis<'_>,
    gpus: usize,
    level: Level,
    states: &[String],
) -> Judgement {
    let mut findings: Vec<_> = latency_findings(&results, basis)
        .into_iter()
        .map(|(_, finding)| finding)
        .collect();
    for finding in &mut findings {
        finding.evidence.extend(states.iter().cloned());
    }
    findings.extend(noisy(&results.copies, policy));
    findings.extend(noisy(&results.loads, policy));
    findings.extend(repeat_differences(&results.copies).chain(repeat_differences(&results.loads)));
    let summary = summary(&results);
    let mut matrices: Vec<_> = COPIES
        .iter()
        .map(|metric| results.copies.matrix(*metric, gpus))
        .collect();
    if level >= Level::Standard {
        matrices.push(results.loads.matrix(Metric::LOAD, gpus));
    }
    judged(summary, results.findings.into_iter().chain(findings)).showing(matrices)
}

/// `16 bytes: 2.2 to 2.7 us; without peer access 13.7 to 18.7; each of 16384 loads 827 to 827 ns`
fn summary(results: &Results) -> String {
    let range = |name| {
        let all = || {
            results
                .copies
                .all(name)
                .filter(|(pair, _)| pair.from != pair.to)
                .map(|(_, us)| us)
        };
        let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
        Some(format!("{low:.1} to {high:.1}"))
    };
    let off = range(Metric::LATENCY_OFF_GPU).unwrap_or_else(|| "not measured".to_owned());
    let Some(on) = range(JUDGED) else {
        return format!("no pair has peer access; 16 bytes through host memory take {off} us");
    };
    let chase = results.loads.range(Metric::LOAD);
    let chase =
        chase.map(|(low, high)| format!("; each of {LOADS} loads {low:.0} to {high:.0} ns"));
    format!(
        "16 bytes: {on} us; without peer access {off}{}",
        chase.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcome::Outcome;
    use outcome::finding::Code;
    use report::stats::Measured;

    fn figure(median: f64) -> Measured {
        Measured {
            samples: vec![median; 3],
            median,
            spread: 0.0,
            repeats: 0,
            noisy: false,
        }
    }

    /// Two GPUs as recorded on H200, with this latency from 0 to 1.
    fn results(us: f64) -> Results {
        let mut results = Results::default();
        for pair in [Pair::of(0, 1), Pair::of(1, 0)] {
            results
                .copies
                .put(Metric::LATENCY_OFF_GPU, pair, figure(15.42));
            results
                .copies
                .put(Metric::LATENCY_OFF_HOST, pair, figure(4.75));
            results.copies.put(
                Metric::LATENCY_ON_GPU,
                pair,
                figure(if pair.from == 0 { us } else { 2.2 }),
            );
            results
                .copies
                .put(Metric::LATENCY_ON_HOST, pair, figure(1.33));
            results.loads.put(Metric::LOAD, pair, figure(827.3));
        }
        results
            .copies
            .put(Metric::LATENCY_ON_GPU, Pair::of(0, 0), figure(1.8));
        results
    }

    fn judge(results: Results, gpus: usize, level: Level, states: &[String]) -> Judgement {
        super::judge(results, &BASIS, gpus, level, states)
    }

    const BASIS: Basis<'_> = Basis {
        path_group: &|_| String::new(),
        nvlink: &|_| true,
    };

    #[test]
    fn healthy_gpus_pass_with_all_matrices() {
        let said = judge(results(2.23), 2, Level::Standard, &[]);
        assert_eq!(said.outcome(), Outcome::Pass, "{:?}", said.findings);
        assert_eq!(
            said.summary,
            "16 bytes: 2.2 to 2.2 us; without peer access 15.4 to 15.4; each of 16384 loads 827 to 827 ns"
        );
        assert_eq!(said.matrices.len(), 5);
        assert_eq!(
            said.matrices[4].values,
            [vec![None, Some(827.3)], vec![Some(827.3), None]]
        );
        assert_eq!(judge(results(2.23), 2, Level::Quick, &[]).matrices.len(), 4);
    }

    #[test]
    fn a_slow_copy_warns_and_one_through_host_memory_fails() {
        assert_eq!(
            judge(results(4.0), 2, Level::Standard, &[]).outcome(),
            Outcome::Warn
        );
        assert_eq!(suspect_pairs(&results(4.0), &BASIS), [Pair::of(0, 1)]);
        let mut moment = results(4.0);
        moment.copies.put_again(JUDGED, Pair::of(0, 1), figure(2.3));
        assert_eq!(
            judge(moment, 2, Level::Standard, &[]).outcome(),
            Outcome::Pass
        );
        let mut chase = results(2.23);
        chase
            .loads
            .put(Metric::LOAD, Pair::of(1, 0), figure(1700.0));
        let said = judge(chase, 2, Level::Standard, &[]);
        assert!(
            said.outcome() == Outcome::Warn && said.summary.contains("1.8 times the best"),
            "{}",
            said.summary
        );
        let said = judge(
            results(15.0),
            2,
            Level::Standard,
            &["GPU 0: 35 C".to_owned()],
        );
        assert_eq!(said.outcome(), Outcome::Fail);
        assert!(said.findings[0].is(Code::P2pLatency));
        assert_eq!(said.findings[0].evidence, ["GPU 0: 35 C"]);
    }

    #[test]
    fn figures_by_the_hosts_clock_may_scatter_and_by_the_gpus_clock_may_not() {
        let noisy = Measured {
            spread: 0.9,
            noisy: true,
            ..figure(2.2)
        };
        let mut scattered = results(2.23);
        scattered
            .copies
            .put(Metric::LATENCY_ON_HOST, Pair::of(0, 1), noisy.clone());
        assert_eq!(
            judge(scattered, 2, Level::Standard, &[]).outcome(),
            Outcome::Pass
        );
        let mut scattered = results(2.23);
        scattered
            .copies
            .put(Metric::LATENCY_ON_GPU, Pair::of(0, 1), noisy);
        assert_eq!(
            judge(scattered, 2, Level::Standard, &[]).outcome(),
            Outcome::Warn
        );
    }
}
