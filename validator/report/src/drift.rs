//! Compares a report with a baseline: which figures became worse or are missing, and which facts changed. Pure. Changed
//! facts are only listed, because the tests judge whether a state is bad; a worse verdict is a finding.

use super::baseline::{Baseline, Cell, Expected};
use super::facts::{Change, changes, models, models_text};
use super::figures::{Figures, YES_NO, figures, is_larger_better, is_worse};
use super::{Report, TestEntry};
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::{self, Judgement, Verdict};
use serde::Serialize;
use std::collections::BTreeSet;

/// The name of the comparison's format.
pub const DRIFT: &str = "firstlight.drift/1";
/// The id of the comparison among the tests of a report.
pub const ID: &str = "baseline";
/// The most lines of evidence that one finding has.
const MAX_EVIDENCE: usize = 64;

/// A comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Drift {
    /// [`DRIFT`]
    pub schema: &'static str,
    /// PASS, DEGRADED (worse figures), FAIL or ERROR (missing figures).
    pub verdict: Verdict,
    /// The host of the report, when it was started, and its own verdict.
    pub report: Compared,
    /// The same of the baseline's newest report.
    pub baseline: Compared,
    /// How many figures the baseline has.
    pub expected: usize,
    /// How many of them were compared.
    pub compared: usize,
    /// How many figures of the report the baseline does not have.
    pub without_baseline: usize,
    /// What changed.
    pub changes: Vec<Change>,
    /// Everything in the form of a test.
    pub test: TestEntry,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The host name.
    pub host: Option<String>,
    /// When the run began.
    pub started: String,
    /// Its verdict.
    pub verdict: Verdict,
}

/// Compares a finished report, whose verdict must not be worse than the baseline's.
///
/// # Errors
/// One line: why they cannot be compared.
pub fn drift(baseline: &Baseline, report: &Report) -> Result<Drift, String> {
    let worse = worse_verdict_finding(baseline, report);
    let (judgement, changes) = judge(baseline, report, worse)?;
    let measured = figures(report);
    let newest = baseline
        .reports
        .iter()
        .max_by(|a, b| a.started.cmp(&b.started));
    let cells: usize = measured.values().map(|series| series.cells.len()).sum();
    let compared: usize = baseline
        .figures
        .iter()
        .map(|(name, series)| common_cells(name, series, &measured).count())
        .sum();
    let test = entry(report, judgement);
    Ok(Drift {
        schema: DRIFT,
        verdict: outcome::verdict(&[test.outcome]),
        report: Compared {
            host: report.machine.host.clone(),
            started: report.started.clone(),
            verdict: report.verdict,
        },
        baseline: Compared {
            host: newest.and_then(|origin| origin.host.clone()),
            started: newest
                .map(|origin| origin.started.clone())
                .unwrap_or_default(),
            verdict: baseline.verdict,
        },
        expected: baseline.size(),
        compared,
        without_baseline: cells.saturating_sub(compared),
        changes,
        test,
    })
}

/// The comparison as the last test of a run; if they cannot be compared, the result is an error.
#[must_use]
pub fn as_test(baseline: Result<Baseline, String>, report: &Report) -> TestEntry {
    let judgement = baseline.and_then(|baseline| Ok(judge(&baseline, report, None)?.0));
    entry(
        report,
        judgement.unwrap_or_else(|why| {
            Judgement::by(Code::BaselineMissing.finding(Severity::Error, Subject::Machine, why))
        }),
    )
}

fn entry(report: &Report, judgement: Judgement) -> TestEntry {
    let proves =
        "no figure is worse than the baseline by more than its tolerance, and none is missing";
    TestEntry::from_judgement(
        ID,
        "Baseline",
        proves,
        report.level,
        judgement,
        &report.machine.platform,
    )
}

fn judge(
    baseline: &Baseline,
    report: &Report,
    first: Option<Finding>,
) -> Result<(Judgement, Vec<Change>), String> {
    check_comparable(baseline, report)?;
    let measured = figures(report);
    let changes = changes(&baseline.facts, &baseline.varying, report);
    let all = || baseline.figures.iter();
    let lacking =
        all().filter_map(|(name, series)| missing_finding(name, series, &measured, report));
    let mut worse: Vec<_> = all()
        .filter_map(|(name, series)| deviation_finding(name, series, &measured, true))
        .collect();
    // The largest deviation first.
    worse.sort_by(|a, b| b.0.total_cmp(&a.0));
    let better =
        all().filter_map(|(name, series)| deviation_finding(name, series, &measured, false));
    let beyond = worse.into_iter().chain(better).map(|(_, finding)| finding);
    let findings = first
        .into_iter()
        .chain(lacking)
        .chain(beyond)
        .chain(changes_finding(&changes))
        .collect();
    let good = || match changes.len() {
        0 => format!(
            "{} figures are as in the baseline; nothing changed",
            baseline.size()
        ),
        n => format!(
            "{} figures are as in the baseline; {n} facts changed",
            baseline.size()
        ),
    };
    Ok((Judgement::summed_up(good, findings), changes))
}

fn check_comparable(baseline: &Baseline, report: &Report) -> Result<(), String> {
    let own = models(&report.gpus);
    if own != baseline.gpus {
        let (has, wants) = (models_text(&own), models_text(&baseline.gpus));
        return Err(format!(
            "the baseline is of another kind of machine: it has {wants}, the report {has}"
        ));
    }
    if report.level < baseline.level {
        let Baseline { level, .. } = baseline;
        return Err(format!(
            "the report is of level {}, but the baseline of level {level}: run that level",
            report.level
        ));
    }
    Ok(())
}

/// The cells that the baseline and the report have in common: place, the baseline's cell, the report's figure.
fn common_cells<'a>(
    name: &str,
    series: &'a Expected,
    measured: &'a Figures,
) -> impl Iterator<Item = (&'a str, &'a Cell, f64)> {
    let own = measured.get(name).filter(|own| own.unit == series.unit);
    let own = own.into_iter().flat_map(|own| &own.cells);
    own.filter_map(|(place, value)| Some((place.as_str(), series.cells.get(place)?, *value)))
}

fn missing_finding(
    name: &str,
    series: &Expected,
    measured: &Figures,
    report: &Report,
) -> Option<Finding> {
    let there: BTreeSet<&str> = common_cells(name, series, measured)
        .map(|(place, ..)| place)
        .collect();
    let gone: Vec<_> = series
        .cells
        .iter()
        .filter(|(place, _)| !there.contains(place.as_str()))
        .collect();
    let (place, cell) = gone.first()?;
    let message = format!(
        "{name}: {} of {} figures were not measured, the first is {place}, expected {}",
        gone.len(),
        series.cells.len(),
        figure_text(cell.value, &series.unit)
    );
    let id = name.split('/').next().unwrap_or_default();
    let test = report.tests.iter().find(|test| test.id == id);
    let why = test.map_or_else(
        || format!("the report has no test {id}"),
        |t| format!("{id}: {}", t.summary),
    );
    let finding = Code::BaselineMissing
        .finding(Severity::Error, Subject::Machine, message)
        .seen(why);
    Some(
        finding.seen_all(
            gone.iter()
                .take(MAX_EVIDENCE)
                .map(|(place, _)| format!("{name} {place}"))
                .collect(),
        ),
    )
}

/// One finding about the figures of a series that are worse (or better) by more than their tolerance, and the largest
/// deviation.
fn deviation_finding(
    name: &str,
    series: &Expected,
    measured: &Figures,
    worse: bool,
) -> Option<(f64, Finding)> {
    let more = is_larger_better(&series.unit)?;
    let outside = |(_, cell, now): &(&str, &Cell, f64)| {
        let (new, old) = if worse {
            (*now, cell.value)
        } else {
            (cell.value, *now)
        };
        is_worse(new, old, cell.tolerance, more)
    };
    let mut all: Vec<_> = common_cells(name, series, measured)
        .filter(outside)
        .collect();
    let far = |cell: &Cell, now: f64| {
        (now.max(f64::MIN_POSITIVE) / cell.value.max(f64::MIN_POSITIVE))
            .ln()
            .abs()
    };
    all.sort_by(|a, b| far(b.1, b.2).total_cmp(&far(a.1, a.2)));
    let line = |(place, cell, now): &(&str, &Cell, f64)| {
        let limit = tolerance_limit(cell, more == worse);
        let (word, unit) = (if more == worse { "least" } else { "most" }, &series.unit);
        let (now, then) = (figure_text(*now, unit), figure_text(cell.value, unit));
        let with = if worse {
            format!(", expected at {word} {}", figure_text(limit, unit))
        } else {
            String::new()
        };
        format!(
            "{name} {place}: {now}, baseline {then} +-{:.1} %{with}",
            cell.tolerance * 100.0
        )
    };
    let (first, others) = all.split_first()?;
    let rest = if others.is_empty() {
        String::new()
    } else {
        format!("; and {} more of {}", others.len(), series.cells.len())
    };
    let severity = match (worse, series.unit.as_str()) {
        (false, _) => Severity::Info,
        (true, YES_NO) => Severity::Fail,
        (true, _) => Severity::Warn,
    };
    let finding = Code::BaselineDrift.finding(severity, Subject::Machine, line(first) + &rest);
    let unit = Some(series.unit.as_str());
    let finding = finding.values(first.2, first.1.value, unit);
    let finding = finding.seen_all(others.iter().take(MAX_EVIDENCE).map(line).collect());
    Some((far(first.1, first.2), finding))
}

/// The figure at the limit of the tolerance.
fn tolerance_limit(cell: &Cell, below: bool) -> f64 {
    if below {
        cell.value / (1.0 + cell.tolerance)
    } else {
        cell.value * (1.0 + cell.tolerance)
    }
}

fn figure_text(value: f64, unit: &str) -> String {
    if unit == YES_NO {
        return if value > 0.0 { "yes" } else { "no" }.to_owned();
    }
    format!("{value:.2} {unit}")
}

fn changes_finding(changes: &[Change]) -> Option<Finding> {
    let (first, others) = changes.split_first()?;
    let rest = if others.is_empty() {
        String::new()
    } else {
        format!("; and {} more", others.len())
    };
    let finding =
        Code::BaselineChanged.finding(Severity::Info, Subject::Machine, format!("{first}{rest}"));
    Some(
        finding.seen_all(
            others
                .iter()
                .take(MAX_EVIDENCE)
                .map(ToString::to_string)
                .collect(),
        ),
    )
}

/// The finding if the report's verdict is worse than the baseline's.
fn worse_verdict_finding(baseline: &Baseline, report: &Report) -> Option<Finding> {
    let severity = match report.verdict {
        Verdict::Pass => return None,
        Verdict::Degraded if baseline.verdict == Verdict::Degraded => return None,
        Verdict::Degraded => Severity::Warn,
        Verdict::Fail => Severity::Fail,
        Verdict::Error => Severity::Error,
    };
    let codes: Vec<_> = report
        .causes
        .iter()
        .map(|cause| cause.code.as_str())
        .collect();
    let message = format!(
        "the verdict is {}, baseline {}: {}",
        report.verdict,
        baseline.verdict,
        codes.join(", ")
    );
    let finding = Code::BaselineChanged.finding(severity, Subject::Machine, message);
    Some(
        finding
            .values(
                report.verdict.to_string(),
                baseline.verdict.to_string(),
                None,
            )
            .seen(report.answer.clone()),
    )
}
