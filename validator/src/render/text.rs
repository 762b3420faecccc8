//! The console's view: 80 columns, no colour, no cursor tricks. Made of three parts, so that rows
//! can be shown as tests end: header, one row per test, tail. The whole is their sum.

use crate::finding::{Finding, Severity};
use crate::pcie::text::layout::wrapped;
use crate::render::alike::alike;
use crate::render::last_line::last_line;
use crate::render::{nccl, words};
use crate::report::{Report, TestEntry};
use crate::scope::Scope;
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
    let mut parts = vec![format!("firstlight {}", words::version(report))];
    parts.push(report.driver.module.as_ref().map_or("no driver".to_owned(), |v| format!("driver {v}")));
    parts.extend(report.driver.nccl.as_ref().map(|v| format!("nccl {v}")));
    parts.push(report.gpu_names());
    parts.push(format!("level {}", report.level));
    parts.extend((report.scope != Scope::Machine).then(|| format!("scope {}", report.scope)));
    if report.is_recorded() {
        parts.push(format!("recorded machine {}", report.root));
    }
    plain(&parts.join("   ").replace('\n', "?")) + "\n\n"
}

/// One test: outcome, id, summary, seconds; a long summary goes on below.
#[must_use]
pub fn row(test: &TestEntry) -> String {
    let first = format!("  {:<6} {:<15} ", words::outcome(test.outcome), test.id);
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

/// What peer-to-peer is worth, what was found, the verdict, and the line for scrapers, which is the last.
#[must_use]
pub fn tail(report: &Report, path: Option<&str>) -> String {
    let gain = nccl::gain_of(report).map(|table| format!("\n{table}")).unwrap_or_default();
    let scope = wrapped("SCOPE    ", "         ", &format!("{}: {}", report.scope, report.covers));
    let end = verdict(report, path) + &last_line(report);
    plain(&format!("{gain}{}\n{scope}{end}", details(report)))
}

/// What the machine's files hold must not move the cursor of a terminal that shows it.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Every finding worse than `info`; those with one cause and one remedy are told together.
fn details(report: &Report) -> String {
    let bad = report.tests.iter().flat_map(|t| &t.findings).filter(|f| f.severity > Severity::Info);
    let groups = alike(bad, |f| (f.code.as_str(), f.severity, f.cause.as_str(), f.remedy.as_str()));
    groups.iter().filter_map(|group| Some(detail(group.first()?, group))).collect()
}

/// How many messages and pieces of evidence a group shows; the JSON has all.
const SHOWN: usize = 8;

fn detail(first: &Finding, group: &[&Finding]) -> String {
    let labelled = |label: &str, text: &str| wrapped(&format!("         {label:<8}"), &" ".repeat(17), text);
    let subjects = distinct(group.iter().map(|f| f.subject.as_str()));
    let head = format!("  {:<6} {:<19}", words::severity(first.severity), first.code);
    let mut text = format!("\n{}", wrapped(&head, &" ".repeat(28), &subjects.join(", ")));
    let messages = distinct(group.iter().map(|f| f.message.as_str()));
    for message in messages.iter().take(SHOWN) {
        text += &wrapped("         ", "           ", message);
    }
    text += &more(messages.len());
    // With several messages each says what was seen.
    let evidence = if messages.len() > 1 { &[][..] } else { &first.evidence[..] };
    for seen in evidence.iter().take(SHOWN) {
        text += &labelled("seen", seen);
    }
    text += &more(evidence.len());
    text += &labelled("cause", &first.cause);
    text += &labelled("remedy", &first.remedy);
    text
}

fn more(all: usize) -> String {
    match all.saturating_sub(SHOWN) {
        0 => String::new(),
        n => format!("         and {n} more in the JSON report\n"),
    }
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    alike(texts, |text| *text).into_iter().filter_map(|group| group.first().copied()).collect()
}

fn verdict(report: &Report, path: Option<&str>) -> String {
    let counts = words::counts(report);
    let path = path.map(|p| format!("   report {p}")).unwrap_or_default();
    format!("VERDICT  {:<5}  {counts}{path}\n", report.verdict.to_string())
}

#[cfg(test)]
mod tests;
