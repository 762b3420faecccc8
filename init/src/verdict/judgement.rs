//! The verdict on the machine and its grounds.

use super::Met;
use contract::outcome::{Outcome, Verdict};
use contract::recovery::Recovery;
use serde::Deserialize;
use serde_json::value::RawValue;

/// An error of a stage before or after the validation; it makes the verdict ERROR.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageError {
    /// The stage, as `failed=` names it.
    pub stage: &'static str,
    /// The code of init's own finding, where it has one.
    pub code: Option<&'static str>,
    /// The cause, in one line.
    pub cause: String,
}

/// The verdict on this machine, with its grounds.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The cause, when it is ERROR.
    pub cause: Option<String>,
    /// Ids of failed tests and stages.
    pub failed: Vec<String>,
    /// Ids of tests that warned.
    pub warned: Vec<String>,
    /// Codes of the findings, except harmless ones.
    pub codes: Vec<String>,
    /// The scope of the report, in one word.
    pub scope: Option<String>,
    /// The scope in one sentence.
    pub covers: Option<String>,
    /// The machine's name in the report.
    pub host: Option<String>,
    /// The validator's exit status, when it had one.
    pub exit_status: Option<i32>,
    /// The machine's fingerprint, to which the verdict is bound.
    pub fingerprint: Option<String>,
    /// The object whose hash is the fingerprint.
    pub bound_to: Option<Box<RawValue>>,
    /// Whether there is a report that agrees with the verdict.
    pub has_report: bool,
    /// The folder of the recorded machine, when the report is not about this one.
    pub recorded: Option<String>,
    /// When the validation began, from the report.
    pub started: Option<String>,
    /// How long the validation took, in seconds.
    pub seconds: f64,
    /// The result of the meeting with other nodes, where one is configured.
    pub nodes: Option<Met>,
    /// The validator's own last lines, if they state the same verdict.
    pub lines: Vec<String>,
}

impl Judgement {
    /// The worse of the machine's own verdict and that on all nodes: the policy follows it.
    #[must_use]
    pub fn worst(&self) -> Verdict {
        let nodes = self.nodes.as_ref().map_or(Verdict::Pass, |met| met.verdict);
        self.verdict.max(nodes)
    }

    /// ERROR for a reason outside of a report.
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
            nodes: None,
            lines: Vec::new(),
        }
    }

    /// Makes the verdict ERROR; the first cause stays the cause.
    pub fn add_stage_error(&mut self, error: &StageError) {
        self.verdict = Verdict::Error;
        self.cause = self
            .cause
            .take()
            .or_else(|| Some(format!("{}: {}", error.stage, error.cause)));
        if !self.failed.iter().any(|id| id == error.stage) {
            self.failed.insert(0, error.stage.to_owned());
        }
        if let Some(code) = error
            .code
            .filter(|code| !self.codes.iter().any(|known| known == code))
        {
            self.codes.insert(0, code.to_owned());
        }
        self.lines.clear();
    }
}

// The part of the validator's report that init reads.

/// The fields of `firstlight.report/1` that init needs.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) schema: String,
    pub(super) verdict: Verdict,
    pub(super) scope: String,
    pub(super) covers: String,
    pub(super) root: String,
    pub(super) started: String,
    pub(super) machine: MachineFacts,
    tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MachineFacts {
    pub(super) host: Option<String>,
    pub(super) fingerprint: String,
    pub(super) bound_to: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
struct Test {
    id: String,
    outcome: Outcome,
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    code: String,
    severity: String,
    recovery: Option<Recovery>,
}

impl Report {
    /// Ids of the tests with these outcomes.
    pub(super) fn tests_with_outcome(&self, outcomes: &[Outcome]) -> Vec<String> {
        let so = self
            .tests
            .iter()
            .filter(|test| outcomes.contains(&test.outcome));
        so.map(|test| test.id.clone()).collect()
    }

    /// Codes of the findings, except harmless ones, each once.
    pub(super) fn codes(&self) -> Vec<String> {
        let mut codes = Vec::new();
        for finding in self
            .tests
            .iter()
            .flat_map(|test| &test.findings)
            .filter(|f| f.severity != "info")
        {
            if !codes.contains(&finding.code) {
                codes.push(finding.code.clone());
            }
        }
        codes
    }

    /// The actions that findings require, except harmless ones, each with its code.
    pub(super) fn recoveries(&self) -> impl Iterator<Item = (Recovery, &str)> {
        let findings = self
            .tests
            .iter()
            .flat_map(|test| &test.findings)
            .filter(|f| f.severity != "info");
        findings.filter_map(|finding| Some((finding.recovery?, finding.code.as_str())))
    }

    /// Whether at least one test proved something and none failed or ended in error.
    pub(super) fn has_good_tests(&self) -> bool {
        let proved = |t: &Test| matches!(t.outcome, Outcome::Pass | Outcome::Warn);
        let fine = |t: &Test| proved(t) || t.outcome == Outcome::NotApplicable;
        self.tests.iter().any(proved) && self.tests.iter().all(fine)
    }
}
