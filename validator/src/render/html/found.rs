//! Findings on the page: the worst first, each with its evidence, cause and remedy; harmless ones folded.

use super::{mark, section};
use crate::outcome::finding::{Finding, Severity};
use crate::render::element::{Element, element};
use crate::render::words;
use crate::report::Report;

/// All findings; `None` if there are none.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let all = report.tests.iter().flat_map(|test| test.findings.iter().map(|f| (test.id.as_str(), f)));
    let (mut bad, harmless): (Vec<_>, Vec<_>) = all.partition(|(_, f)| f.severity > Severity::Info);
    // A stable sort: findings of one severity keep the order of the tests.
    bad.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
    let articles = |of: &[(&str, &Finding)]| of.iter().map(|(id, f)| article(id, f)).collect::<Vec<_>>();
    let summary = element("summary").text(&format!("harmless: {}", harmless.len()));
    let folded = element("details").child(summary).children(articles(&harmless));
    let some = !bad.is_empty() || !harmless.is_empty();
    let section = section("Findings").children(articles(&bad));
    some.then(|| section.children((!harmless.is_empty()).then_some(folded)))
}

fn article(test: &str, finding: &Finding) -> Element {
    let word = words::severity(finding.severity);
    let head = element("h3")
        .child(mark("b", word, word))
        .child(element("span").text(&format!("{}: {}", finding.code, finding.subject)));
    let seen = finding.evidence.iter().map(|line| ("seen", line.as_str()));
    let said = [("cause", finding.cause.as_str()), ("remedy", &finding.remedy), ("test", test)];
    let list = seen.chain(said).flat_map(|(name, text)| [element("dt").text(name), element("dd").text(text)]);
    element("article")
        .child(head)
        .child(element("p").text(&finding.message))
        .child(element("dl").children(list))
}
