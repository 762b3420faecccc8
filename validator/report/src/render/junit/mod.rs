//! JUnit XML as defined by Jenkins' xUnit plugin (its junit-10.xsd): one suite, one case per test. A warning
//! is a pass, with its findings in the case's output. A verdict that no test of the report explains becomes an
//! additional case with an error, so that nothing here looks better than the report. It uses the elements of the
//! HTML writer, so that no JUnit crate is needed.

use super::element::{Element, element, xml};
use super::words;
use crate::{Report, TestEntry};
use outcome::finding::{FindingEntry, Severity};
use outcome::{Outcome, Verdict};
use std::io;

/// The document.
///
/// # Errors
/// The XML writer's error.
pub fn suites(report: &Report) -> io::Result<String> {
    let mut cases: Vec<_> = report.tests.iter().map(|test| case(report, test)).collect();
    cases.extend(unexplained(report));
    let count = |outcome| report.tests.iter().filter(|t| t.outcome == outcome).count();
    let errors = cases.len() - report.tests.len() + count(Outcome::Error);
    let counted = |element: Element| {
        element
            .with("name", "firstlight")
            .with("tests", &cases.len().to_string())
            .with("failures", &count(Outcome::Fail).to_string())
            .with("errors", &errors.to_string())
            .with("time", &seconds(report.seconds))
    };
    let (suites, suite) = (
        counted(element("testsuites")),
        counted(element("testsuite")),
    );
    // The schema allows no time zone.
    let suite = suite
        .with("hostname", words::host(report))
        .with("skipped", &count(Outcome::NotApplicable).to_string())
        .with("timestamp", report.started.trim_end_matches('Z'));
    xml(&suites.child(suite.child(properties(report)).children(cases)))
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

fn properties(report: &Report) -> Element {
    let property =
        |name: &str, value: &str| element("property").with("name", name).with("value", value);
    let facts = words::facts(report);
    let facts = facts.iter().map(|(name, value)| property(name, value));
    let known = report
        .known_problems
        .iter()
        .map(|problem| property("known_problem", &problem.sentence()));
    element("properties")
        .child(property("verdict", &report.verdict.to_string()))
        .children(facts)
        .children(known)
}

fn case(report: &Report, test: &TestEntry) -> Element {
    let case = test_case(&test.id, test.seconds);
    let (case, details) = match test.outcome {
        Outcome::Pass | Outcome::Warn => (case, findings(test)),
        Outcome::Fail => (
            case.child(failure_element("failure", report, test)),
            String::new(),
        ),
        Outcome::Error => (
            case.child(failure_element("error", report, test)),
            String::new(),
        ),
        Outcome::NotApplicable => (
            case.child(element("skipped").with("message", &test.summary)),
            findings(test),
        ),
    };
    let first = format!("{}  {}\n", words::outcome(test.outcome), test.summary);
    case.child(element("system-out").text(&format!("{first}{details}{}", log(test))))
}

fn test_case(id: &str, time: f64) -> Element {
    element("testcase")
        .with("classname", "firstlight")
        .with("name", id)
        .with("time", &seconds(time))
}

/// `failure` or `error`; its type is the code of the worst finding.
fn failure_element(name: &'static str, report: &Report, test: &TestEntry) -> Element {
    let worst = test.findings.iter().rev().max_by_key(|f| f.severity);
    let code = worst.map_or(words::outcome(test.outcome), |f| f.code.as_str());
    let text = findings(test) + &possible(report, test);
    element(name)
        .with("message", &test.summary)
        .with("type", code)
        .text(&text)
}

/// The known problems that may explain the failure of a test, behind its findings.
fn possible(report: &Report, test: &TestEntry) -> String {
    let all = report
        .known_problems
        .iter()
        .filter(|problem| problem.tests.contains(&test.id));
    all.map(|problem| {
        format!(
            "possible, and not shown by any test: {}\n",
            problem.sentence()
        )
    })
    .collect()
}

fn findings(test: &TestEntry) -> String {
    test.findings.iter().map(finding).collect()
}

fn finding(finding: &FindingEntry) -> String {
    let FindingEntry {
        severity,
        code,
        subject,
        message,
        cause,
        remedy,
        ..
    } = finding;
    let seen: String = finding
        .evidence
        .iter()
        .map(|line| format!("  seen    {line}\n"))
        .collect();
    let head = format!(
        "{} {code} {subject}\n  {message}\n{seen}",
        words::severity(*severity)
    );
    let harmless = *severity == Severity::Info;
    if harmless {
        head
    } else {
        format!("{head}  cause   {cause}\n  remedy  {remedy}\n")
    }
}

fn log(test: &TestEntry) -> String {
    let lines: String = test
        .log_tail
        .iter()
        .map(|line| format!("  {line}\n"))
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("last lines of the log\n{lines}")
    }
}

/// A FAIL or ERROR without a failed test.
fn unexplained(report: &Report) -> Option<Element> {
    let bad =
        matches!(report.verdict, Verdict::Fail | Verdict::Error) && report.failed().is_empty();
    let message = format!(
        "verdict {}: {}",
        report.verdict,
        words::counts(&report.tests)
    );
    let error = element("error")
        .with("message", &message)
        .with("type", &report.verdict.to_string());
    bad.then(|| test_case("validator", 0.0).child(error))
}

#[cfg(test)]
mod tests;
