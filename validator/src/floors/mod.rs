//! The meaning of measured figures: floors from what the links can carry, and the signatures of known faults.
//! Pure: figures in, findings out, each with the measured and the expected value and the reason. The tests
//! decide what is measured, `stats` how often; `gain` compares NCCL with and without peer-to-peer.

mod carrier;
mod clock;
mod distance;
pub mod gain;
mod latency;
mod link;
mod network;
mod nvlink;
mod pair;
mod scatter;
mod sizes;
mod together;

pub use carrier::{Carrier, Floor, Grade, Mover, NVLINK_GB_S};
pub use clock::{ClockPeriod, clock_deviation};
pub use distance::{Distance, PathFigure, near_no_faster};
pub use latency::{LatencyKind, LatencyReference, latency};
pub use link::{contradicted_link, impossible_speed};
pub use link::{link_disagreement, raw_to_host, slow_host_copy, slow_link};
pub use network::{ExpectedSpeed, JointTransfers, KnownPaths, ResourceRates, classes};
pub use nvlink::{NvLinkCounts, NvLinkGpu, nvlinks};
pub use pair::{
    PairFigures, asymmetric, basis_of_both, is_staged, pair_findings, slow_mover, slow_reads,
};
pub use scatter::{below_all_others, noise, outliers};
pub use sizes::{SizeFigure, expected_by_size, slow_size};
pub use together::{PatternTransfer, collapse, slow_together, starved};

/// A figure for the report: rounded to two decimals.
fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Pair;
    use machine::pcie::model::{Link, PathKind};
    use machine::pcie::sample::{bdf, two_gpus};
    use machine::pcie::tree::Tree;
    use outcome::finding::{Finding, Reason, Severity};
    use outcome::metric::Metric;
    use report::stats::{BANDWIDTH, Measured};

    const PAIR: Pair = Pair::of(0, 1);

    fn pcie(kind: PathKind, raw_gb_s: f64) -> Carrier {
        Carrier::Pcie { kind, raw_gb_s }
    }

    fn moved(carrier: Carrier, one_way: f64) -> PairFigures {
        PairFigures {
            pair: PAIR,
            carrier,
            one_way,
            back: None,
            off: None,
            both_ways: None,
            latency_us: None,
        }
    }

    /// The stock driver of the reference machine: 19.5 GB/s one way, 21 both, 14 us, on or off.
    fn stock() -> PairFigures {
        let moved = moved(pcie(PathKind::Sys, 31.5), 19.5);
        PairFigures {
            off: Some(19.4),
            both_ways: Some(21.0),
            latency_us: Some(14.0),
            ..moved
        }
    }

    fn codes(findings: &[Finding]) -> Vec<(&str, Severity)> {
        findings
            .iter()
            .map(|f| (f.code.as_str(), f.severity))
            .collect()
    }

    #[test]
    fn every_healthy_machine_on_record_passes() {
        use PathKind::{Node, Phb, Pix, Sys};
        for (kind, raw, gb_s, both) in [
            (Node, 31.5, 25.51, 1.93),
            (Sys, 31.5, 20.57, 1.86),
            (Phb, 63.0, 53.0, 1.9),
            (Sys, 63.0, 39.0, 1.64),
            (Phb, 31.5, 28.0, 2.0),
            (Phb, 15.75, 13.17, 1.9),
            (Pix, 7.88, 6.5, 1.9),
        ] {
            let figures = PairFigures {
                off: Some(gb_s * 0.8),
                both_ways: Some(gb_s * both),
                latency_us: Some(1.4),
                ..moved(pcie(kind, raw), gb_s)
            };
            assert_eq!(pair_findings(&figures, None), [], "{kind:?} {gb_s}");
        }
        let nvlink = Carrier::NvLink {
            links: 18,
            gb_s: 26.5625,
        };
        assert_eq!(
            pair_findings(
                &PairFigures {
                    both_ways: Some(736.36),
                    ..moved(nvlink, 361.03)
                },
                None
            ),
            []
        );
        assert_eq!(
            pair_findings(
                &PairFigures {
                    both_ways: Some(772.0),
                    ..moved(nvlink, 392.0)
                },
                None
            ),
            []
        );
    }

    #[test]
    fn below_the_floor_warns_and_below_nine_tenths_of_it_fails() {
        let link = pcie(PathKind::Pix, 31.5);
        assert_eq!(codes(&pair_findings(&moved(link, 23.7), None)), []);
        assert_eq!(
            codes(&pair_findings(&moved(link, 23.6), None)),
            [("P2P-SLOW", Severity::Warn)]
        );
        assert_eq!(
            codes(&pair_findings(&moved(link, 21.2), None)),
            [("P2P-SLOW", Severity::Fail)]
        );
        // Between sockets the same figure is good.
        assert_eq!(
            pair_findings(&moved(pcie(PathKind::Sys, 31.5), 21.2), None),
            []
        );
        assert_eq!(
            codes(&pair_findings(&moved(link, f64::NAN), None)),
            [("P2P-SLOW", Severity::Fail)]
        );
    }

    #[test]
    fn a_slow_pair_is_reported_with_both_figures_and_the_floors_origin() {
        let slow = &pair_findings(&moved(pcie(PathKind::Pix, 31.508), 12.345), None)[0];
        let message = "GPU 0 -> 1: 12.35 GB/s, expected at least 23.63 GB/s \
                   (0.75 of the 31.5 GB/s that the narrowest link of its PIX path carries)";
        assert_eq!(
            (slow.subject.to_string().as_str(), &*slow.message),
            ("GPU 0 -> 1", message)
        );
        assert_eq!(
            (&slow.measured, &slow.expected, slow.unit.as_deref()),
            (&12.35.into(), &23.63.into(), Some("GB/s"))
        );
        let nvlink = Carrier::NvLink {
            links: 4,
            gb_s: 25.0,
        };
        let slow = &pair_findings(&moved(nvlink, 50.0), None)[0];
        assert!(
            slow.message
                .ends_with("(0.7 of the 100.0 GB/s that its 4 NVLinks of 25.0 GB/s carry)"),
            "{slow:?}"
        );
    }

    #[test]
    fn the_configured_floor_adds_to_the_models() {
        let link = pcie(PathKind::Pix, 31.5);
        assert_eq!(
            codes(&pair_findings(&moved(link, 26.0), Some(26.5))),
            [("P2P-SLOW", Severity::Fail)]
        );
        assert_eq!(pair_findings(&moved(link, 26.0), Some(25.0)), []);
        // A lower one does not replace the model's.
        assert_eq!(
            codes(&pair_findings(&moved(link, 12.0), Some(10.0))),
            [("P2P-SLOW", Severity::Fail)]
        );
        let both = &pair_findings(&moved(link, 9.0), Some(10.0))[0];
        assert_eq!(both.expected, 23.63, "the higher floor is reported");
    }

    #[test]
    fn an_unknown_path_is_an_error_without_a_configured_floor() {
        let unknown = moved(pcie(PathKind::Phb, 0.0), 20.0);
        let finding = &pair_findings(&unknown, None)[0];
        assert_eq!(
            (finding.severity, &finding.reason),
            (Severity::Error, &Some(Reason::LinkSpeedUnknown))
        );
        assert_eq!(pair_findings(&unknown, Some(19.0)), []);
        assert_eq!(
            codes(&pair_findings(&unknown, Some(21.0))),
            [("P2P-SLOW", Severity::Fail)]
        );
    }

    #[test]
    fn staged_copies_are_reported_once() {
        assert_eq!(
            codes(&pair_findings(&stock(), None)),
            [("P2P-STAGED", Severity::Fail)]
        );
        let finding = &pair_findings(&stock(), None)[0];
        assert!(
            finding
                .message
                .starts_with("GPU 0 -> 1: 19.50 GB/s, expected at least 18.27 GB/s"),
            "{finding:?}"
        );
        assert_eq!(finding.evidence.len(), 3);
        // Either sign alone is enough.
        assert!(is_staged(&PairFigures {
            both_ways: None,
            ..stock()
        }));
        assert!(is_staged(&PairFigures {
            off: None,
            latency_us: None,
            ..stock()
        }));
    }

    #[test]
    fn a_pair_with_low_latency_is_not_staged() {
        // As fast as with peer access off, but with a low latency: H200 over PCIe would look like this.
        assert!(!is_staged(&PairFigures {
            both_ways: Some(38.0),
            latency_us: Some(1.5),
            ..stock()
        }));
        let half = PairFigures {
            latency_us: Some(1.5),
            ..stock()
        };
        assert_eq!(
            codes(&pair_findings(&half, None)),
            [("P2P-SLOW", Severity::Fail)],
            "both ways at once are slow"
        );
        assert!(!is_staged(&PairFigures {
            off: Some(17.0),
            both_ways: None,
            ..stock()
        }));
        assert!(
            !is_staged(&moved(pcie(PathKind::Sys, 31.5), 19.5)),
            "one figure alone proves nothing"
        );
    }

    #[test]
    fn both_directions_at_once_have_a_floor_of_their_own() {
        let figures = |both| PairFigures {
            both_ways: Some(both),
            ..moved(pcie(PathKind::Pix, 31.5), 26.0)
        };
        assert_eq!(pair_findings(&figures(45.6), None), []);
        assert_eq!(
            codes(&pair_findings(&figures(45.0), None)),
            [("P2P-SLOW", Severity::Warn)]
        );
        assert_eq!(
            codes(&pair_findings(&figures(40.0), None)),
            [("P2P-SLOW", Severity::Fail)]
        );
    }

    #[test]
    fn each_engine_and_direction_has_a_floor_of_its_own() {
        let judge = |mover: Mover, carrier: Carrier, gb_s: f64| {
            super::slow_mover(PAIR, Metric::CE_WRITE, mover, &carrier, (gb_s, None))
                .map(|f| f.severity)
        };
        let [ce_read, sm_write, sm_read] = [(false, true), (true, false), (true, true)]
            .map(|(kernel, read)| Mover { kernel, read });
        let h200 = Carrier::NvLink {
            links: 18,
            gb_s: 26.5625,
        };
        assert_eq!(
            [
                judge(ce_read, h200, 393.7),
                judge(sm_write, h200, 369.8),
                judge(sm_read, h200, 376.2)
            ],
            [None; 3]
        );
        assert_eq!(judge(sm_write, h200, 290.0), Some(Severity::Warn));
        assert_eq!(judge(sm_read, h200, 190.0), Some(Severity::Fail));
        let near = pcie(PathKind::Node, 31.5);
        assert_eq!(
            [
                judge(ce_read, near, 25.3),
                judge(sm_write, near, 25.4),
                judge(sm_read, near, 24.4)
            ],
            [None; 3]
        );
        assert_eq!(
            judge(sm_write, near, 12.7),
            Some(Severity::Fail),
            "half of what the copy engine writes"
        );
        assert_eq!(
            judge(ce_read, near, 12.7),
            Some(Severity::Warn),
            "some root complexes read slowly"
        );
        assert_eq!(judge(ce_read, near, 8.0), Some(Severity::Fail));
        let far = pcie(PathKind::Sys, 31.5);
        assert_eq!(
            [
                judge(ce_read, far, 20.3),
                judge(sm_write, far, 20.5),
                judge(sm_read, far, 19.6)
            ],
            [None; 3]
        );
        assert_eq!(
            judge(sm_write, pcie(PathKind::Sys, 0.0), 1.0),
            None,
            "reported by the writes"
        );
        let both = |one: f64, gb_s| {
            super::slow_mover(PAIR, Metric::SM_BI_READ, sm_read, &h200, (gb_s, Some(one)))
        };
        assert_eq!(both(376.2, 676.8), None);
        assert_eq!(both(376.2, 390.0).unwrap().severity, Severity::Warn);
    }

    #[test]
    fn the_slower_direction_is_named() {
        assert_eq!(asymmetric(PAIR, Metric::CE_WRITE, 361.03, 391.79), None);
        let finding = asymmetric(PAIR, Metric::CE_WRITE, 26.0, 13.0).unwrap();
        assert_eq!(
            (&finding.subject, finding.severity),
            (&PAIR.back().into(), Severity::Warn)
        );
        assert_eq!(
            asymmetric(PAIR, Metric::CE_WRITE, 13.0, 26.0)
                .unwrap()
                .subject,
            "GPU 0 -> 1"
        );
    }

    #[test]
    fn reads_far_below_the_writes_over_the_same_path_are_named() {
        let reads = |gb_s| slow_reads(PAIR, Metric::CE_READ, gb_s, 25.6);
        assert_eq!([reads(25.3), reads(16.7)], [None, None]);
        let finding = reads(14.1).unwrap();
        assert_eq!(
            (finding.severity, &finding.subject),
            (Severity::Warn, &PAIR.into())
        );
        assert!(
            finding
                .message
                .ends_with("(0.65 of the 25.60 GB/s that writes move over the same path)"),
            "{finding:?}"
        );
    }

    #[test]
    fn scatter_is_information_and_a_warning_when_it_may_affect_a_verdict() {
        let of = |samples: &[f64]| BANDWIDTH.of(samples).unwrap();
        let judged = |m: &Measured| noise(PAIR, Metric::CE_WRITE, &BANDWIDTH, m);
        assert_eq!(judged(&of(&[392.0, 391.0, 392.5])), None);
        assert_eq!(
            judged(&of(&[392.0, 370.0, 380.0])).unwrap().severity,
            Severity::Info
        );
        let wild = judged(&of(&[392.0, 100.0, 250.0, 300.0, 50.0])).unwrap();
        assert_eq!(wild.severity, Severity::Warn);
        assert_eq!(
            wild.evidence,
            ["samples 392.00, 100.00, 250.00, 300.00, 50.00 GB/s"]
        );
        assert!(
            wild.message
                .contains("after 2 repeats, expected at most 2 %"),
            "{}",
            wild.message
        );
    }

    #[test]
    fn a_link_that_stays_narrow_under_load_is_reported() {
        let link = |gts, width| Link {
            gts,
            width,
            max_gts: 16.0,
            max_width: 16,
        };
        let at = bdf("0000:01:00.0");
        assert_eq!(slow_link(0.into(), at, &link(16.0, 16), 16.0, 16), None);
        let finding = slow_link(3.into(), at, &link(16.0, 8), 16.0, 16).unwrap();
        assert_eq!(
            finding.message,
            "GPU 3 (0000:01:00.0): x8 at 16 GT/s under load, expected x16 at 16 GT/s"
        );
        assert_eq!(
            (finding.measured, finding.expected),
            (15.75.into(), 31.51.into())
        );
        assert!(slow_link(0.into(), at, &link(2.5, 16), 16.0, 16).is_some());
    }

    #[test]
    fn host_copies_are_compared_with_the_links_up_to_the_root() {
        let devices = two_gpus();
        let raw = raw_to_host(&Tree::new(&devices), bdf("0000:01:00.0"));
        assert!((raw.unwrap() - 31.5).abs() < 0.1);
        assert_eq!(
            slow_host_copy(0.into(), "from the host", (25.0, None), raw),
            None
        );
        assert_eq!(
            slow_host_copy(0.into(), "from the host", (12.0, None), raw)
                .unwrap()
                .severity,
            Severity::Warn
        );
        assert!(
            slow_host_copy(0.into(), "to the host", (12.0, None), None)
                .unwrap()
                .message
                .contains("is unknown")
        );
        assert_eq!(
            slow_host_copy(1.into(), "to the host", (54.87, None), Some(63.0)),
            None
        );
        // A shared host's memory is busy at times: that is information, and says nothing about the GPU.
        assert_eq!(
            slow_host_copy(1.into(), "from the host", (44.9, Some(44.8)), Some(63.0))
                .unwrap()
                .severity,
            Severity::Info
        );
        assert_eq!(
            slow_host_copy(1.into(), "from the host", (30.0, Some(54.9)), Some(63.0)),
            None
        );
        let slow =
            slow_host_copy(1.into(), "from the host", (30.0, Some(31.0)), Some(63.0)).unwrap();
        assert_eq!(slow.severity, Severity::Warn);
        assert!(
            slow.message
                .contains("30.00 GB/s (31.00 when measured again) from the host"),
            "{slow:?}"
        );
    }
}
