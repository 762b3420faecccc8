//! The judgement over all pairs: matrices, tables, findings and the summary. Pure.

use super::Basis;
use super::Results;
use super::cells::{MATRICES, policy};
use super::spread::{bursts, spreads};
use super::suspects::{Suspect, suspects};
use crate::schedule::Pair;
use crate::suite::benchmark::{doubtful, judged, noisy, repeat_differences};
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity};
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;
use serde_json::Value;

/// The figures that must be measured again later, before they are judged: those of faults, and those that scatter.
pub(super) fn suspect_cells(results: &Results, basis: &Basis<'_>) -> Vec<(Metric, Pair)> {
    let bad = suspects(results, basis)
        .into_iter()
        .filter(|suspect| suspect.finding.severity > Severity::Info);
    let scattered = doubtful(&results.grid, |metric| Some(policy(metric, basis.level)));
    let mut cells: Vec<_> = bad
        .flat_map(|suspect| suspect.cells)
        .chain(scattered)
        .collect();
    cells.retain(|(_, pair)| pair.from != pair.to);
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// Judges everything; `states`: the GPUs' states, a line each.
pub(super) fn judge(results: Results, basis: &Basis<'_>, states: &[String]) -> Judgement {
    let mut findings: Vec<_> = suspects(&results, basis)
        .into_iter()
        .map(|suspect| with_both(suspect, &results))
        .collect();
    for finding in &mut findings {
        finding.evidence.extend(states.iter().cloned());
    }
    findings.extend(noisy(&results.grid, |metric| {
        Some(policy(metric, basis.level))
    }));
    findings.extend(bursts(&results.grid));
    findings.extend(repeat_differences(&results.grid));
    findings.extend(
        results
            .without_access
            .iter()
            .flat_map(|(pair, why)| unmeasured_floor(*pair, why, basis.least)),
    );
    let summary = summary(&results);
    let shown = MATRICES.iter().filter(|(_, from)| *from <= basis.level);
    let matrices = shown
        .map(|(metric, _)| results.grid.matrix(*metric, basis.gpus))
        .collect();
    let tables = super::sizes::by_size(&results.sizes)
        .into_iter()
        .chain(spreads(&results.grid))
        .collect();
    judged(summary, results.findings.into_iter().chain(findings))
        .showing(matrices)
        .with_tables(tables)
}

/// Adds both values of a figure that was measured twice.
fn with_both(suspect: Suspect, results: &Results) -> Finding {
    let Suspect { cells, mut finding } = suspect;
    let both = |(metric, pair): &(Metric, Pair)| {
        let latency = *metric == super::LATENCY_CELL;
        let grid = if latency {
            &results.latency
        } else {
            &results.grid
        };
        let (first, again) = grid.both(*metric, *pair)?;
        let name = if latency {
            "latency".to_owned()
        } else {
            name_in_sentence(metric.name())
        };
        let unit = metric.unit();
        Some(format!(
            "{pair}: {name}: {first:.2} {unit}, and {:.2} {unit} when measured again",
            again?
        ))
    };
    let both_values: Vec<_> = cells.iter().filter_map(both).collect();
    if let Some(first) = both_values.first() {
        finding.message = format!("{}; {first}", finding.message).into();
    }
    finding.seen_all(both_values)
}

/// Missing peer access is judged by `p2p-capability`; here it means that a configured floor was not measured.
fn unmeasured_floor(pair: Pair, why: &str, least: Option<f64>) -> Option<Finding> {
    least.map(|least| {
        let message =
            format!("{pair}: expect.min_p2p_gb_s is {least}, and there is no peer access: {why}");
        let finding = Code::ExpectUnchecked.finding(Severity::Error, pair, message);
        finding
            .values(Value::Null, least, Some("GB/s"))
            .lacking([why])
    })
}

/// `12 ordered pairs: 391.5 to 393.7 GB/s, both directions 778.2 to 783.1; without peer access 37.3 to 38.8`
fn summary(results: &Results) -> String {
    let range = |name| {
        results
            .grid
            .range(name)
            .map(|(low, high)| format!("{low:.1} to {high:.1}"))
    };
    let off = results
        .grid
        .all(Metric::SAMPLE_UNI_OFF)
        .filter(|(pair, _)| pair.from != pair.to);
    let off: Vec<_> = off.map(|(_, gb_s)| gb_s).collect();
    let ends = (
        off.iter().copied().reduce(f64::min),
        off.iter().copied().reduce(f64::max),
    );
    let (Some(low), Some(high)) = ends else {
        return "nothing was measured".to_owned();
    };
    let pairs = results.grid.all(Metric::CE_WRITE).count();
    let Some(on) = range(Metric::CE_WRITE) else {
        return format!("no pair has peer access; through host memory {low:.1} to {high:.1} GB/s");
    };
    let both = range(Metric::CE_BI_WRITE)
        .map_or(String::new(), |both| format!(", both directions {both}"));
    format!("{pairs} ordered pairs: {on} GB/s{both}; without peer access {low:.1} to {high:.1}")
}
