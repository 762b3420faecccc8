//! From what is left of the validator to a verdict. Fails closed: only an exit status, a report and
//! a verdict in it that all say the same are believed; everything else is ERROR with a cause.

mod told;

use crate::child::End;
use crate::last_line::last_line;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use told::{MachineFacts, Outcome, Report};

/// What was found out about the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every mandatory test passed.
    Pass,
    /// As Pass, with a warning.
    Degraded,
    /// A test failed.
    Fail,
    /// No verdict could be reached.
    Error,
}

impl Verdict {
    /// The verdict that an exit status of `firstlight validate` stands for.
    #[must_use]
    pub const fn of_status(status: i32) -> Option<Self> {
        match status {
            0 => Some(Self::Pass),
            1 => Some(Self::Fail),
            2 => Some(Self::Error),
            3 => Some(Self::Degraded),
            _ => None,
        }
    }

    /// Whether the machine may be believed in.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Pass | Self::Degraded)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Degraded => "DEGRADED",
            Self::Fail => "FAIL",
            Self::Error => "ERROR",
        })
    }
}

/// Something before or after the validation that makes the verdict ERROR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The stage, as `failed=` names it.
    pub stage: &'static str,
    /// One line.
    pub cause: String,
}

/// What the validator left behind.
#[derive(Debug)]
pub struct Proof {
    /// How it ended.
    pub end: End,
    /// Its last words, when it ended badly.
    pub reason: String,
    /// The report's bytes, or why there are none.
    pub report: Result<Vec<u8>, String>,
    /// Its own VERDICT and FIRSTLIGHT lines, held back.
    pub lines: Vec<String>,
    /// How long it ran.
    pub seconds: f64,
}

/// The verdict with its grounds.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, when it is ERROR.
    pub cause: Option<String>,
    /// Ids of failed tests and stages.
    pub failed: Vec<String>,
    /// Ids of tests that warned.
    pub warned: Vec<String>,
    /// Codes of what was found, the harmless aside.
    pub codes: Vec<String>,
    /// What the report speaks of, in one word.
    pub scope: Option<String>,
    /// The same in one sentence.
    pub covers: Option<String>,
    /// The machine's name, as the report has it.
    pub host: Option<String>,
    /// The validator's exit status, when it had one.
    pub exit_status: Option<i32>,
    /// What the verdict is bound to.
    pub fingerprint: Option<String>,
    /// The object that the fingerprint is the hash of.
    pub bound_to: Option<Box<RawValue>>,
    /// Whether there is a report that the verdict agrees with.
    pub has_report: bool,
    /// The folder the report is about, when that is not this machine.
    pub recorded: Option<String>,
    /// When the validation began, as the report has it.
    pub started: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// The validator's own last lines, where they say the same.
    pub lines: Vec<String>,
}

impl Judgement {
    /// ERROR for a reason that has nothing to do with a report.
    #[must_use]
    pub fn error(failed: &str, cause: String, seconds: f64) -> Self {
        Self {
            verdict: Verdict::Error,
            cause: Some(cause),
            failed: vec![failed.to_owned()],
            warned: Vec::new(),
            codes: Vec::new(),
            scope: None,
            covers: None,
            host: None,
            exit_status: None,
            fingerprint: None,
            bound_to: None,
            has_report: false,
            recorded: None,
            started: None,
            seconds,
            lines: Vec::new(),
        }
    }

    /// Makes it ERROR; the first cause stays the cause.
    pub fn worsen(&mut self, trouble: &Trouble) {
        self.verdict = Verdict::Error;
        self.cause = self.cause.take().or_else(|| Some(format!("{}: {}", trouble.stage, trouble.cause)));
        if !self.failed.iter().any(|id| id == trouble.stage) {
            self.failed.insert(0, trouble.stage.to_owned());
        }
        self.lines.clear();
    }

    /// The lines that tell it, the FIRSTLIGHT line last; `here` is this machine's name.
    #[must_use]
    pub fn announcement(&self, here: &str) -> Vec<String> {
        if !self.lines.is_empty() {
            return self.lines.clone();
        }
        let verdict = self.verdict;
        let because = self.cause.as_ref().map_or_else(String::new, |cause| format!("   {cause}"));
        vec![format!("VERDICT  {verdict}{because}"), last_line(self, here)]
    }
}

/// Judges.
#[must_use]
pub fn judge(proof: &Proof, troubles: &[Trouble]) -> Judgement {
    let mut judgement = match believe(proof) {
        Ok(judgement) => judgement,
        Err(cause) => Judgement {
            exit_status: if let End::Exited(status) = proof.end { Some(status) } else { None },
            ..Judgement::error("validator", cause, proof.seconds)
        },
    };
    // Told in reverse, so that the first trouble is named first.
    troubles.iter().rev().for_each(|trouble| judgement.worsen(trouble));
    if let Some(first) = troubles.first() {
        judgement.cause = Some(format!("{}: {}", first.stage, first.cause));
    }
    judgement
}

/// The validator's verdict, or why it is not believed.
fn believe(proof: &Proof) -> Result<Judgement, String> {
    let End::Exited(status) = proof.end else {
        return Err(format!("the validator {}", proof.end));
    };
    let said =
        Verdict::of_status(status).ok_or_else(|| format!("the validator {}: {}", proof.end, proof.reason))?;
    let bytes = proof.report.as_ref().map_err(Clone::clone)?;
    let report: Report = serde_json::from_slice(bytes).map_err(|e| format!("report.json: {e}"))?;
    contradiction(&report, said)?;
    let failed = report.ended(&[Outcome::Fail, Outcome::Error]);
    let cause = match said {
        Verdict::Error => Some(format!("the validator reached no verdict ({})", failed.join(", "))),
        _ => None,
    };
    Ok(Judgement {
        verdict: said,
        cause,
        failed,
        warned: report.ended(&[Outcome::Warn]),
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
        seconds: proof.seconds,
        lines: last_lines(&proof.lines, said),
    })
}

/// What in the report speaks against the exit status.
fn contradiction(report: &Report, said: Verdict) -> Result<(), String> {
    let (schema, verdict) = (&report.schema, report.verdict);
    if schema != "firstlight.report/1" {
        return Err(format!("report.json: schema {schema:?}, expected \"firstlight.report/1\""));
    }
    if verdict != said {
        return Err(format!("the validator's exit status says {said}, its report {verdict}"));
    }
    if said.is_good() && report.scope != SCOPE {
        return Err(format!("the report says {said} of {:?}, expected of {SCOPE:?}", report.scope));
    }
    let MachineFacts { fingerprint, bound_to, .. } = &report.machine;
    if !bound_to.get().starts_with('{') {
        return Err(format!("report.json: bound_to {bound_to}, expected an object"));
    }
    let is_hash = fingerprint.len() == 64 && fingerprint.bytes().all(|b| b.is_ascii_hexdigit());
    if !said.is_good() || is_hash && report.has_good_tests() {
        return Ok(());
    }
    if !is_hash {
        return Err(format!("the report says {said} and has no fingerprint: {fingerprint:?}"));
    }
    Err(format!("the report says {said} and its tests do not"))
}

/// A verdict of less says nothing about what the workload is to use.
const SCOPE: &str = "machine";

/// The validator's own last lines: of each kind the last, and only if both say the verdict.
fn last_lines(held: &[String], verdict: Verdict) -> Vec<String> {
    let last = |prefix: &str| held.iter().rev().find(|line| line.starts_with(prefix));
    let says =
        |line: &&String| line.split_whitespace().nth(1).is_some_and(|word| word == verdict.to_string());
    let scraper = format!("FIRSTLIGHT verdict={verdict} ");
    match (last("VERDICT").filter(says), last("FIRSTLIGHT ").filter(|line| line.starts_with(&scraper))) {
        (Some(a), Some(b)) => vec![a.clone(), b.clone()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
