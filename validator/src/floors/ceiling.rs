//! Upper limits of figures: what the links carry at their best, and what they report to carry now.

use super::rounded;
use crate::outcome::finding::{Code, Finding, Severity};

/// Data never reaches a link's raw rate, because packets have headers; this much is allowed for rounding.
const ROUNDING: f64 = 1.02;

/// A figure above what is physically possible. `subject`: a pair or a GPU; `what`: the matrix; `most`: GB/s
/// that the links carry at their best, `None` where unknown.
#[must_use]
pub fn impossible(
    subject: &(impl ToString + ?Sized),
    what: &str,
    gb_s: f64,
    most: Option<f64>,
) -> Option<Finding> {
    let most = most.filter(|most| gb_s > most * ROUNDING)?;
    let message = format!(
        "{}: {what} {gb_s:.2} GB/s, expected at most {most:.2} GB/s, which its links carry at their best: either \
         the figure or the reported link state is wrong",
        subject.to_string()
    );
    let finding = Code::SpeedImpossible.finding(Severity::Error, subject, message);
    Some(finding.values(rounded(gb_s), rounded(most), Some("GB/s")))
}

/// A figure above what the links on the path report to carry now, `raw`, though not above what they carry at
/// their best. `own`: what the ends' own links report; if that explains the figure, a port between them is
/// reported wrongly, as in virtual machines.
#[must_use]
pub fn contradicted(
    subject: &(impl ToString + ?Sized),
    gb_s: f64,
    raw: Option<f64>,
    own: Option<f64>,
) -> Option<Finding> {
    let raw = raw.filter(|raw| gb_s > raw * ROUNDING)?;
    let explained = own.is_some_and(|own| gb_s <= own * ROUNDING);
    let severity = if explained { Severity::Info } else { Severity::Warn };
    let message = format!(
        "{}: {gb_s:.2} GB/s moved over links that report {raw:.2} GB/s under load, expected at most that",
        subject.to_string()
    );
    let finding = Code::LinkContradicted.finding(severity, subject, message);
    Some(finding.values(rounded(gb_s), rounded(raw), Some("GB/s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_link_carries_at_its_best_is_an_error() {
        assert_eq!(impossible("GPU 0 -> 1", "ce.write", 31.6, Some(31.5)), None);
        assert_eq!(impossible("GPU 0 -> 1", "ce.write", 26_000.0, None), None, "nothing is known");
        let finding = impossible("GPU 0 -> 1", "ce.write", 52.0, Some(31.5)).unwrap();
        assert!(finding.is(Code::SpeedImpossible) && finding.severity == Severity::Error);
        assert!(finding.message.starts_with("GPU 0 -> 1: ce.write 52.00 GB/s, expected at most 31.50 GB/s"));
    }

    #[test]
    fn more_than_a_link_reports_to_carry_contradicts_it() {
        let said = |own| contradicted("GPU 0 -> 1", 25.0, Some(0.25), own).map(|f| f.severity);
        assert_eq!(
            [said(Some(0.25)), said(None), said(Some(31.5))],
            [Some(Severity::Warn), Some(Severity::Warn), Some(Severity::Info)]
        );
        assert_eq!(contradicted("GPU 0 -> 1", 25.0, Some(31.5), None), None);
        assert_eq!(contradicted("GPU 0 -> 1", 25.0, None, None), None);
    }
}
