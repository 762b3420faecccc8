//! Latencies, compared with those on record for such links, and with the best comparable pair of this
//! machine.

use super::rounded;
use crate::schedule::Pair;
use outcome::finding::{Code, Finding, Severity};

/// A pair is late beyond this many times the best of its group: on record 1.47 (8 x 4090, near and far
/// sockets together) and 1.24 (4 H200).
const TIMES_BEST: f64 = 1.8;
/// A copy to a peer is late beyond this many times a copy within one GPU: on record 1.56. It is the only limit that shows
/// that all pairs are late, where the copies are still direct.
const TIMES_LOCAL: f64 = 1.9;
/// A 16-byte copy through host memory: on record 11 to 20 us.
const STAGED_US: f64 = 8.0;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyKind {
    /// A 16-byte copy, us. On record 1.2 to 1.7 over PCIe, 2.2 to 2.7 over NVLink.
    Copy,
    /// One load of a chase through the peer's memory, ns. On record 1310 to 1840, and 827.
    Load,
    /// A flag from kernel to kernel, ns. On record 1135 to 1666, and 2418 to 2631 (H200
    /// over NVSwitch).
    Hop,
}

/// The figures for comparison, in the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyReference {
    /// Whether NVLinks carry it.
    pub nvlink: bool,
    /// The lowest of all pairs in its group.
    pub best: Option<f64>,
    /// The same measurement within one GPU.
    pub local: Option<f64>,
}

impl LatencyKind {
    const fn most(self, nvlink: bool) -> f64 {
        match (self, nvlink) {
            (Self::Copy, false) => 3.0,
            (Self::Copy, true) => 3.5,
            (Self::Load, false) => 4000.0,
            (Self::Load, true) => 2000.0,
            (Self::Hop, false) => 5000.0,
            (Self::Hop, true) => 5000.0,
        }
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Copy => ("16 bytes take", "us"),
            Self::Load => ("a load from the peer's memory takes", "ns"),
            Self::Hop => ("a flag takes", "ns"),
        }
    }
}

/// A figure beyond its limit. `again`: the figure of a second measurement.
#[must_use]
pub fn latency(
    pair: Pair,
    kind: LatencyKind,
    (first, again): (f64, Option<f64>),
    reference: &LatencyReference,
) -> Option<Finding> {
    let figure = again.map_or(first, |again| again.min(first));
    let most = kind.most(reference.nvlink);
    let limits = [
        (Some(most), "the latency of such links"),
        (
            reference.best.map(|best| best * TIMES_BEST),
            "1.8 times the best of the comparable pairs",
        ),
        (
            reference.local.map(|local| local * TIMES_LOCAL),
            "1.9 times a copy within a GPU",
        ),
    ];
    let limits = limits
        .into_iter()
        .filter_map(|(limit, why)| Some((limit?, why)));
    let (limit, why) = limits.reduce(|a, b| if b.0 < a.0 { b } else { a })?;
    let severity = match figure {
        figure if figure <= limit => return None,
        figure if kind != LatencyKind::Copy || figure <= STAGED_US => Severity::Warn,
        // NaN reaches this arm.
        _ => Severity::Fail,
    };
    let (what, unit) = kind.words();
    let again = again.map_or(String::new(), |again| {
        format!(" ({again:.2} when measured again)")
    });
    let message = format!(
        "{pair}: {what} {first:.2} {unit}{again}, expected at most {limit:.2} {unit} ({why})"
    );
    Some(Code::P2pLatency.finding(severity, pair, message).values(
        rounded(figure),
        rounded(limit),
        Some(unit),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: Pair = Pair::of(0, 1);

    fn severity(kind: LatencyKind, figure: f64, reference: LatencyReference) -> Option<Severity> {
        latency(PAIR, kind, (figure, None), &reference).map(|f| f.severity)
    }

    #[test]
    fn a_copy_is_direct_or_late_or_through_host_memory() {
        let pcie = LatencyReference::default();
        assert_eq!(severity(LatencyKind::Copy, 2.73, pcie), None);
        assert_eq!(
            severity(LatencyKind::Copy, 3.01, pcie),
            Some(Severity::Warn)
        );
        assert_eq!(
            severity(LatencyKind::Copy, 8.01, pcie),
            Some(Severity::Fail)
        );
        assert_eq!(
            severity(LatencyKind::Copy, f64::NAN, pcie),
            Some(Severity::Fail)
        );
        assert_eq!(
            latency(PAIR, LatencyKind::Copy, (11.0, Some(12.0)), &pcie)
                .unwrap()
                .message,
            "GPU 0 -> 1: 16 bytes take 11.00 us (12.00 when measured again), expected at most 3.00 us (the latency \
             of such links)"
        );
    }

    #[test]
    fn each_is_compared_with_the_machines_own_best() {
        let like = |best| LatencyReference {
            best: Some(best),
            ..LatencyReference::default()
        };
        assert_eq!(severity(LatencyKind::Copy, 1.69, like(1.17)), None);
        assert_eq!(
            severity(LatencyKind::Copy, 2.9, like(1.4)),
            Some(Severity::Warn)
        );
        assert_eq!(severity(LatencyKind::Load, 1840.0, like(1310.0)), None);
        assert_eq!(
            severity(LatencyKind::Load, 2700.0, like(1310.0)),
            Some(Severity::Warn)
        );
        assert_eq!(severity(LatencyKind::Hop, 1666.0, like(1135.0)), None);
        assert_eq!(
            severity(LatencyKind::Hop, 20_000.0, like(20_000.0)),
            Some(Severity::Warn),
            "all are late"
        );
        let local = LatencyReference {
            local: Some(1.75),
            nvlink: true,
            best: Some(2.2),
        };
        assert_eq!(
            (
                severity(LatencyKind::Copy, 2.73, local),
                severity(LatencyKind::Copy, 3.6, local)
            ),
            (None, Some(Severity::Warn))
        );
        let all_late = LatencyReference {
            local: Some(1.4),
            best: Some(2.9),
            nvlink: false,
        };
        assert_eq!(
            severity(LatencyKind::Copy, 2.9, all_late),
            Some(Severity::Warn),
            "all are late"
        );
        assert_eq!(severity(LatencyKind::Copy, 2.6, all_late), None);
        assert_eq!(
            severity(
                LatencyKind::Load,
                827.0,
                LatencyReference {
                    nvlink: true,
                    ..like(826.0)
                }
            ),
            None
        );
    }

    #[test]
    fn a_pair_that_was_late_only_once_is_not_late() {
        assert_eq!(
            latency(
                PAIR,
                LatencyKind::Copy,
                (9.0, Some(1.4)),
                &LatencyReference::default()
            ),
            None
        );
    }
}
