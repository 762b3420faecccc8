//! From the results of the validator to a verdict. Fails closed: a verdict is accepted only if exit status
//! and report agree; everything else is ERROR with a cause.

mod judgement;
mod met;

pub use contract::outcome::Verdict;
pub use judgement::{Judgement, StageError};
pub use met::Met;

use crate::child::End;
use contract::last_line::{BEGINNING, LastLine};
use contract::outcome::Outcome;
use contract::recovery::Recovery;
use contract::schema;
use judgement::{MachineFacts, Report};

/// The result of one run of the validator.
#[derive(Debug)]
pub struct Validation {
    /// How its process ended.
    pub end: End,
    /// Its last line, when it ended badly.
    pub reason: String,
    /// The report's bytes, or why there are none.
    pub report: Result<Vec<u8>, String>,
    /// Its own VERDICT and FIRSTLIGHT lines, held back.
    pub lines: Vec<String>,
    /// How long it ran, in seconds.
    pub seconds: f64,
}

impl Judgement {
    /// The lines that announce it, the FIRSTLIGHT line last; `here` is this machine's name.
    #[must_use]
    pub fn announcement(&self, here: &str) -> Vec<String> {
        let verdict = self.verdict;
        let because = self
            .cause
            .as_ref()
            .map_or_else(String::new, |cause| format!("   {cause}"));
        let own = || {
            vec![
                format!("VERDICT  {verdict}{because}"),
                self.last_line(here).to_string(),
            ]
        };
        let mut lines = if self.lines.is_empty() {
            own()
        } else {
            self.lines.clone()
        };
        if let (Some(last), Some(met)) = (lines.last_mut(), &self.nodes) {
            last.push_str(&format!(" nodes={}", met.verdict));
        }
        lines
    }

    /// The line for a verdict that init reached itself.
    fn last_line<'a>(&'a self, here: &'a str) -> LastLine<'a> {
        LastLine {
            verdict: self.verdict,
            failed: self.failed.iter().map(String::as_str).collect(),
            warned: self.warned.iter().map(String::as_str).collect(),
            codes: self.codes.iter().map(String::as_str).collect(),
            scope: self.scope.as_deref().unwrap_or("machine"),
            host: self.host.as_deref().unwrap_or(here),
            seconds: self.seconds,
        }
    }
}

/// Judges the validator's results and the errors of other stages.
#[must_use]
pub fn judge(validation: &Validation, stage_errors: &[StageError]) -> Judgement {
    let mut judgement = match accept(validation) {
        Ok(judgement) => judgement,
        Err(cause) => Judgement {
            exit_status: if let End::Exited(status) = validation.end {
                Some(status)
            } else {
                None
            },
            ..Judgement::error("validator", cause, validation.seconds)
        },
    };
    // In reverse order, so that the first error is named first.
    stage_errors
        .iter()
        .rev()
        .for_each(|stage_error| judgement.add_stage_error(stage_error));
    if let Some(first) = stage_errors.first() {
        judgement.cause = Some(format!("{}: {}", first.stage, first.cause));
    }
    judgement
}

/// What GPUs need before they can be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryNeed {
    /// A reset of the GPUs.
    Reset,
    /// A reboot of the machine.
    Reboot,
    /// An action that only a person can take.
    Manual(Recovery),
}

impl RecoveryNeed {
    const fn of(action: Recovery) -> Option<Self> {
        match action {
            Recovery::None | Recovery::RestartProgram => None,
            Recovery::ResetGpu | Recovery::DrainP2p | Recovery::DrainAndReset => Some(Self::Reset),
            Recovery::RebootNode => Some(Self::Reboot),
            Recovery::PowerCycle | Recovery::Replace => Some(Self::Manual(action)),
        }
    }
}

/// What the machine's GPUs need according to the validator's results, and the code or the cause of that need.
#[must_use]
pub fn recovery_need(validation: &Validation) -> Option<(RecoveryNeed, String)> {
    if matches!(validation.end, End::TimedOut(_) | End::Unkillable(_)) {
        return Some((
            RecoveryNeed::Reset,
            format!("the validator {}", validation.end),
        ));
    }
    let report: Report = serde_json::from_slice(validation.report.as_ref().ok()?).ok()?;
    let need =
        |(action, code): (Recovery, &str)| Some((RecoveryNeed::of(action)?, code.to_owned()));
    let needs = report.recoveries().filter_map(need);
    // The first of the greatest needs.
    needs.reduce(|most, next| if next.0 > most.0 { next } else { most })
}

/// Whether tests of a part of the machine (for example each GPU by itself) passed, according to both exit status and
/// report.
#[must_use]
pub fn part_passed(validation: &Validation) -> bool {
    let End::Exited(status) = validation.end else {
        return false;
    };
    let read = |bytes: &Vec<u8>| serde_json::from_slice::<Report>(bytes).ok();
    let report = validation.report.as_ref().ok().and_then(read);
    report.is_some_and(|report| {
        let said = Verdict::of_status(status);
        let agrees = report.schema == schema::REPORT && said == Some(report.verdict);
        agrees && report.verdict.is_good() && report.has_good_tests()
    })
}

/// The validator's verdict, or why it is not accepted.
fn accept(validation: &Validation) -> Result<Judgement, String> {
    let End::Exited(status) = validation.end else {
        return Err(format!("the validator {}", validation.end));
    };
    let said = Verdict::of_status(status)
        .ok_or_else(|| format!("the validator {}: {}", validation.end, validation.reason))?;
    let bytes = validation.report.as_ref().map_err(Clone::clone)?;
    let report: Report = serde_json::from_slice(bytes).map_err(|e| format!("report.json: {e}"))?;
    check_consistency(&report, said)?;
    let mut failed = report.tests_with_outcome(&[Outcome::Fail, Outcome::Error]);
    if failed.is_empty() && said == Verdict::Error {
        // No test can be named when none ran.
        failed.push("validator".to_owned());
    }
    let cause = match said {
        Verdict::Error => Some(format!(
            "the validator reached no verdict ({})",
            failed.join(", ")
        )),
        _ => None,
    };
    let mut judgement = Judgement {
        verdict: said,
        cause,
        failed,
        warned: report.tests_with_outcome(&[Outcome::Warn]),
        codes: report.codes(),
        scope: Some(report.scope),
        covers: Some(report.covers),
        host: report.machine.host,
        exit_status: Some(status),
        fingerprint: Some(report.machine.fingerprint),
        bound_to: Some(report.machine.bound_to),
        has_report: true,
        recorded: (report.root != "/").then_some(report.root),
        started: Some(report.started),
        seconds: validation.seconds,
        nodes: None,
        lines: Vec::new(),
    };
    judgement.lines = last_lines(&validation.lines, &judgement);
    Ok(judgement)
}

/// Checks the report against the exit status.
fn check_consistency(report: &Report, said: Verdict) -> Result<(), String> {
    let (schema, verdict) = (&report.schema, report.verdict);
    if schema != schema::REPORT {
        return Err(format!(
            "report.json: schema {schema:?}, expected {:?}",
            schema::REPORT
        ));
    }
    if verdict != said {
        return Err(format!(
            "the validator's exit status says {said}, its report {verdict}"
        ));
    }
    if said.is_good() && report.scope != SCOPE {
        return Err(format!(
            "the report says {said} of {:?}, expected of {SCOPE:?}",
            report.scope
        ));
    }
    let MachineFacts {
        fingerprint,
        bound_to,
        ..
    } = &report.machine;
    if !bound_to.get().starts_with('{') {
        return Err(format!(
            "report.json: bound_to {bound_to}, expected an object"
        ));
    }
    let is_hash = fingerprint.len() == 64 && fingerprint.bytes().all(|b| b.is_ascii_hexdigit());
    if !said.is_good() || is_hash && report.has_good_tests() {
        return Ok(());
    }
    if !is_hash {
        return Err(format!(
            "the report says {said} and has no fingerprint: {fingerprint:?}"
        ));
    }
    Err(format!("the report says {said} and its tests do not"))
}

/// A verdict of a smaller scope does not cover what the workload uses.
const SCOPE: &str = "machine";

/// The validator's own last lines: the last of each kind, and only if both agree with its report.
fn last_lines(held: &[String], judgement: &Judgement) -> Vec<String> {
    let last = |prefix: &str| held.iter().rev().find(|line| line.starts_with(prefix));
    let verdict = judgement.verdict.to_string();
    let says = |line: &&String| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|word| word == verdict)
    };
    let ours = judgement.last_line("").to_string();
    // The host's name and the seconds after it are not part of the verdict.
    let facts = |line: &str| line.split_once(" host=").map(|(facts, _)| facts.to_owned());
    match (
        last("VERDICT").filter(says),
        last(BEGINNING).filter(|line| facts(line) == facts(&ours)),
    ) {
        (Some(a), Some(b)) => vec![a.clone(), b.clone()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
