//! The causes of a report's findings: findings that one cause explains are grouped under it, and the causes are in the
//! order of repair. [`crate::outcome::cause`] has the table; here it is applied to the subjects. Pure.

mod answer;
mod subject;

pub(super) use answer::answer;
pub use subject::{gpus_of, pairs_of};

use super::{Report, TestEntry};
use crate::outcome::Outcome;
use crate::outcome::cause::{self, RULED_OUT, RuledOut};
use crate::outcome::finding::{Code, Finding, Severity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use subject::{SubjectGpus, SubjectPairs};

/// One cause with everything that it explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The code of its findings.
    pub code: String,
    /// The worst severity among its findings and symptoms.
    #[schemars(schema_with = "crate::outcome::schema::severity")]
    pub severity: Severity,
    /// What is wrong, as a clause.
    pub says: String,
    /// The first test that found it.
    pub test: String,
    /// What it is about: the subjects of its findings.
    pub subject: String,
    /// The cause of the first finding.
    pub cause: String,
    /// The next thing to do.
    pub remedy: String,
    /// How many ordered pairs of GPUs it and its symptoms name; `null` if they name none.
    pub pairs: Option<usize>,
    /// What follows from it.
    pub symptoms: Vec<Symptom>,
    /// Possible causes of it that are ruled out, because their tests passed.
    pub ruled_out: Vec<NotCause>,
}

/// Findings of one code and test that a cause explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Symptom {
    /// Their code.
    pub code: String,
    /// The test that found them.
    pub test: String,
    /// What they are about.
    pub subject: String,
}

/// Something that a passed test rules out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotCause {
    /// The test.
    pub test: String,
    /// What it rules out, in words.
    pub what: String,
}

/// A finding, its test, and its rank among the causes.
struct PlacedFinding<'a> {
    test: &'a TestEntry,
    finding: &'a Finding,
    code: Option<Code>,
    /// Its rank in the order of repair; a code without a place comes last.
    rank: usize,
    gpus: SubjectGpus,
}

/// Each kind of finding as a cause without symptoms, for tests that are not about a single machine.
#[must_use]
pub fn ungrouped_causes(tests: &[TestEntry]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for (test, f) in tests.iter().flat_map(|test| test.findings.iter().map(move |f| (test, f))) {
        let known = causes.iter_mut().find(|c| c.code == f.code && c.remedy == f.remedy);
        match known {
            _ if f.severity <= Severity::Info => {}
            Some(cause) => {
                cause.severity = cause.severity.max(f.severity);
                if !cause.subject.split(", ").any(|subject| subject == f.subject) {
                    cause.subject = format!("{}, {}", cause.subject, f.subject);
                }
            }
            None => causes.push(Cause {
                code: f.code.clone(),
                severity: f.severity,
                says: f.message.clone(),
                test: test.id.clone(),
                subject: f.subject.clone(),
                cause: f.cause.clone(),
                remedy: f.remedy.clone(),
                pairs: None,
                symptoms: Vec::new(),
                ruled_out: Vec::new(),
            }),
        }
    }
    causes
}

/// The causes in a report; the first one must be repaired first.
pub(super) fn causes(report: &Report) -> Vec<Cause> {
    let all = placed_findings(report);
    // By rank, so that a finding that explains another one already has its own root.
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|n| all.get(*n).map_or(usize::MAX, |f| f.rank));
    let mut roots: Vec<usize> = (0..all.len()).collect();
    for (at, n) in order.iter().enumerate() {
        let explains = |m: &&usize| matches!((all.get(**m), all.get(*n)), (Some(a), Some(b)) if a.explains(b));
        let by = order.iter().take(at).find(explains).and_then(|m| roots.get(*m).copied());
        if let (Some(by), Some(root)) = (by, roots.get_mut(*n)) {
            *root = by;
        }
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (n, root) in roots.iter().enumerate() {
        let (Some(one), Some(root)) = (all.get(n), all.get(*root)) else { continue };
        let same = |group: &&mut Group<'_>| group.head.is_like(root);
        match groups.iter_mut().find(same) {
            Some(group) => group.members.push(one),
            None => groups.push(Group { head: root, members: vec![one] }),
        }
    }
    groups.sort_by_key(Group::urgency);
    groups.iter().map(|group| group.cause(report)).collect()
}

/// All findings that are worse than information.
fn placed_findings<'a>(report: &'a Report) -> Vec<PlacedFinding<'a>> {
    let all = report.tests.iter().flat_map(|test| test.findings.iter().map(move |finding| (test, finding)));
    let bad = all.filter(|(_, finding)| finding.severity > Severity::Info);
    let placed = |(test, finding): (&'a TestEntry, &'a Finding)| {
        let (rank, place) = cause::entry_of(&finding.code).unzip();
        PlacedFinding {
            test,
            finding,
            code: place.map(|place| place.code),
            rank: rank.unwrap_or(usize::MAX),
            gpus: SubjectGpus::of(&finding.subject, report),
        }
    };
    bad.map(placed).collect()
}

impl PlacedFinding<'_> {
    fn explains(&self, other: &Self) -> bool {
        let (Some(cause), Some(symptom)) = (self.code, other.code) else { return false };
        cause::explains(cause, symptom) && self.gpus.overlaps(&other.gpus)
    }

    /// Whether both have the same code and the same remedy.
    fn is_like(&self, other: &Self) -> bool {
        self.finding.code == other.finding.code && self.finding.remedy == other.finding.remedy
    }
}

/// A cause and all findings under it.
struct Group<'a> {
    head: &'a PlacedFinding<'a>,
    members: Vec<&'a PlacedFinding<'a>>,
}

impl Group<'_> {
    /// The key to sort by: failures before warnings, then the order of the table.
    fn urgency(&self) -> (bool, usize) {
        (self.severity() < Severity::Fail, self.head.rank)
    }

    fn severity(&self) -> Severity {
        self.members.iter().map(|f| f.finding.severity).max().unwrap_or(self.head.finding.severity)
    }

    fn cause(&self, report: &Report) -> Cause {
        let Finding { code, cause, remedy, .. } = self.head.finding;
        let (own, others): (Vec<_>, Vec<_>) = self.members.iter().copied().partition(|f| f.is_like(self.head));
        let place = cause::entry_of(code).map(|(_, place)| place);
        let says = place.map_or(self.head.finding.message.as_str(), |place| cause::describe(place, cause));
        let mut symptoms: Vec<Symptom> = Vec::new();
        let keys = |f: &PlacedFinding<'_>| (f.finding.code.clone(), f.test.id.clone());
        let mut seen = BTreeSet::new();
        for key in others.iter().map(|f| keys(f)).filter(|key| seen.insert(key.clone())) {
            let about = others.iter().filter(|f| keys(f) == key).map(|f| f.finding.subject.as_str());
            symptoms.push(Symptom { subject: join_unique(about), code: key.0, test: key.1 });
        }
        let pairs: SubjectPairs = self.members.iter().map(|f| SubjectPairs::of(f.finding, report)).collect();
        Cause {
            code: code.clone(),
            severity: self.severity(),
            says: says.to_owned(),
            test: self.head.test.id.clone(),
            subject: join_unique(own.iter().map(|f| f.finding.subject.as_str())),
            cause: cause.clone(),
            remedy: remedy.clone(),
            pairs: pairs.count(),
            symptoms,
            ruled_out: self.head.code.map(|code| ruled_out_causes(report, code)).unwrap_or_default(),
        }
    }
}

/// Each subject once, in the order of first appearance.
fn join_unique<'a>(subjects: impl Iterator<Item = &'a str>) -> String {
    let mut seen = BTreeSet::new();
    subjects.filter(|subject| seen.insert(*subject)).collect::<Vec<_>>().join(", ")
}

/// Possible direct causes of `code` that a passed test rules out: it looked for all of them everywhere, and found none of
/// them, not even a harmless one.
fn ruled_out_causes(report: &Report, code: Code) -> Vec<NotCause> {
    let unseen = |test: &TestEntry, code: &Code| {
        let unchecked = test.unchecked.iter().any(|unchecked| unchecked == code.entry().code);
        !unchecked && !test.findings.iter().any(|finding| finding.is(*code))
    };
    let rules_out =
        |test: &TestEntry, codes: &[Code]| test.outcome == Outcome::Pass && codes.iter().all(|code| unseen(test, code));
    let passed = |out: &RuledOut| report.tests.iter().any(|test| test.id == out.test && rules_out(test, out.codes));
    let could = |codes: &[Code]| cause::explained_by(code).any(|by| codes.contains(&by));
    let out = RULED_OUT.iter().filter(|out| could(out.codes) && passed(out));
    out.map(|out| NotCause { test: out.test.to_owned(), what: out.what.to_owned() }).collect()
}

#[cfg(test)]
mod tests;
