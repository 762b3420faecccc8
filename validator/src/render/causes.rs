//! The answer and the causes as text: the answer with the first remedy, then each cause with its evidence, its symptoms,
//! and the causes that passed tests rule out.

use super::alike;
use super::words;
use crate::fabric::text::layout::wrapped;
use crate::outcome::finding::{Finding, Severity};
use crate::report::{Cause, Report, TestEntry};

/// How many messages a cause shows; the JSON has all of them.
const SHOWN: usize = 4;
/// How many lines of evidence a cause shows, which are longer.
const SEEN: usize = 3;

/// The answer in one line, and below it the first thing to do.
pub(super) fn answer(report: &Report) -> String {
    let line = |label: &str, text: &str| wrapped(&format!("{label:<9}"), "         ", text);
    let first =
        report.causes.first().map(|cause| line("FIRST", &format!("{} ({})", cause.remedy, cause.code)));
    line("ANSWER", &report.answer) + &first.unwrap_or_default()
}

/// All causes, in their order; `tests` contain the findings.
#[must_use]
pub fn details(causes: &[Cause], tests: &[TestEntry]) -> String {
    causes.iter().map(|cause| detail(tests, cause)).collect()
}

fn detail(tests: &[TestEntry], cause: &Cause) -> String {
    let labelled = |label: &str, text: &str| wrapped(&format!("         {label:<8}"), &" ".repeat(17), text);
    let head = format!("  {:<6} {:<19}", words::severity(cause.severity), cause.code);
    let mut text = format!("\n{}", wrapped(&head, &" ".repeat(28), &cause.subject));
    let own = own(tests, cause);
    let messages = distinct(own.iter().map(|f| f.message.as_str()));
    for message in messages.iter().take(SHOWN) {
        text += &wrapped("         ", "           ", message);
    }
    text += &more(messages.len(), SHOWN);
    // With several messages the evidence is omitted.
    let evidence =
        if messages.len() > 1 { &[][..] } else { own.first().map_or(&[][..], |f| &f.evidence[..]) };
    let kinds = alike(evidence, |line| line.replace(|c: char| c.is_ascii_digit(), "#"));
    for seen in kinds.iter().take(SEEN).filter_map(|kind| kind.first()) {
        text += &labelled("seen", seen);
    }
    text += &more(evidence.len(), kinds.len().min(SEEN));
    text += &labelled("cause", &cause.cause);
    text += &labelled("remedy", &cause.remedy);
    let also = alike(&cause.symptoms, |symptom| symptom.code.as_str());
    let also = also.iter().filter_map(|kind| {
        let tests: Vec<_> = kind.iter().map(|symptom| symptom.test.as_str()).collect();
        Some(format!("{} ({})", kind.first()?.code, tests.join(", ")))
    });
    let also: Vec<_> = also.collect();
    if !also.is_empty() {
        text += &labelled("also", &also.join(", "));
    }
    let not: Vec<_> = cause.ruled_out.iter().map(|out| out.what.as_str()).collect();
    if !not.is_empty() {
        text += &labelled("not", &format!("{}: those tests passed", not.join(", ")));
    }
    text
}

/// The findings that are the cause itself.
pub(super) fn own<'a>(tests: &'a [TestEntry], cause: &Cause) -> Vec<&'a Finding> {
    let all = tests.iter().flat_map(|test| &test.findings);
    let own = |f: &&Finding| f.severity > Severity::Info && f.code == cause.code && f.remedy == cause.remedy;
    all.filter(own).collect()
}

fn more(all: usize, shown: usize) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        n => format!("         and {n} more in the JSON report\n"),
    }
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    alike(texts, |text| *text).into_iter().filter_map(|group| group.first().copied()).collect()
}
