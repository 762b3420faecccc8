//! The line for scrapers, the last one of every text: of a report, and of a run over several nodes.

use crate::render::group_by_key;
use crate::{Report, TestEntry};
use contract::last_line::LastLine;
use outcome::finding::Severity;
use outcome::{Outcome, Verdict};

/// The line of a report, with a line feed.
#[must_use]
pub fn last_line(report: &Report) -> String {
    line_of(report, |line| line.to_string())
}

/// The line of a report in less than 80 characters.
#[must_use]
pub fn short_line(report: &Report) -> String {
    line_of(report, |line| line.short())
}

/// The line after a run over several nodes, with the scope `nodes`; `codes` are findings of other nodes.
#[must_use]
pub fn nodes_line(
    verdict: Verdict,
    tests: &[TestEntry],
    codes: Vec<&str>,
    host: &str,
    seconds: f64,
) -> String {
    let of = |wanted: &[Outcome]| {
        tests
            .iter()
            .filter(|test| wanted.contains(&test.outcome))
            .map(|test| test.id.as_str())
            .collect()
    };
    let bad = tests
        .iter()
        .flat_map(|test| &test.findings)
        .filter(|f| f.severity > Severity::Info);
    let all = codes
        .into_iter()
        .chain(bad.map(|finding| finding.code.as_str()));
    let line = LastLine {
        verdict,
        failed: of(&[Outcome::Fail, Outcome::Error]),
        warned: of(&[Outcome::Warn]),
        codes: group_by_key(all, |code| *code)
            .iter()
            .filter_map(|group| group.first().copied())
            .collect(),
        scope: "nodes",
        host,
        seconds,
    };
    format!("{line}\n")
}

fn line_of(report: &Report, text: impl Fn(&LastLine<'_>) -> String) -> String {
    let mut failed = report.failed();
    if failed.is_empty() && report.verdict == Verdict::Error {
        // If no test ran, there is no test to name, and the validator itself has failed.
        failed.push("validator");
    }
    let bad = report
        .tests
        .iter()
        .flat_map(|t| &t.findings)
        .filter(|f| f.severity > Severity::Info);
    // In the order of repair.
    let causes = report.causes.iter().map(|cause| cause.code.as_str());
    let codes = group_by_key(
        causes.chain(bad.map(|finding| finding.code.as_str())),
        |code| *code,
    );
    let line = LastLine {
        verdict: report.verdict,
        failed,
        warned: report.warned(),
        codes: codes
            .iter()
            .filter_map(|group| group.first().copied())
            .collect(),
        scope: &report.scope.to_string(),
        host: report.machine.host.as_deref().unwrap_or_default(),
        seconds: report.seconds,
    };
    text(&line) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixture::{report, test};
    use outcome::Outcome;
    use outcome::finding::Code;

    #[test]
    fn a_degraded_machine_has_its_reason() {
        let found = || Code::LinkNarrow.finding(Severity::Warn, "0000:01:00.0", "x8 of x16");
        let info = Code::LinkSlow.finding(Severity::Info, "0000:01:00.0", "idle");
        let links = test(
            "links",
            Outcome::Warn,
            "narrow",
            vec![found(), info, found()],
        );
        let display = test("display", Outcome::Warn, "seen", vec![]);
        assert_eq!(
            last_line(&report(vec![links, display])),
            "FIRSTLIGHT verdict=DEGRADED failed=none warned=links,display codes=LINK-NARROW \
             scope=machine host=node7 seconds=12.4\n"
        );
    }

    #[test]
    fn nothing_in_a_report_can_forge_a_value_or_a_line() {
        let finding = Code::CpusLost.finding(Severity::Fail, "x", "x");
        let mut hostile = report(vec![test("a b\n", Outcome::Fail, "x", vec![finding])]);
        hostile.tests[0].findings[0].code =
            "X codes=none\nFIRSTLIGHT verdict=PASS\u{85}\u{2028}".into();
        hostile.machine.host = Some("h\r\nFIRSTLIGHT verdict=PASS".into());
        let line = last_line(&hostile);
        assert_eq!(
            (line.lines().count(), line.split(' ').count()),
            (1, 8),
            "{line}"
        );
        assert_eq!(line.matches('=').count(), 7, "{line}");
        assert!(line.is_ascii(), "{line}");
    }
}
