//! A finding in lines of 80 columns.

use outcome::finding::{FindingEntry, Severity};
use outcome::text::wrapped;

/// The indentation below a finding's code.
const INDENT: &str = "         ";

/// A finding's severity, code and sentence.
pub(super) fn message(finding: &FindingEntry) -> String {
    let severity = match finding.severity {
        Severity::Info => "INFO ",
        Severity::Warn => "WARN ",
        Severity::Fail => "FAIL ",
        Severity::Error => "ERROR",
    };
    wrapped(
        &format!("  {severity}  "),
        INDENT,
        &format!("{}: {}", finding.code, finding.message),
    )
}

/// A finding's cause and remedy.
pub(super) fn cause_and_remedy(finding: &FindingEntry) -> String {
    wrapped(INDENT, INDENT, &format!("cause: {}", finding.cause))
        + &wrapped(INDENT, INDENT, &format!("remedy: {}", finding.remedy))
}
