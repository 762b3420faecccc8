//! A finding as files hold it and people read it: with its cause and its remedy in words. It is made from a [`Finding`] and
//! the kind of machine, and read from reports of any version.

use super::remedy::Case;
use super::{Code, Finding, Reason, Recovery, Severity, Subject, Words};
use crate::later;
use crate::platform::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One finding, as every report and every `--json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingEntry {
    /// Short and stable, e.g. `ACS-REDIRECT`; `docs/findings.md` lists all of them.
    pub code: String,
    /// How bad it is.
    #[schemars(schema_with = "crate::schema::severity")]
    pub severity: Severity,
    /// The subject: a BDF, a pair `A -> B`, or `machine`.
    pub subject: Words,
    /// The same for programs. Earlier reports lack it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "later::or_default"
    )]
    pub about: Option<Subject>,
    /// Subjects of findings of the same kind that it stands for.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "later::readable"
    )]
    pub represents: Vec<Subject>,
    /// One sentence with the measured and the expected value, with units.
    pub message: Words,
    /// What was read or measured; a number if there is a unit.
    pub measured: Value,
    /// The expected value, in the same unit.
    pub expected: Value,
    /// The unit of `measured` and `expected`; `null` if they are words.
    pub unit: Option<String>,
    /// The sources: file paths with their content, register reads, kernel log lines.
    pub evidence: Vec<String>,
    /// The most likely cause.
    pub cause: Words,
    /// The next thing to do.
    pub remedy: Words,
    /// What is wrong, as a clause, where that is known more exactly than by the code.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "later::or_default"
    )]
    pub clause: Option<Words>,
    /// The next action as a word for programs, where NVIDIA's driver or its documents give one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "later::or_default"
    )]
    #[schemars(schema_with = "crate::schema::recovery")]
    pub recovery: Option<Recovery>,
}

impl FindingEntry {
    /// The finding in words, for this kind of machine.
    #[must_use]
    pub fn of(finding: &Finding, host: &Host) -> Self {
        let row = finding.code.row();
        let reason = finding.reason.as_ref();
        let case = Case { host, finding };
        let shown = || row.cause_for.and_then(|of| of(case));
        let cause = reason
            .and_then(Reason::cause)
            .or_else(shown)
            .unwrap_or_else(|| row.cause.to_owned());
        let own = reason.and_then(|reason| reason.remedy(case));
        let of_machine = own.as_ref().and(reason).map_or(row.of_machine, |reason| {
            row.of_machine || reason.is_of_machine()
        });
        let remedy = own.unwrap_or_else(|| row.remedy.text(case));
        let remedy = if host.container && of_machine {
            format!("on the container's host: {remedy}")
        } else {
            remedy
        };
        Self {
            code: finding.code.as_str().to_owned(),
            severity: finding.severity,
            subject: finding.subject.to_string().into(),
            about: Some(finding.subject.clone()),
            represents: finding.represents.clone(),
            message: finding.message.clone(),
            measured: finding.measured.clone(),
            expected: finding.expected.clone(),
            unit: finding.unit.clone(),
            evidence: finding.evidence.clone(),
            cause: cause.into(),
            remedy: remedy.into(),
            clause: reason.and_then(Reason::clause).map(Words::from),
            recovery: finding.recovery,
        }
    }

    /// All findings in words.
    #[must_use]
    pub fn all(findings: &[Finding], host: &Host) -> Vec<Self> {
        findings
            .iter()
            .map(|finding| Self::of(finding, host))
            .collect()
    }

    /// Its code; `None` for one of a later version.
    #[must_use]
    pub fn known(&self) -> Option<Code> {
        Code::named(&self.code)
    }

    /// True if this finding has `code`.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.code == code.as_str()
    }

    /// Whether it is a fault from before the tests: information that may be the cause of a failure.
    #[must_use]
    pub fn is_earlier_fault(&self) -> bool {
        self.severity == Severity::Info
            && self
                .known()
                .is_some_and(|code| code.row().earlier.is_some())
    }

    /// What it is about.
    #[must_use]
    pub fn about(&self) -> &Subject {
        self.about.as_ref().unwrap_or(&Subject::Machine)
    }

    /// The finding without its words, for files of our own that hold some; `None` if its code is of a later version.
    #[must_use]
    pub fn into_finding(self) -> Option<Finding> {
        let code = self.known()?;
        Some(Finding {
            code,
            severity: self.severity,
            subject: self.about.unwrap_or(Subject::Machine),
            represents: self.represents,
            message: self.message,
            measured: self.measured,
            expected: self.expected,
            unit: self.unit,
            evidence: self.evidence,
            reason: None,
            recovery: self.recovery,
            lacks: None,
        })
    }
}

/// Tests ask what is shown where the machine is unknown.
#[cfg(any(test, feature = "samples"))]
impl Finding {
    /// The cause in words.
    pub fn shown_cause(&self) -> String {
        FindingEntry::of(self, &Host::default()).cause.to_string()
    }

    /// The remedy in words.
    pub fn shown_remedy(&self) -> String {
        FindingEntry::of(self, &Host::default()).remedy.to_string()
    }
}
