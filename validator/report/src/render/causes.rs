//! The answer and the causes as text: the answer with the first remedy, then each cause with its evidence, its symptoms,
//! and the causes that passed tests rule out.

use super::group_by_key;
use super::words;
use crate::{Cause, Report, TestEntry};
use machine::GpuId;
use outcome::finding::{FindingEntry, Severity, Subject, Words};
use outcome::text::wrapped;
use std::collections::BTreeSet;

/// The most messages that a cause shows; the JSON has all of them.
const MAX_MESSAGES: usize = 4;
/// The most GPUs whose address and slot a cause shows; the block at the start has all of them.
const MAX_GPUS: usize = 4;
/// The most lines of evidence that a cause shows; they are longer than messages.
const MAX_EVIDENCE: usize = 3;

/// The answer in one line, and below it the first thing to do.
pub(super) fn answer(report: &Report) -> String {
    let line = |label: &str, text: &str| wrapped(&format!("{label:<9}"), "         ", text);
    let first = report
        .causes
        .first()
        .map(|cause| line("FIRST", &format!("{} ({})", cause.remedy, cause.code)));
    line("ANSWER", &report.answer) + &first.unwrap_or_default()
}

/// The known problems of this machine's versions, one line each; empty if there are none.
pub(super) fn known_problems(report: &Report) -> String {
    report
        .known_problems
        .iter()
        .map(|problem| wrapped("KNOWN    ", "         ", &problem.sentence()))
        .collect()
}

/// All causes, in their order; `tests` contain the findings.
#[must_use]
pub fn details(causes: &[Cause], tests: &[TestEntry]) -> String {
    causes
        .iter()
        .map(|cause| cause_text(tests, cause, ""))
        .collect()
}

/// The causes of a report: each GPU has its address and slot below the first cause that names it.
pub(super) fn details_of(report: &Report) -> String {
    let mut seen = BTreeSet::new();
    let one = |cause: &Cause| {
        let all = cause.about.iter().flat_map(|about| gpus_in(report, about));
        let first: Vec<_> = all
            .filter(|gpu| seen.insert(*gpu))
            .take(MAX_GPUS)
            .map(|gpu| placed(report, gpu))
            .collect();
        cause_text(&report.tests, cause, &first.join(", "))
    };
    report.causes.iter().map(one).collect()
}

/// `GPU 0 (0000:01:00.0, slot 3)`
fn placed(report: &Report, number: GpuId) -> String {
    let Some(gpu) = report.gpus.get(number.index()) else {
        return format!("GPU {number}");
    };
    let slot = words::slot(report, gpu.bdf)
        .map(|slot| format!(", slot {slot}"))
        .unwrap_or_default();
    format!("GPU {number} ({}{slot})", gpu.bdf)
}

/// The GPUs that a subject names by number or address.
fn gpus_in(report: &Report, about: &Subject) -> Vec<GpuId> {
    let at = about
        .address()
        .and_then(|at| report.gpus.iter().position(|gpu| gpu.bdf == at))
        .map(GpuId::new);
    let numbers = match about {
        Subject::Gpus { gpus } => &gpus[..],
        _ => &[],
    };
    at.into_iter()
        .chain(numbers.iter().copied())
        .chain(
            about
                .named_pairs()
                .iter()
                .flat_map(|pair| [pair.from, pair.to]),
        )
        .collect()
}

fn cause_text(tests: &[TestEntry], cause: &Cause, gpus: &str) -> String {
    let labelled =
        |label: &str, text: &str| wrapped(&format!("         {label:<8}"), &" ".repeat(17), text);
    let head = format!(
        "  {:<6} {:<19}",
        words::severity(cause.severity),
        cause.code
    );
    let mut text = format!("\n{}", wrapped(&head, &" ".repeat(28), &cause.subject));
    if !gpus.is_empty() {
        text += &wrapped("         ", "         ", gpus);
    }
    let own = own_findings(tests, cause);
    let messages = distinct(own.iter().map(|f| &f.message));
    for message in messages.iter().take(MAX_MESSAGES) {
        text += &wrapped("         ", "           ", &message.to_string());
    }
    text += &more_line(messages.len(), MAX_MESSAGES);
    // With several messages the evidence is omitted.
    let evidence = if messages.len() > 1 {
        &[][..]
    } else {
        own.first().map_or(&[][..], |f| &f.evidence[..])
    };
    let kinds = group_by_key(evidence, |line| {
        line.replace(|c: char| c.is_ascii_digit(), "#")
    });
    for seen in kinds
        .iter()
        .take(MAX_EVIDENCE)
        .filter_map(|kind| kind.first())
    {
        text += &labelled("seen", seen);
    }
    text += &more_line(evidence.len(), kinds.len().min(MAX_EVIDENCE));
    text += &labelled("cause", &cause.cause.to_string());
    text += &labelled("remedy", &cause.remedy.to_string());
    let also = group_by_key(&cause.symptoms, |symptom| symptom.code.as_str());
    let also = also.iter().filter_map(|kind| {
        let tests: Vec<_> = kind.iter().map(|symptom| symptom.test.as_str()).collect();
        Some(format!("{} ({})", kind.first()?.code, tests.join(", ")))
    });
    let also: Vec<_> = also.collect();
    if !also.is_empty() {
        text += &labelled("also", &also.join(", "));
    }
    let not: Vec<_> = cause
        .ruled_out
        .iter()
        .map(|out| out.what.as_str())
        .collect();
    if !not.is_empty() {
        text += &labelled("not", &format!("{}: those tests passed", not.join(", ")));
    }
    for problem in &cause.known_problems {
        text += &labelled(
            "known",
            &format!(
                "possible, and not shown by any test: {}",
                problem.sentence()
            ),
        );
    }
    text
}

/// The findings that are the cause itself.
pub(super) fn own_findings<'a>(tests: &'a [TestEntry], cause: &Cause) -> Vec<&'a FindingEntry> {
    let all = tests.iter().flat_map(|test| &test.findings);
    let counts = |f: &FindingEntry| {
        f.severity > Severity::Info || (f.is_earlier_fault() && cause.about.contains(f.about()))
    };
    let own = |f: &&FindingEntry| f.code == cause.code && f.remedy == cause.remedy && counts(f);
    all.filter(own).collect()
}

fn more_line(all: usize, shown: usize) -> String {
    match all.saturating_sub(shown) {
        0 => String::new(),
        n => format!("         and {n} more in the JSON report\n"),
    }
}

fn distinct<'a>(texts: impl Iterator<Item = &'a Words>) -> Vec<&'a Words> {
    group_by_key(texts, |text| *text)
        .into_iter()
        .filter_map(|group| group.first().copied())
        .collect()
}
