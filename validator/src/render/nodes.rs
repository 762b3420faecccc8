//! The line for programs after a run over several nodes: as that of a machine, with the scope `nodes`.

use crate::outcome::finding::Severity;
use crate::outcome::{Outcome, Verdict};
use crate::render::alike::alike;
use crate::report::TestEntry;
use contract::last_line::LastLine;

/// The line, with its end; `codes` are findings of other nodes.
#[must_use]
pub fn last_line(
    verdict: Verdict,
    tests: &[TestEntry],
    codes: Vec<&str>,
    host: &str,
    seconds: f64,
) -> String {
    let of = |wanted: &[Outcome]| {
        tests.iter().filter(|test| wanted.contains(&test.outcome)).map(|test| test.id.as_str()).collect()
    };
    let bad = tests.iter().flat_map(|test| &test.findings).filter(|f| f.severity > Severity::Info);
    let all = codes.into_iter().chain(bad.map(|finding| finding.code.as_str()));
    let line = LastLine {
        verdict,
        failed: of(&[Outcome::Fail, Outcome::Error]),
        warned: of(&[Outcome::Warn]),
        codes: alike(all, |code| *code).iter().filter_map(|group| group.first().copied()).collect(),
        scope: "nodes",
        host,
        seconds,
    };
    format!("{line}\n")
}
