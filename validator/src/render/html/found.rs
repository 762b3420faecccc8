//! Findings on the page: the worst first, each with its cause and remedy; the evidence folded, and each line of it once;
//! harmless findings folded.

use super::frame::{folded, mark, section};
use crate::outcome::finding::{Finding, Severity};
use crate::render::alike::alike;
use crate::render::element::{Element, element};
use crate::render::words;
use crate::report::{Report, gpus_of};
use std::collections::BTreeSet;

/// More subjects, GPUs or messages than this are counted or folded.
const SPELLED: usize = 4;

/// All findings; `None` if there are none.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let all = report.tests.iter().flat_map(|test| test.findings.iter().map(|f| (test.id.as_str(), f)));
    let (mut bad, harmless): (Vec<_>, Vec<_>) = all.partition(|(_, f)| f.severity > Severity::Info);
    // A stable sort: findings of one severity keep the order of the tests.
    bad.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    let some = !bad.is_empty() || !harmless.is_empty();
    let mut told = BTreeSet::new();
    let mut articles = |of: Vec<(&'_ str, &'_ Finding)>| -> Vec<Element> {
        let groups =
            alike(of, |(id, f)| (*id, f.severity, f.code.clone(), f.cause.clone(), f.remedy.clone()));
        groups.iter().filter_map(|group| article(report, group, &mut told)).collect()
    };
    let count = harmless.len();
    let bad = articles(bad);
    let harmless = folded(&format!("harmless: {count}"), false, articles(harmless));
    let section = section("Findings").with("id", "findings").children(bad);
    some.then(|| section.children((count > 0).then_some(harmless)))
}

/// Findings of one test that have one cause and one remedy.
fn article(report: &Report, group: &[(&str, &Finding)], told: &mut BTreeSet<String>) -> Option<Element> {
    let (test, first) = group.first()?;
    let mut subjects: Vec<_> = group.iter().map(|(_, finding)| finding.subject.as_str()).collect();
    subjects = alike(subjects, |subject| *subject).iter().filter_map(|same| same.first().copied()).collect();
    let more = subjects.len().saturating_sub(SPELLED);
    subjects.truncate(SPELLED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let head = element("h3")
        .child(mark("b", words::severity(first.severity)))
        .child(element("span").text(&format!("{}: {}{more}", first.code, subjects.join(", "))));
    let gpus = subjects.iter().flat_map(|subject| gpus_of(subject, report)).collect::<BTreeSet<_>>();
    let gpus = gpus.into_iter().map(|gpu| words::gpu(report, gpu)).collect::<Vec<_>>();
    let place = (1..=SPELLED).contains(&gpus.len()).then(|| ("where", gpus.join("; ")));
    let said =
        [("cause", first.cause.clone()), ("remedy", first.remedy.clone()), ("test", (*test).to_owned())];
    let list = place.into_iter().chain(said);
    let list = list.flat_map(|(name, text)| [element("dt").text(name), element("dd").text(&text)]);
    let mut messages = group.iter().map(|(_, f)| element("p").text(&words::named(&f.message)));
    let shown: Vec<_> = messages.by_ref().take(SPELLED).collect();
    let rest: Vec<_> = messages.collect();
    let rest = (!rest.is_empty()).then(|| folded(&format!("{} more", rest.len()), false, rest));
    let findings = group.iter().map(|(_, finding)| *finding);
    let article = element("article").child(head).children(shown).children(rest);
    Some(article.child(element("dl").children(list)).children(evidence(findings, told)))
}

/// The lines that no earlier article has, and how many of its lines an earlier one has.
fn evidence<'a>(findings: impl Iterator<Item = &'a Finding>, told: &mut BTreeSet<String>) -> Option<Element> {
    let all: BTreeSet<_> = findings.flat_map(|finding| &finding.evidence).collect();
    let new: Vec<_> = all.iter().filter(|line| told.insert((**line).clone())).collect();
    let again = match all.len() - new.len() {
        0 => String::new(),
        n => format!("; {n} of them above"),
    };
    let lines = element("pre").text(&new.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("\n"));
    let lines = (!new.is_empty()).then_some(lines);
    (!all.is_empty()).then(|| folded(&format!("evidence: {} lines{again}", all.len()), false, lines))
}
