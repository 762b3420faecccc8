//! Figures that still scatter after repeats.

use crate::outcome::finding::{Code, Finding, Severity};
use crate::stats::{Measured, Policy};

/// Scatter beyond this many times the policy's limit puts the figure itself in doubt: the floors are 15 % and
/// more below what healthy machines reach.
const DOUBTFUL: f64 = 5.0;

/// A figure that stayed noisy: information, or a warning when it may affect a verdict. `subject`: a pair;
/// `what`: the matrix, as in `ce.write`.
#[must_use]
pub fn noise(
    subject: &(impl ToString + ?Sized),
    what: &str,
    unit: &str,
    policy: &Policy,
    measured: &Measured,
) -> Option<Finding> {
    if !measured.noisy {
        return None;
    }
    let doubtful = measured.spread > policy.spread * DOUBTFUL;
    let severity = if doubtful { Severity::Warn } else { Severity::Info };
    let percent = |part: f64| (part * 1000.0).round() / 10.0;
    let (spread, allowed) = (percent(measured.spread), percent(policy.spread));
    let message = format!(
        "{}: {what} {:.2} {unit} scatters by {spread} % after {} repeats, expected at most {allowed} %",
        subject.to_string(),
        measured.median,
        measured.repeats
    );
    let samples: Vec<_> = measured.samples.iter().map(|s| format!("{s:.2}")).collect();
    let finding = Code::P2pNoisy.finding(severity, subject, message);
    Some(finding.values(spread, allowed, Some("%")).seen(format!("samples {} {unit}", samples.join(", "))))
}
