//! The causes of a report's findings: findings that one cause explains are grouped under it, and the causes are in the
//! order of repair. The rows of the codes say what explains what; here that is applied to the subjects. Pure.

mod answer;
mod past;
mod subject;

pub(super) use answer::answer;
pub use subject::{gpus_of, pairs_of};

use super::{KnownProblem, Report, TestEntry};
use outcome::finding::{Code, FindingEntry, Severity, Subject, Words};
use outcome::test::Properties;
use outcome::{Outcome, later};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use subject::SubjectGpus;

/// One cause with everything that it explains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The code of its findings.
    pub code: String,
    /// The worst severity among its findings and symptoms.
    #[schemars(schema_with = "outcome::schema::severity")]
    pub severity: Severity,
    /// What is wrong, as a clause.
    pub says: Words,
    /// The first test that found it.
    pub test: String,
    /// What it is about: the subjects of its findings.
    pub subject: String,
    /// The same for programs.
    #[serde(default, deserialize_with = "later::readable")]
    pub about: Vec<Subject>,
    /// The cause of the first finding.
    pub cause: Words,
    /// The next thing to do.
    pub remedy: Words,
    /// How many ordered pairs of GPUs it and its symptoms name; `null` if they name none.
    pub pairs: Option<usize>,
    /// What follows from it.
    pub symptoms: Vec<Symptom>,
    /// Possible causes of it that are ruled out, because their tests passed.
    pub ruled_out: Vec<NotCause>,
    /// Known problems that may be behind a failure: no more than possible, and behind all that was measured.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "later::readable"
    )]
    pub known_problems: Vec<KnownProblem>,
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
    finding: &'a FindingEntry,
    code: Option<Code>,
    /// Its rank in the order of repair; a code without a place comes last.
    rank: usize,
    gpus: SubjectGpus,
}

/// Each kind of finding as a cause without symptoms, for tests that are not about a single machine.
#[must_use]
pub fn ungrouped_causes(tests: &[TestEntry]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for (test, f) in tests
        .iter()
        .flat_map(|test| test.findings.iter().map(move |f| (test, f)))
    {
        let known = causes
            .iter_mut()
            .find(|c| c.code == f.code && c.remedy == f.remedy);
        match known {
            _ if f.severity <= Severity::Info => {}
            Some(cause) => {
                cause.severity = cause.severity.max(f.severity);
                if !cause.about.contains(f.about()) {
                    cause.subject = format!("{}, {}", cause.subject, f.subject);
                    cause.about.push(f.about().clone());
                }
            }
            None => causes.push(Cause {
                code: f.code.clone(),
                severity: f.severity,
                says: f.message.clone(),
                test: test.id.clone(),
                subject: f.subject.to_string(),
                about: vec![f.about().clone()],
                cause: f.cause.clone(),
                remedy: f.remedy.clone(),
                pairs: None,
                symptoms: Vec::new(),
                ruled_out: Vec::new(),
                known_problems: Vec::new(),
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
    let measured = |n: &usize| all.get(*n).is_some_and(|f| !f.finding.is_earlier_fault());
    let mut roots: Vec<Option<usize>> = (0..all.len()).map(|n| Some(n).filter(measured)).collect();
    for (at, n) in order.iter().enumerate().filter(|(_, n)| measured(n)) {
        let pair = |m: &usize| all.get(*m).zip(all.get(*n));
        let direct = |m: &&usize| pair(m).is_some_and(|(a, b)| a.explains_directly(b));
        let explains = |m: &&usize| pair(m).is_some_and(|(a, b)| a.explains(b));
        let earlier = || order.iter().take(at).filter(|m| measured(m));
        // A direct cause comes before an indirect one, whose step between may be missing here.
        let by = earlier()
            .find(direct)
            .or_else(|| earlier().find(explains))
            .and_then(|m| roots.get(*m).copied());
        if let (Some(by), Some(root)) = (by, roots.get_mut(*n)) {
            *root = by;
        }
    }
    past::explain(&all, &order, &mut roots);
    for root in roots.iter_mut().flatten() {
        *root = most_exact(&all, *root);
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (n, root) in roots.iter().enumerate() {
        let (Some(one), Some(root)) = (all.get(n), root.and_then(|root| all.get(root))) else {
            continue;
        };
        let same = |group: &&mut Group<'_>| group.head.is_like(root);
        match groups.iter_mut().find(same) {
            Some(group) => group.members.push(one),
            None => groups.push(Group {
                head: root,
                members: vec![one],
            }),
        }
    }
    groups.sort_by_key(Group::urgency);
    groups.iter().map(|group| group.cause(report)).collect()
}

/// The finding that speaks for the one at `n`: two tests may find one fault of one device, and one of them may know more of
/// it. That is the most severe, then one with a cause of its own, then the first.
fn most_exact(all: &[PlacedFinding<'_>], n: usize) -> usize {
    let Some(one) = all.get(n).filter(|one| !one.finding.is_earlier_fault()) else {
        return n;
    };
    let same = |(_, other): &(usize, &PlacedFinding<'_>)| {
        !other.finding.is_earlier_fault() && one.is_same_fault(other)
    };
    let exact = |(at, other): &(usize, &PlacedFinding<'_>)| {
        (other.finding.severity, other.knows_cause(), Reverse(*at))
    };
    let best = all.iter().enumerate().filter(same).max_by_key(exact);
    best.map_or(n, |(at, _)| at)
}

/// All findings that are worse than information, and the faults from before the tests.
fn placed_findings<'a>(report: &'a Report) -> Vec<PlacedFinding<'a>> {
    let all = report
        .tests
        .iter()
        .flat_map(|test| test.findings.iter().map(move |finding| (test, finding)));
    let bad =
        all.filter(|(_, finding)| finding.severity > Severity::Info || finding.is_earlier_fault());
    let placed = |(test, finding): (&'a TestEntry, &'a FindingEntry)| {
        let code = finding.known();
        PlacedFinding {
            test,
            finding,
            code,
            rank: code.map_or(usize::MAX, Code::rank),
            gpus: SubjectGpus::of(finding.about(), report),
        }
    };
    bad.map(placed).collect()
}

impl PlacedFinding<'_> {
    fn explains(&self, other: &Self) -> bool {
        let (Some(cause), Some(symptom)) = (self.code, other.code) else {
            return false;
        };
        cause.explains(symptom) && self.gpus.overlaps(&other.gpus)
    }

    /// The same without other codes between.
    fn explains_directly(&self, other: &Self) -> bool {
        let listed = |symptom: Code| symptom.explained_by().any(|code| Some(code) == self.code);
        other.code.is_some_and(listed) && self.gpus.overlaps(&other.gpus)
    }

    /// Whether both have the same code and are about the same device, GPU or pair.
    fn is_same_fault(&self, other: &Self) -> bool {
        let (one, two) = (self.finding.about(), other.finding.about());
        let named = one.address().is_some() || !one.numbers().is_empty();
        let same = one == two || (one.address().is_some() && one.address() == two.address());
        self.finding.code == other.finding.code && named && same
    }

    /// Whether its cause is more than the usual one of its code.
    fn knows_cause(&self) -> bool {
        let usual = |code: Code| Words::from(code.row().cause);
        self.code
            .is_some_and(|code| self.finding.cause != usual(code))
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
        self.members
            .iter()
            .map(|f| f.finding.severity)
            .max()
            .unwrap_or(self.head.finding.severity)
    }

    fn cause(&self, report: &Report) -> Cause {
        let FindingEntry {
            code,
            cause,
            remedy,
            clause,
            message,
            ..
        } = self.head.finding;
        let (own, others): (Vec<_>, Vec<_>) = self
            .members
            .iter()
            .copied()
            .partition(|f| f.finding.code == self.head.finding.code);
        let row = self.head.code.map(Code::row);
        let known = row.map(|row| {
            row.earlier
                .filter(|_| self.head.finding.is_earlier_fault())
                .unwrap_or(row.clause)
        });
        let says = clause
            .clone()
            .or(known.map(Words::from))
            .unwrap_or_else(|| message.clone());
        let mut symptoms: Vec<Symptom> = Vec::new();
        let keys = |f: &PlacedFinding<'_>| (f.finding.code.clone(), f.test.id.clone());
        let mut seen = BTreeSet::new();
        for key in others
            .iter()
            .map(|f| keys(f))
            .filter(|key| seen.insert(key.clone()))
        {
            let about = others.iter().filter(|f| keys(f) == key).map(|f| f.finding);
            symptoms.push(Symptom {
                subject: join_unique(about),
                code: key.0,
                test: key.1,
            });
        }
        // Of an earlier fault only what follows from it is known to be affected.
        let affected = self
            .members
            .iter()
            .filter(|f| !f.finding.is_earlier_fault());
        let pairs: BTreeSet<_> = affected.flat_map(|f| pairs_of(f.finding, report)).collect();
        Cause {
            code: code.clone(),
            severity: self.severity(),
            says,
            test: self.head.test.id.clone(),
            subject: join_unique(own.iter().map(|f| f.finding)),
            about: unique(own.iter().map(|f| f.finding.about())),
            cause: cause.clone(),
            remedy: remedy.clone(),
            pairs: Some(pairs.len()).filter(|count| *count > 0),
            symptoms,
            ruled_out: self
                .head
                .code
                .map(|code| ruled_out_causes(report, code))
                .unwrap_or_default(),
            known_problems: self.known_problems(report),
        }
    }

    /// The known problems that may explain a test that failed with one of these findings.
    fn known_problems(&self, report: &Report) -> Vec<KnownProblem> {
        let failed = || {
            self.members
                .iter()
                .filter(|f| f.finding.severity >= Severity::Fail)
                .map(|f| f.test.id.as_str())
        };
        report
            .known_problems
            .iter()
            .filter(|problem| problem.may_explain(failed()))
            .cloned()
            .collect()
    }
}

/// The text of each subject once, in the order of first appearance.
fn join_unique<'a>(findings: impl Iterator<Item = &'a FindingEntry>) -> String {
    let texts: Vec<_> = findings.map(|finding| &finding.subject).collect();
    unique(texts.into_iter())
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn unique<'a, T: Ord + Clone + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(*one)).cloned().collect()
}

/// Possible direct causes of `code` that a passed test rules out: it looked for all of them everywhere, and found none of
/// them, not even a harmless one.
fn ruled_out_causes(report: &Report, code: Code) -> Vec<NotCause> {
    let unseen = |test: &TestEntry, code: &Code| {
        let unchecked = test
            .unchecked
            .iter()
            .any(|unchecked| unchecked == code.as_str());
        !unchecked && !test.findings.iter().any(|finding| finding.is(*code))
    };
    let could: Vec<&Properties> = code
        .explained_by()
        .flat_map(|by| by.row().ruled_out_by)
        .copied()
        .collect();
    // Its words are about all codes that the test rules out.
    let rules_out = |test: &TestEntry, out: &Properties| {
        let mut codes = Code::ALL
            .iter()
            .filter(|code| code.row().ruled_out_by.contains(&out));
        test.outcome == Outcome::Pass && codes.all(|code| unseen(test, code))
    };
    let out = report.tests.iter().filter_map(|test| {
        could
            .iter()
            .find(|out| out.id == test.id && rules_out(test, out))
    });
    out.map(|out| NotCause {
        test: out.id.to_owned(),
        what: out.rules_out.to_owned(),
    })
    .collect()
}

#[cfg(test)]
mod tests;
