//! All transfers at once against what fair sharing predicts. On record: a PCIe switch over which
//! two GPUs write to two others falls from 37 to 2.7 GB/s, without an error anywhere.

use super::told;
use crate::finding::{Code, Finding, Severity};
use crate::schedule::Pair;

/// Below half of the lower bound something has collapsed; the case on record is at 0.07.
const LOW: f64 = 0.5;
/// Below a quarter nothing that runs on many GPUs is of use.
const BAD: f64 = 0.25;

/// `what`: the pattern, as in `ring`; `measured`: each pair's GB/s while all run; `predicted`: what
/// fair sharing gives each, in the same order; `alone`: what each moves by itself.
#[must_use]
pub fn collapse(what: &str, measured: &[(Pair, f64)], predicted: &[f64], alone: &[f64]) -> Option<Finding> {
    let sum: f64 = measured.iter().map(|(_, gb_s)| gb_s).sum();
    let (predicted_sum, parts): (f64, f64) = (predicted.iter().sum(), alone.iter().sum());
    let severity = match sum / predicted_sum {
        part if part >= LOW => return None,
        part if part >= BAD => Severity::Warn,
        _ => Severity::Fail,
    };
    let least = predicted_sum * LOW;
    let message = format!(
        "{what}: all {} transfers at once move {sum:.2} GB/s, expected at least {least:.2} GB/s \
         ({LOW} of what sharing the links fairly gives; one by one they come to {parts:.2} GB/s)",
        measured.len()
    );
    let finding = Code::P2pCollapse.finding(severity, what, message);
    Some(finding.values(told(sum), told(least), Some("GB/s")).seen_all(worst(measured, predicted)))
}

/// The transfer that falls furthest below its share.
fn worst(measured: &[(Pair, f64)], predicted: &[f64]) -> Vec<String> {
    let parts = measured.iter().zip(predicted).map(|((pair, gb_s), share)| (gb_s / share, pair, gb_s, share));
    let worst = parts.min_by(|a, b| a.0.total_cmp(&b.0));
    let tell = |(_, pair, gb_s, share): (f64, &Pair, &f64, &f64)| {
        format!("furthest below its share: {pair}, {gb_s:.2} of {share:.2} GB/s")
    };
    worst.map(tell).into_iter().collect()
}
