//! Findings on the page: the worst first, each with its cause and remedy; the evidence folded, and each line of it once;
//! harmless findings folded.

use super::frame::{folded, mark, section};
use crate::outcome::finding::{Finding, Severity};
use crate::render::element::{Element, element};
use crate::render::words;
use crate::report::{Report, gpus_of};
use std::collections::BTreeSet;

/// A subject of more GPUs than this is not spelled out.
const SPELLED: usize = 4;

/// All findings; `None` if there are none.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let all = report.tests.iter().flat_map(|test| test.findings.iter().map(|f| (test.id.as_str(), f)));
    let (mut bad, harmless): (Vec<_>, Vec<_>) = all.partition(|(_, f)| f.severity > Severity::Info);
    // A stable sort: findings of one severity keep the order of the tests.
    bad.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    let some = !bad.is_empty() || !harmless.is_empty();
    let mut told = BTreeSet::new();
    let mut articles = |of: &[(&'_ str, &'_ Finding)]| -> Vec<Element> {
        of.iter().map(|(id, finding)| article(report, id, finding, &mut told)).collect()
    };
    let bad = articles(&bad);
    let count = harmless.len();
    let harmless = folded(&format!("harmless: {count}"), false, articles(&harmless));
    let section = section("Findings").with("id", "findings").children(bad);
    some.then(|| section.children((count > 0).then_some(harmless)))
}

fn article(report: &Report, test: &str, finding: &Finding, told: &mut BTreeSet<String>) -> Element {
    let head = element("h3")
        .child(mark("b", words::severity(finding.severity)))
        .child(element("span").text(&format!("{}: {}", finding.code, finding.subject)));
    let gpus = gpus_of(&finding.subject, report);
    let gpus = gpus.into_iter().map(|gpu| words::gpu(report, gpu)).collect::<Vec<_>>();
    let place = (1..=SPELLED).contains(&gpus.len()).then(|| ("where", gpus.join("; ")));
    let said =
        [("cause", finding.cause.clone()), ("remedy", finding.remedy.clone()), ("test", test.to_owned())];
    let list = place.into_iter().chain(said);
    let list = list.flat_map(|(name, text)| [element("dt").text(name), element("dd").text(&text)]);
    element("article")
        .child(head)
        .child(element("p").text(&finding.message))
        .child(element("dl").children(list))
        .children(evidence(finding, told))
}

/// The lines that no earlier finding has, and how many of its lines an earlier one has.
fn evidence(finding: &Finding, told: &mut BTreeSet<String>) -> Option<Element> {
    let all = finding.evidence.len();
    let new: Vec<_> = finding.evidence.iter().filter(|line| told.insert((*line).clone())).collect();
    let again = match all - new.len() {
        0 => String::new(),
        n => format!("; {n} of them above"),
    };
    let lines = new.iter().map(|line| element("pre").text(line));
    (all > 0).then(|| folded(&format!("evidence: {all}{again}"), false, lines))
}
