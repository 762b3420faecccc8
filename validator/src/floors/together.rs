//! All transfers at once against what the links allow. On record: a PCIe switch over which two GPUs write to
//! two others falls from 37 to 2.7 GB/s, without any error.

use super::network::ExpectedSpeed;
use super::rounded;
use crate::schedule::Pair;
use outcome::finding::{Code, Finding, Severity, Subject};

/// The expected speed is the ideal. Healthy machines reach 0.95 and more of it over NVSwitch; a collapse to
/// half is below this limit.
const BAD: f64 = 0.55;
/// Below this the speed is suspicious, but switches that share their ports unevenly come close to it.
const LOW: f64 = 0.7;
/// A transfer below this fraction of comparable simultaneous transfers is starved.
const STARVED: f64 = 0.5;
/// Kernels and reads reach at least this fraction of what the copy engines' writes suggest: several kernels of a GPU may
/// run one after the other, and then several GPUs may send to the same one.
const OTHER_MOVER: f64 = 0.4;
/// Smaller groups are not judged.
const FEWEST: usize = 4;

/// `what`: the pattern, as in `ring`; `total`: what its `transfers` moved together, GB/s, from the first
/// start to the last stop; `again`: the second measurement.
#[must_use]
pub fn collapse(
    what: &str,
    transfers: usize,
    (total, again): (f64, Option<f64>),
    expected: &ExpectedSpeed,
) -> Option<Finding> {
    let best = again.map_or(total, |again| again.max(total));
    let severity = match best / expected.total {
        part if part >= LOW => return None,
        part if part >= BAD => Severity::Warn,
        // NaN reaches this arm.
        _ => Severity::Fail,
    };
    let least = expected.total * LOW;
    let again = again.map_or(String::new(), |again| {
        format!(" ({again:.2} when measured again)")
    });
    let message = format!(
        "{what}: all {transfers} transfers at once move {total:.2} GB/s{again}, expected at least {least:.2} GB/s \
         ({LOW} of the {:.2} GB/s that {} allows)",
        expected.total, expected.limit
    );
    let finding = Code::P2pCollapse.finding(severity, Subject::operation(what), message);
    Some(finding.values(rounded(best), rounded(least), Some("GB/s")))
}

/// Kernels or reads of a pattern; `what`: as in `ring, kernels write`; `usual`: GB/s that the copy engines' writes of the
/// same pattern suggest, by the speeds of the pairs alone. How engines share a GPU and how reads share a root complex
/// differs between machines, so this is a warning, and far below.
#[must_use]
pub fn slow_together(
    what: &str,
    transfers: usize,
    (total, again): (f64, Option<f64>),
    usual: f64,
) -> Option<Finding> {
    let best = again.map_or(total, |again| again.max(total));
    let least = usual * OTHER_MOVER;
    // NaN is not enough.
    if best >= least {
        return None;
    }
    let again = again.map_or(String::new(), |again| {
        format!(" ({again:.2} when measured again)")
    });
    let message = format!(
        "{what}: all {transfers} transfers at once move {total:.2} GB/s{again}, expected at least {least:.2} GB/s \
         ({OTHER_MOVER} of the {usual:.2} GB/s that copy engines which write suggest)"
    );
    let finding = Code::P2pCollapse.finding(Severity::Warn, Subject::operation(what), message);
    Some(finding.values(rounded(best), rounded(least), Some("GB/s")))
}

/// Transfers that are far slower than comparable ones in the same pattern, both in GB/s and as a fraction of
/// their speed alone.
#[must_use]
pub fn starved(what: &str, each: &[PatternTransfer]) -> Vec<Finding> {
    let middle = |like: &str, of: fn(&PatternTransfer) -> f64| {
        let alike: Vec<f64> = each
            .iter()
            .filter(|other| other.like == like)
            .map(of)
            .collect();
        report::stats::median(&alike)
            .ok()
            .filter(|_| alike.len() >= FEWEST)
    };
    let found = |share: &PatternTransfer| {
        let PatternTransfer {
            pair,
            gb_s,
            alone,
            like,
        } = share;
        // On a shared GPU all reach the same speed, otherwise each the same fraction of its own.
        let as_much = middle(like, |other| other.gb_s)? * STARVED;
        let of_its_own = middle(like, PatternTransfer::part)? * STARVED * alone;
        let least = as_much.min(of_its_own);
        if *gb_s >= least {
            return None;
        }
        let message = format!(
            "{pair}: {gb_s:.2} GB/s in the pattern {what}, expected at least {least:.2} GB/s ({STARVED} of what \
             comparable transfers get)"
        );
        let finding = Code::P2pCollapse.finding(Severity::Warn, pair, message);
        Some(finding.values(rounded(*gb_s), rounded(least), Some("GB/s")))
    };
    each.iter().filter_map(found).collect()
}

/// One transfer of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternTransfer {
    /// The sender and the receiver.
    pub pair: Pair,
    /// GB/s by its own clock.
    pub gb_s: f64,
    /// GB/s when no other transfer runs.
    pub alone: f64,
    /// The group that it is compared with.
    pub like: String,
}

impl PatternTransfer {
    fn part(&self) -> f64 {
        self.gb_s / self.alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_reads_are_named_far_below_the_writes_of_the_copy_engines() {
        assert_eq!(
            slow_together("ring, kernels read", 8, (90.0, None), 200.0),
            None
        );
        assert_eq!(
            slow_together("ring, kernels read", 8, (70.0, Some(90.0)), 200.0),
            None,
            "it was low only once"
        );
        let finding = slow_together("ring, kernels read", 8, (70.0, Some(60.0)), 200.0).unwrap();
        assert_eq!(
            (finding.severity, finding.measured),
            (Severity::Warn, 70.0.into())
        );
        assert!(slow_together("ring, kernels read", 8, (f64::NAN, None), 200.0).is_some());
    }
}
