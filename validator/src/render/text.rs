//! The console's view: 80 columns, no colour, no cursor tricks. Made of three parts, so that rows
//! can be shown as tests end: header, one row per test, tail. The whole is their sum.

use crate::finding::{Finding, Severity};
use crate::outcome::{Outcome, Verdict};
use crate::pcie::text::layout::wrapped;
use crate::report::{Report, TestEntry};
use std::fmt::Write as _;

/// Where a row's text begins: outcome and id stand before it.
const INDENT: usize = 25;
/// Where a row's text ends, to leave place for the seconds.
const SUMMARY: usize = 47;

/// The whole report; `path` is where it lies as JSON.
#[must_use]
pub fn whole(report: &Report, path: Option<&str>) -> String {
    let rows: String = report.tests.iter().map(row).collect();
    format!("{}{rows}{}", header(report), tail(report, path))
}

/// One line about the machine and an empty one.
#[must_use]
pub fn header(report: &Report) -> String {
    let version = report.appliance.as_ref().map_or(env!("CARGO_PKG_VERSION"), |a| a.version.as_str());
    let mut parts = vec![format!("firstlight {version}")];
    parts.push(report.driver.module.as_ref().map_or("no driver".to_owned(), |v| format!("driver {v}")));
    parts.extend(report.driver.nccl.as_ref().map(|v| format!("nccl {v}")));
    parts.push(gpus(report));
    parts.push(format!("level {}", report.level));
    if report.is_recorded() {
        parts.push(format!("recorded machine {}", report.root));
    }
    plain(&parts.join("   ").replace('\n', "?")) + "\n\n"
}

fn gpus(report: &Report) -> String {
    if report.fabric.is_none() {
        return "GPUs unknown".to_owned();
    }
    let name = report.gpus.first().and_then(|g| g.name.as_deref());
    let name = name.filter(|n| report.gpus.iter().all(|g| g.name.as_deref() == Some(*n)));
    match report.gpus.len() {
        0 => "no GPU".to_owned(),
        n => format!("{n} x {}", name.unwrap_or("NVIDIA GPU")),
    }
}

/// One test: outcome, id, summary, seconds; a long summary goes on below.
#[must_use]
pub fn row(test: &TestEntry) -> String {
    let first = format!("  {:<6} {:<15} ", word(test.outcome), test.id);
    let pad = " ".repeat(INDENT);
    let lines = fold(&test.summary, SUMMARY);
    let mut lines = lines.iter();
    let head = lines.next().map_or("", String::as_str);
    let mut text = format!("{first}{head:<SUMMARY$} {:>5.1} s\n", test.seconds);
    for line in lines {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{pad}{line}");
    }
    plain(&text)
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "PASS",
        Outcome::Warn => "WARN",
        Outcome::Fail => "FAIL",
        Outcome::Error => "ERROR",
        Outcome::NotApplicable => "N/A",
    }
}

fn fold(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// What was found, the verdict, and the line for scrapers, which is the last.
#[must_use]
pub fn tail(report: &Report, path: Option<&str>) -> String {
    plain(&format!("{}\n{}{}", details(report), verdict(report, path), last_line(report)))
}

/// What the machine's files hold must not move the cursor of a terminal that shows it.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Every finding worse than `info`; the same about several subjects is told once.
fn details(report: &Report) -> String {
    let mut groups: Vec<(Vec<&str>, &Finding)> = Vec::new();
    let bad = report.tests.iter().flat_map(|t| &t.findings).filter(|f| f.severity > Severity::Info);
    for finding in bad {
        let same = |other: &Finding| {
            (&other.code, &other.message, &other.cause) == (&finding.code, &finding.message, &finding.cause)
        };
        match groups.iter_mut().find(|(_, f)| same(f)) {
            Some((subjects, _)) if !subjects.contains(&finding.subject.as_str()) => {
                subjects.push(&finding.subject);
            }
            Some(_) => {}
            None => groups.push((vec![&finding.subject], finding)),
        }
    }
    groups.iter().map(|(subjects, finding)| detail(subjects, finding)).collect()
}

fn detail(subjects: &[&str], finding: &Finding) -> String {
    let first = format!("\n  {:<6} {:<19}", severity(finding.severity), finding.code);
    let labelled = |label: &str, text: &str| wrapped(&format!("         {label:<8}"), &" ".repeat(17), text);
    let mut text = wrapped(&first, &" ".repeat(28), &subjects.join(", "));
    text += &wrapped("         ", "         ", &finding.message);
    for evidence in finding.evidence.iter().take(8) {
        text += &labelled("seen", evidence);
    }
    text += &labelled("cause", &finding.cause);
    text += &labelled("remedy", &finding.remedy);
    text
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "INFO",
        Severity::Warn => "WARN",
        Severity::Fail => "FAIL",
        Severity::Error => "ERROR",
    }
}

fn verdict(report: &Report, path: Option<&str>) -> String {
    let count = |wanted| report.tests.iter().filter(|t| t.outcome == wanted).count();
    let told = |n: usize, word: &str| (n > 0).then(|| format!("{n} {word}"));
    let counts = [
        told(count(Outcome::Error), "without answer"),
        told(count(Outcome::Fail), "failed"),
        told(count(Outcome::Warn), "warned"),
        told(count(Outcome::Pass), "passed"),
        told(count(Outcome::NotApplicable), "not applicable"),
    ];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    let counts = if counts.is_empty() { "no test ran".to_owned() } else { counts.join(", ") };
    let path = path.map(|p| format!("   report {p}")).unwrap_or_default();
    format!("VERDICT  {:<6} {counts}{path}\n", report.verdict.to_string())
}

fn last_line(report: &Report) -> String {
    let failed = match (&report.failed()[..], report.verdict) {
        // No test can be named when none ran: then it is the validator that failed.
        ([], Verdict::Error) => "validator".to_owned(),
        ([], _) => "none".to_owned(),
        (ids, _) => ids.join(","),
    };
    format!("FIRSTLIGHT verdict={} failed={failed} seconds={:.1}\n", report.verdict, report.seconds)
}

#[cfg(test)]
mod tests;
