//! The part of the validator's report that init reads.

use contract::outcome::{Outcome, Verdict};
use contract::recovery::Recovery;
use serde::Deserialize;
use serde_json::value::RawValue;

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
    pub(super) fn ended(&self, outcomes: &[Outcome]) -> Vec<String> {
        let so = self.tests.iter().filter(|test| outcomes.contains(&test.outcome));
        so.map(|test| test.id.clone()).collect()
    }

    /// Codes of the findings, except harmless ones, each once.
    pub(super) fn codes(&self) -> Vec<String> {
        let mut codes = Vec::new();
        for finding in self.tests.iter().flat_map(|test| &test.findings).filter(|f| f.severity != "info") {
            if !codes.contains(&finding.code) {
                codes.push(finding.code.clone());
            }
        }
        codes
    }

    /// The actions that findings ask for, except harmless ones, each with its code.
    pub(super) fn recoveries(&self) -> impl Iterator<Item = (Recovery, &str)> {
        let findings = self.tests.iter().flat_map(|test| &test.findings).filter(|f| f.severity != "info");
        findings.filter_map(|finding| Some((finding.recovery?, finding.code.as_str())))
    }

    /// Whether at least one test proved something and none failed or ended in error.
    pub(super) fn has_good_tests(&self) -> bool {
        let proved = |t: &Test| matches!(t.outcome, Outcome::Pass | Outcome::Warn);
        let fine = |t: &Test| proved(t) || t.outcome == Outcome::NotApplicable;
        self.tests.iter().any(proved) && self.tests.iter().all(fine)
    }
}
