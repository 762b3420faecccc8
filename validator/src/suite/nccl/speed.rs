//! How fast all reduce may be expected to be: a ring moves data no faster than its slowest edge, so the best
//! ring over the measured speeds between the GPUs is the limit. Pure.

use crate::collective::{Ring, Row, best_ring, gain};
use crate::finding::{Code, Finding, Severity};
use crate::judge::Carrier;
use crate::report::Matrix;
use crate::schedule::Pair;
use crate::suite::speed::rounded;
use serde_json::Value;

/// Only rows of so many bytes and more are held against the links: smaller ones are made of latency.
const LARGE: u64 = 32 << 20;
/// The part of the slowest edge that must come out where the ring crosses PCIe. On record 1.00: 8 x 4090
/// with 20.64 GB/s over an edge of 20.57.
const PCIE: f64 = 0.85;
/// The same over NVLink, where 128 MiB is too little to reach the links' rate, and kernels, which NCCL moves
/// data with, reach less than copy engines. On record 0.84 (4 H200, 328.8 of 392 GB/s) and 0.73 (2 H200,
/// 284.8 of 389).
const NVLINK: f64 = 0.65;
/// Below the floor, but by less than a tenth: a warning.
const MARGIN: f64 = 0.9;

/// What came out, against the links.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Speed {
    /// The best of the large rows, GB/s of bus bandwidth.
    pub(super) busbw: f64,
    /// Its size.
    pub(super) bytes: u64,
    /// The best ring, where the speeds between the GPUs are known.
    pub(super) ring: Option<Ring>,
}

/// The best of the large rows, whichever way it was placed; `None` without any.
pub(super) fn of(rows: &[Row], edges: Option<&Matrix>) -> Option<Speed> {
    let large = rows.iter().filter(|row| row.bytes >= LARGE);
    let placed = large.flat_map(|row| [(row, &row.out_of_place), (row, &row.in_place)]);
    let best = placed.map(|(row, timed)| (row.busbw(timed), row.bytes)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let ring = edges.and_then(|matrix| best_ring(&matrix.values));
    Some(Speed { busbw: best.0, bytes: best.1, ring })
}

/// What is wrong with the speed.
pub(super) fn judge(speed: &Speed, carrier: &dyn Fn(Pair) -> Carrier) -> Option<Finding> {
    let Speed { busbw, bytes: size, ring } = speed;
    let Some(ring) = ring else {
        let message =
            format!("all_reduce reaches {busbw:.2} GB/s, and what the links allow was not measured");
        let finding = Code::NcclUnjudged.finding(Severity::Warn, "all_reduce", message);
        return Some(finding.values(rounded(*busbw), Value::Null, Some("GB/s")));
    };
    let nvlink = matches!(carrier(Pair::new(ring.edge.0, ring.edge.1)), Carrier::NvLink { .. });
    let part = if nvlink { NVLINK } else { PCIE };
    let least = ring.slowest * part;
    if *busbw >= least {
        return None;
    }
    let severity = if *busbw >= least * MARGIN { Severity::Warn } else { Severity::Fail };
    let message = format!(
        "all_reduce of {} reaches {busbw:.2} GB/s of bus bandwidth, expected at least {least:.2} GB/s ({part} of \
         the {:.2} GB/s of GPU {} -> {}, the slowest edge of the best ring)",
        gain::size(*size),
        ring.slowest,
        ring.edge.0,
        ring.edge.1
    );
    let finding = Code::NcclSlow.finding(severity, "all_reduce", message);
    Some(finding.values(rounded(*busbw), rounded(least), Some("GB/s")).seen(told(ring)))
}

fn told(ring: &Ring) -> String {
    let order: Vec<_> = ring.order.iter().map(ToString::to_string).collect();
    format!("best ring by measured speeds: {}", order.join(" -> "))
}

#[cfg(test)]
mod tests {
    use super::super::sweep::tests::row;
    use super::*;
    use crate::pcie::model::PathKind;

    fn edges(gb_s: f64) -> Matrix {
        let labels: Vec<_> = (0..4).map(|n| n.to_string()).collect();
        let cell = |a, b| (a != b).then_some(gb_s);
        let values = (0..4).map(|a| (0..4).map(|b| cell(a, b)).collect()).collect();
        Matrix {
            name: "ce.write".to_owned(),
            unit: "GB/s".to_owned(),
            rows: labels.clone(),
            columns: labels,
            values,
        }
    }

    fn found(busbw: f64, edge: f64, carrier: Carrier) -> Option<Finding> {
        let us = 1.5 * 134_217_728.0 / 1e3 / busbw;
        let speed = of(&[row(8, 20.0, 0), row(134_217_728, us, 0)], Some(&edges(edge))).unwrap();
        judge(&speed, &move |_| carrier)
    }

    const PCI: Carrier = Carrier::Pcie { kind: PathKind::Sys, raw_gb_s: 31.5 };
    const NVL: Carrier = Carrier::NvLink { links: 18, gb_s: 26.5625 };

    #[test]
    fn what_machines_on_record_reach_passes() {
        assert_eq!(found(20.64, 20.57, PCI), None);
        assert_eq!(found(328.8, 392.0, NVL), None);
        assert_eq!(found(284.8, 389.0, NVL), None);
    }

    #[test]
    fn less_than_the_ring_carries_is_told_with_its_edge() {
        let slow = found(14.45, 20.57, PCI).unwrap();
        assert!(slow.is(Code::NcclSlow) && slow.severity == Severity::Fail, "{slow:?}");
        assert!(slow.message.contains("of 128 MiB reaches 14.45 GB/s"), "{}", slow.message);
        assert!(slow.evidence[0].starts_with("best ring by measured speeds: 0 -> "), "{:?}", slow.evidence);
        assert_eq!(found(17.0, 20.57, PCI).unwrap().severity, Severity::Warn);
    }

    #[test]
    fn without_the_links_speeds_nothing_is_judged_and_that_is_told() {
        let speed = of(&[row(134_217_728, 600.0, 0)], None).unwrap();
        let found = judge(&speed, &|_| PCI).unwrap();
        assert!(found.is(Code::NcclUnjudged) && found.severity == Severity::Warn);
    }

    #[test]
    fn small_rows_say_nothing_of_speed() {
        assert_eq!(of(&[row(8, 20.0, 0)], None), None);
    }
}
