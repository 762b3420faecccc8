//! The line for scrapers, the last one of every text: `FIRSTLIGHT verdict=.. failed=.. warned=.. codes=.. scope=..
//! host=.. seconds=..`. Each value is one word, whatever the report holds.

use crate::outcome::Verdict;
use crate::outcome::finding::Severity;
use crate::render::alike::alike;
use crate::report::Report;

/// The line, with its end.
#[must_use]
pub fn last_line(report: &Report) -> String {
    let failed = match (&report.failed()[..], report.verdict) {
        // No test can be named when none ran: then it is the validator that failed.
        ([], Verdict::Error) => "validator".to_owned(),
        (ids, _) => list(ids),
    };
    let bad = report.tests.iter().flat_map(|t| &t.findings).filter(|f| f.severity > Severity::Info);
    let codes = alike(bad, |finding| finding.code.as_str());
    let codes: Vec<&str> = codes.iter().filter_map(|group| Some(group.first()?.code.as_str())).collect();
    let host = report.machine.host.as_deref().filter(|host| !host.is_empty()).unwrap_or("unknown");
    format!(
        "FIRSTLIGHT verdict={} failed={failed} warned={} codes={} scope={} host={} seconds={:.1}\n",
        report.verdict,
        list(&report.warned()),
        list(&codes),
        word(&report.scope.to_string()),
        word(host),
        report.seconds
    )
}

fn list(words: &[&str]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.iter().map(|w| word(w)).collect::<Vec<_>>().join(",")
}

/// What would end the value, or the line, or forge another value, becomes `?`.
fn word(text: &str) -> String {
    let keeps = |c: char| !c.is_control() && !c.is_whitespace() && c != '=';
    text.chars().map(|c| if keeps(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::outcome::finding::Code;
    use crate::render::fixture::{report, test};

    #[test]
    fn a_degraded_machine_has_its_reason() {
        let found = || Code::LinkNarrow.finding(Severity::Warn, "0000:01:00.0", "x8 of x16");
        let info = Code::LinkSlow.finding(Severity::Info, "0000:01:00.0", "idle");
        let links = test("links", Outcome::Warn, "narrow", vec![found(), info, found()]);
        let display = test("display", Outcome::Warn, "seen", vec![]);
        assert_eq!(
            last_line(&report(vec![links, display])),
            "FIRSTLIGHT verdict=DEGRADED failed=none warned=links,display codes=LINK-NARROW \
             scope=machine host=node7 seconds=12.4\n"
        );
    }

    #[test]
    fn nothing_in_a_report_can_forge_a_value_or_a_line() {
        let mut finding = Code::CpusLost.finding(Severity::Fail, "x", "x");
        finding.code = "X codes=none\nFIRSTLIGHT verdict=PASS\u{85}\u{2028}".into();
        let mut hostile = report(vec![test("a b\n", Outcome::Fail, "x", vec![finding])]);
        hostile.machine.host = Some("h\r\nFIRSTLIGHT verdict=PASS".into());
        let line = last_line(&hostile);
        assert_eq!((line.lines().count(), line.split(' ').count()), (1, 8), "{line}");
        assert_eq!(line.matches('=').count(), 7, "{line}");
        assert!(line.is_ascii(), "{line}");
    }
}
