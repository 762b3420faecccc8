//! What a machine needs before it takes work, as one word for schedulers and scripts. It follows from the verdict, from the
//! causes, and from the actions that NVIDIA's driver or its documents name (`recovery`). Pure.

use super::causes::gpus_of;
use super::{Cause, Report, TestEntry};
use contract::recovery::Recovery;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{Code, FindingEntry, Severity};
use outcome::{Outcome, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// What a machine needs before it takes work, from the least to the most.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NextStep {
    /// Nothing: it may work.
    None,
    /// A reset of the GPUs that the findings name, then another run.
    Reset,
    /// A reboot, then another run.
    Reboot,
    /// No work until somebody has looked at it, or a later run is good.
    #[default]
    Drain,
    /// A new part for a GPU. No single run says this.
    Replace,
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Reset => "reset",
            Self::Reboot => "reboot",
            Self::Drain => "drain",
            Self::Replace => "replace",
        })
    }
}

/// A step, and the GPUs that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepFor {
    /// The step.
    pub step: NextStep,
    /// The addresses of the GPUs that the causes name; empty if a cause is about the whole machine.
    pub gpus: BTreeSet<Bdf>,
}

/// The step after one run: never [`NextStep::Replace`]. A verdict that is not good never gives [`NextStep::None`], and a step
/// that a program may take follows only where it answers every cause.
pub(super) fn of_one_run(report: &Report) -> NextStep {
    let usual = if report.verdict.is_good() {
        NextStep::None
    } else {
        NextStep::Drain
    };
    if report.verdict == Verdict::Pass {
        return NextStep::None;
    }
    let steps: Vec<_> = deciding(report)
        .map(|cause| step_of(report, cause).unwrap_or(usual))
        .collect();
    // A test without a result that nothing explains is answered by no reset.
    let unexplained = report
        .tests
        .iter()
        .any(is_unexplained)
        .then_some(NextStep::Drain);
    steps.into_iter().chain(unexplained).max().unwrap_or(usual)
}

/// The step after the run of `report`, with what earlier runs of the same machine found, in any order. A GPU that was found
/// worn out by at least two runs is to be replaced; its UUID, not its slot, says that it is the same one.
#[must_use]
pub fn after_runs(report: &Report, earlier: &[Report]) -> StepFor {
    let before = earlier
        .iter()
        .filter(|other| other.started != report.started);
    let known: BTreeSet<_> = before.flat_map(worn).map(|(uuid, _)| uuid).collect();
    let again: BTreeSet<_> = worn(report)
        .filter(|(uuid, _)| known.contains(uuid))
        .map(|(_, bdf)| bdf)
        .collect();
    if again.is_empty() {
        StepFor {
            step: report.next_step,
            gpus: gpus_at_fault(report),
        }
    } else {
        StepFor {
            step: NextStep::Replace,
            gpus: again,
        }
    }
}

/// The causes that decide: in a bad verdict those that made it bad, in a good one all.
fn deciding(report: &Report) -> impl Iterator<Item = &Cause> {
    let least = if report.verdict.is_good() {
        Severity::Warn
    } else {
        Severity::Fail
    };
    report
        .causes
        .iter()
        .filter(move |cause| cause.severity >= least)
}

fn is_unexplained(test: &TestEntry) -> bool {
    let bad = matches!(test.outcome, Outcome::Fail | Outcome::Error);
    bad && !test
        .findings
        .iter()
        .any(|finding| finding.severity >= Severity::Fail)
}

/// The step that answers a cause: that of its own findings, and more where a symptom needs more. `None` if no action is named
/// for the cause itself.
fn step_of(report: &Report, cause: &Cause) -> Option<NextStep> {
    let findings = || {
        report
            .tests
            .iter()
            .flat_map(|test| test.findings.iter().map(move |finding| (test, finding)))
    };
    let own = findings().filter(|(_, f)| {
        f.severity > Severity::Info && f.code == cause.code && f.remedy == cause.remedy
    });
    let own: Vec<_> = own.map(|(_, finding)| step_of_finding(finding)).collect();
    // One that names no action needs somebody, whatever the others name.
    if own.contains(&None) && !report.verdict.is_good() {
        return None;
    }
    let own = own.into_iter().flatten().max()?;
    let symptoms = findings().filter(|(test, f)| {
        cause
            .symptoms
            .iter()
            .any(|s| s.code == f.code && s.test == test.id)
    });
    symptoms
        .filter_map(|(_, finding)| step_of_finding(finding))
        .chain([own])
        .max()
}

/// The step for the action that a finding names. What a person must do to the machine is no step of a program.
fn step_of_finding(finding: &FindingEntry) -> Option<NextStep> {
    match finding.recovery? {
        Recovery::None | Recovery::RestartProgram => None,
        Recovery::ResetGpu | Recovery::DrainP2p | Recovery::DrainAndReset => Some(NextStep::Reset),
        Recovery::RebootNode => Some(NextStep::Reboot),
        Recovery::PowerCycle | Recovery::Replace => Some(NextStep::Drain),
    }
}

/// The GPUs that the deciding causes name; none if one of them is about the whole machine.
fn gpus_at_fault(report: &Report) -> BTreeSet<Bdf> {
    let mut gpus = BTreeSet::new();
    for cause in deciding(report) {
        let named: BTreeSet<_> = cause
            .about
            .iter()
            .flat_map(|about| gpus_of(about, report))
            .collect();
        if named.is_empty() {
            return BTreeSet::new();
        }
        gpus.extend(named);
    }
    // A test without a result that nothing explains is about the whole machine, too.
    if report.tests.iter().any(is_unexplained) {
        return BTreeSet::new();
    }
    GpuId::each(&report.gpus)
        .filter(|(number, _)| gpus.contains(number))
        .map(|(_, gpu)| gpu.bdf)
        .collect()
}

/// The GPUs of which a run found that they store or compute wrongly by themselves, or that NVIDIA's documents say to replace:
/// UUID and address. One without a UUID cannot be known again.
fn worn(report: &Report) -> impl Iterator<Item = (&str, Bdf)> {
    let of_itself = |f: &&FindingEntry| {
        let code = f.known().is_some_and(|code| {
            matches!(code, Code::GpuEcc | Code::GpuMemory | Code::GpuArithmetic)
        });
        f.severity >= Severity::Fail && (code || f.recovery == Some(Recovery::Replace))
    };
    let findings = report
        .tests
        .iter()
        .flat_map(|test| &test.findings)
        .filter(of_itself);
    let one = |f: &FindingEntry| Some(gpus_of(f.about(), report)).filter(|gpus| gpus.len() == 1);
    let numbers: BTreeSet<_> = findings.filter_map(one).flatten().collect();
    let gpus = GpuId::each(&report.gpus).filter(move |(number, _)| numbers.contains(number));
    gpus.filter_map(|(_, gpu)| Some((gpu.uuid.as_deref()?, gpu.bdf)))
}

#[cfg(test)]
mod tests;
