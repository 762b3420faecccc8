//! What a test can find: findings with their causes and remedies, the outcome of a test, its advice for the workload, and the
//! verdict of all tests. There is no default outcome: absence of evidence is never a pass.
//! Below them is what every other crate of the validator needs: what kind of machine this is (`platform`), text for people
//! (`text`), and files that the user names (`files`).

#![forbid(unsafe_code)]

pub mod files;
pub mod finding;
pub mod later;
pub mod metric;
pub mod platform;
pub mod schema;
pub mod scope;
pub mod table;
pub mod test;
pub mod text;

pub use contract::outcome::{Outcome, Verdict};

use finding::{Code, Finding, Severity};
use metric::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use table::Table;

/// The result of judging a test: the outcome follows from the findings, so that every outcome has its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    outcome: Outcome,
    /// One line for the console, measured and expected in the same sentence.
    pub summary: String,
    /// All findings, including harmless ones.
    pub findings: Vec<Finding>,
    /// Measurements by pair.
    #[serde(default)]
    pub matrices: Vec<Matrix>,
    /// Measurements of another shape.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Settings for the workload.
    #[serde(default)]
    pub advice: Vec<Advice>,
    /// The effects of switching something on, by name, as ratios.
    #[serde(default)]
    pub effects: BTreeMap<String, f64>,
    /// Codes that the test can find on other machines or in other runs, but did not look for in this one, or not
    /// everywhere: its pass does not rule them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<Code>,
}

impl Judgement {
    /// The outcome is that of the worst finding; a pass when there is none worse than `Info`.
    #[must_use]
    pub fn of(summary: impl Into<String>, findings: Vec<Finding>) -> Self {
        Self::ended(
            of_severities(findings.iter().map(|f| f.severity)),
            summary.into(),
            findings,
        )
    }

    /// As [`Judgement::of`]; the summary is the message of the first of the worst findings, or `good` when there is
    /// none worse than `Info`.
    #[must_use]
    pub fn summed_up(good: impl FnOnce() -> String, findings: Vec<Finding>) -> Self {
        let worse = findings
            .iter()
            .rev()
            .filter(|f| f.severity > Severity::Info);
        let summary = worse
            .max_by_key(|f| f.severity)
            .map_or_else(good, |worst| worst.message.to_string());
        Self::of(summary, findings)
    }

    const fn ended(outcome: Outcome, summary: String, findings: Vec<Finding>) -> Self {
        Self {
            outcome,
            summary,
            findings,
            matrices: Vec::new(),
            tables: Vec::new(),
            advice: Vec::new(),
            effects: BTreeMap::new(),
            unchecked: Vec::new(),
        }
    }

    /// A judgement from one finding, whose message is the summary.
    #[must_use]
    pub fn by(finding: Finding) -> Self {
        Self::of(finding.message.to_string(), vec![finding])
    }

    /// The machine has nothing of the kind to test; `why` is the summary.
    #[must_use]
    pub fn not_applicable(why: impl Into<String>) -> Self {
        Self::ended(Outcome::NotApplicable, why.into(), Vec::new())
    }

    /// The same, with what was measured.
    #[must_use]
    pub fn showing(self, matrices: Vec<Matrix>) -> Self {
        Self { matrices, ..self }
    }

    /// The same, with tables of what was measured.
    #[must_use]
    pub fn with_tables(self, tables: Vec<Table>) -> Self {
        Self { tables, ..self }
    }

    /// The same, with settings for the workload.
    #[must_use]
    pub fn advising(self, advice: Vec<Advice>) -> Self {
        Self { advice, ..self }
    }

    /// The same, with the effects of switching something on.
    #[must_use]
    pub fn with_effects(self, effects: BTreeMap<String, f64>) -> Self {
        Self { effects, ..self }
    }

    /// The same, with codes that this run could not have found, in addition to those that it has.
    #[must_use]
    pub fn without_checking(mut self, codes: &[Code]) -> Self {
        let new: Vec<_> = codes
            .iter()
            .copied()
            .filter(|code| !self.unchecked.contains(code))
            .collect();
        self.unchecked.extend(new);
        self
    }

    /// How the test ended.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Adds findings from another source (the kernel's log); the outcome can only get worse.
    #[must_use]
    pub fn with(self, more: Vec<Finding>) -> Self {
        if more.is_empty() {
            return self;
        }
        let only_info = more.iter().all(|f| f.severity == Severity::Info);
        if self.outcome == Outcome::NotApplicable && only_info {
            return Self {
                findings: more,
                ..self
            };
        }
        let Self {
            summary,
            mut findings,
            matrices,
            tables,
            advice,
            effects,
            unchecked,
            ..
        } = self;
        findings.extend(more);
        Self {
            matrices,
            tables,
            advice,
            effects,
            unchecked,
            ..Self::of(summary, findings)
        }
    }
}

/// The outcome of a test with findings of these severities: that of the worst, and a pass when there is none worse than
/// `Info`.
#[must_use]
pub fn of_severities(severities: impl Iterator<Item = Severity>) -> Outcome {
    match severities.max() {
        None | Some(Severity::Info) => Outcome::Pass,
        Some(Severity::Warn) => Outcome::Warn,
        Some(Severity::Fail) => Outcome::Fail,
        Some(Severity::Error) => Outcome::Error,
    }
}

/// The verdict of a machine: the worst of all outcomes. An error weighs more than a failure, and no
/// applicable outcome is an error as well: a machine about which nothing is known is not good.
#[must_use]
pub fn verdict(outcomes: &[Outcome]) -> Verdict {
    let any = |wanted| outcomes.contains(&wanted);
    if any(Outcome::Error) || !outcomes.iter().any(|o| *o != Outcome::NotApplicable) {
        Verdict::Error
    } else if any(Outcome::Fail) {
        Verdict::Fail
    } else if any(Outcome::Warn) {
        Verdict::Degraded
    } else {
        Verdict::Pass
    }
}

/// Measurements by row and column, as in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// What was measured.
    pub name: String,
    /// The unit of the values.
    pub unit: String,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Values by row; `null` where there is none.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Matrix {
    /// What its figures are; `None` for a name that this program does not use.
    #[must_use]
    pub fn metric(&self) -> Option<Metric> {
        Metric::named(&self.name)
    }
}

/// One variable for the workload's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// `NCCL_P2P_LEVEL`
    pub name: String,
    /// Its value.
    pub value: String,
    /// The reason, in one line without `=`, because old NCCL takes any line of nccl.conf with `=` as a
    /// setting.
    pub reason: String,
}

impl Advice {
    /// A variable; the reason is reduced to one line.
    #[must_use]
    pub fn new(name: &str, value: impl Into<String>, reason: &str) -> Self {
        let plain = |c: char| match c {
            c if text::is_invisible(c) => ' ',
            '=' => ':',
            c => c,
        };
        let reason: String = reason.chars().map(plain).collect();
        Self {
            name: name.to_owned(),
            value: value.into(),
            reason: reason.trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Subject;

    fn found(severity: Severity) -> Finding {
        Code::LinkNarrow.finding(severity, Subject::Machine, "seen")
    }

    #[test]
    fn a_judgement_is_as_bad_as_its_worst_finding() {
        let judge =
            |s: &[Severity]| Judgement::of("x", s.iter().map(|s| found(*s)).collect()).outcome();
        assert_eq!(judge(&[]), Outcome::Pass);
        assert_eq!(judge(&[Severity::Info]), Outcome::Pass);
        assert_eq!(judge(&[Severity::Warn, Severity::Info]), Outcome::Warn);
        assert_eq!(judge(&[Severity::Fail, Severity::Warn]), Outcome::Fail);
        assert_eq!(judge(&[Severity::Fail, Severity::Error]), Outcome::Error);
    }

    #[test]
    fn findings_from_the_kernels_log_can_only_make_it_worse() {
        let pass = Judgement::of("fine", vec![]).with(vec![found(Severity::Fail)]);
        assert_eq!(pass.outcome(), Outcome::Fail);
        let fail = Judgement::by(found(Severity::Fail)).with(vec![found(Severity::Info)]);
        assert_eq!((fail.outcome(), fail.findings.len()), (Outcome::Fail, 2));
        let absent = Judgement::not_applicable("no GPU");
        assert_eq!(
            absent.clone().with(vec![found(Severity::Info)]).outcome(),
            Outcome::NotApplicable
        );
        assert_eq!(
            absent.with(vec![found(Severity::Warn)]).outcome(),
            Outcome::Warn
        );
    }

    #[test]
    fn what_a_test_hands_over_survives_findings_from_elsewhere_and_the_pipe() {
        let advice = Advice {
            name: "A".into(),
            value: "1".into(),
            reason: "why".into(),
        };
        let first = Judgement::of("fine", vec![])
            .advising(vec![advice])
            .with_effects(BTreeMap::from([("gain".to_owned(), 1.5)]))
            .without_checking(&[Code::LinkNarrow])
            .without_checking(&[Code::LinkNarrow, Code::CpusLost]);
        let worse = first.clone().with(vec![found(Severity::Warn)]);
        assert_eq!(
            (&worse.advice, &worse.effects),
            (&first.advice, &first.effects)
        );
        assert_eq!(worse.unchecked, [Code::LinkNarrow, Code::CpusLost]);
        let text = serde_json::to_string(&first).unwrap();
        assert_eq!(serde_json::from_str::<Judgement>(&text).unwrap(), first);
    }

    #[test]
    fn the_verdict_is_the_worst_outcome() {
        use Outcome::{Error, Fail, NotApplicable, Pass, Warn};
        for (outcomes, want) in [
            (&[Pass, NotApplicable][..], Verdict::Pass),
            (&[Pass, Warn], Verdict::Degraded),
            (&[Warn, Fail, Pass], Verdict::Fail),
            (&[Fail, Error, Pass], Verdict::Error),
        ] {
            assert_eq!(verdict(outcomes), want, "{outcomes:?}");
        }
    }

    #[test]
    fn nothing_that_ran_is_an_error_not_a_pass() {
        assert_eq!(verdict(&[]), Verdict::Error);
        assert_eq!(verdict(&[Outcome::NotApplicable]), Verdict::Error);
    }

    #[test]
    fn reasons_are_one_line_without_an_equals_sign() {
        assert_eq!(Advice::new("NCCL_X", "1", "a=b\nc ").reason, "a:b c");
    }
}
