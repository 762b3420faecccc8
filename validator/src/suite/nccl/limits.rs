//! The longest time for a call on healthy links. Large calls are limited by bandwidth: a ring moves data no
//! faster than its slowest edge, so the best ring over the measured speeds between the GPUs is the limit, and
//! each collective reaches its own part of it. Small calls are limited by latency: the processor's time for
//! each GPU, and a few hops. Pure.

use crate::floors::Carrier;
use crate::nccl::{Ring, Row, best_ring};
use gpu::Collective;
use machine::Rank;
use outcome::Matrix;

/// From this size on bandwidth dominates.
pub(super) const LARGE: u64 = 4 << 20;
/// Up to this size only latency matters.
pub(super) const SMALL: u64 = 16 << 10;
/// A call may take this many times the sweep's quickest small call, in addition to the time for its bytes.
/// Recorded: 1.9 (4 H200, all_gather of 256 KiB).
const RAMP: f64 = 2.5;
/// A sweep's quickest small call counts as at least this, us, because the processor's part of a call varies.
/// Recorded: 6 to 36 us for the same call on idle hosts with H200.
pub(super) const SCATTER_US: f64 = 20.0;
/// Calls below this size may take this many times the time for their bytes: pipelines are short then, and
/// below `LARGE` NCCL changes its protocols. Recorded on 8 x 4090: 3.7 (256 KiB), 2.0 (1 MiB), 1.2 (4 MiB),
/// 1.07 (8 MiB).
const SHORT: [(u64, f64); 4] = [
    (1 << 20, 4.0),
    (LARGE, 2.5),
    (8 << 20, 1.4),
    (16 << 20, 1.15),
];
/// The time of a call without data, us: for itself, and for each GPU that the processor starts it on.
/// Recorded: 14 (2 H200), 19 (4 H200) and 38 (8 x 4090); single runs take twice as long.
const START_US: f64 = 15.0;
const START_GPU_US: f64 = 6.0;
/// Below `LARGE` one size may take this many times the limit of the quickest small call, besides the time for its bytes: one
/// thread starts the call on all GPUs, and a communicator keeps the level that it got. Recorded: 0.9 (4 H200: 57 us for 8 B out
/// of place and 58 us for 64 KiB, in each of four measurements, while other calls took less than 20).
const ONE_SMALL: f64 = 1.5;
/// A ring has two hops for each GPU; each may take twice a small copy's time.
const HOPS: f64 = 4.0;
/// Used where no copy's time was measured, us: p2pBandwidthLatencyTest's on H200.
const LATENCY_US: f64 = 2.5;

/// The limits for the rows of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Limits {
    /// The best ring by the measured speeds.
    pub(super) ring: Ring,
    /// The slowest of all pairs, GB/s: an exchange has to use it.
    pair: f64,
    /// Whether the ring's slowest edge is NVLink.
    nvlink: bool,
    ranks: f64,
    /// The time of a small copy between two GPUs, us.
    latency_us: f64,
}

impl Limits {
    /// `None`: the speeds between the GPUs were not measured. `latency`: the time of a small copy, us.
    pub(super) fn of(
        edges: Option<&Matrix>,
        latency: Option<&Matrix>,
        carrier: &dyn Fn(Rank, Rank) -> Carrier,
    ) -> Option<Self> {
        let edges = edges?;
        let ring = best_ring(&edges.values)?;
        let nvlink = matches!(
            carrier(Rank::new(ring.edge.0), Rank::new(ring.edge.1)),
            Carrier::NvLink { .. }
        );
        let pair = pair_values(edges).fold(f64::INFINITY, f64::min);
        let latency_us = latency
            .map(|m| pair_values(m).fold(0.0, f64::max))
            .filter(|us| *us > 0.0);
        let ranks = u32::try_from(edges.values.len()).ok()?.into();
        Some(Self {
            ring,
            pair,
            nvlink,
            ranks,
            latency_us: latency_us.unwrap_or(LATENCY_US),
        })
    }

    /// The bus bandwidth that large calls must reach at least, GB/s.
    pub(super) fn least_gb_s(&self, collective: Collective) -> f64 {
        let edge = if uses_all_pairs(collective) {
            self.pair
        } else {
            self.ring.slowest
        };
        edge * self.reachable_part(collective)
    }

    /// The part of the slowest edge's speed that must be reached. Rings over PCIe were recorded to reach 1.00
    /// (8 x 4090: 20.64 GB/s over an edge of 20.57); an exchange shares the uplinks of switches and sockets. 128
    /// MiB do not saturate NVLink, and NCCL moves data with kernels, which reach less than copy engines.
    /// Recorded: 0.84 and 0.73 (all_reduce on 4 and 2 H200), 0.74 (all_gather, reduce_scatter), 0.86 (broadcast,
    /// reduce), 0.75 (alltoall), and 0.41 (sendrecv, which has few channels to one peer).
    fn reachable_part(&self, collective: Collective) -> f64 {
        const TO_ONE_PEER: f64 = 0.3;
        let peers = self.ranks - 1.0;
        match (collective, self.nvlink) {
            (Collective::AllReduce, true) => 0.65,
            (Collective::AllReduce, false) => 0.85,
            (Collective::Sendrecv, true) => TO_ONE_PEER,
            (Collective::Alltoall | Collective::Gather | Collective::Scatter, true) => {
                (TO_ONE_PEER * peers).min(0.5)
            }
            (Collective::Alltoall, false) => 0.25,
            (Collective::Sendrecv | Collective::Gather | Collective::Scatter, false) => 0.5,
            (_, true) => 0.6,
            (_, false) => 0.7,
        }
    }

    /// The time limit of a row's call, us; `small_us` is the time of the small calls in its sweep.
    pub(super) fn most_us(&self, row: &Row, small_us: f64) -> f64 {
        let mb_s = self.least_gb_s(row.collective) * 1e3;
        let short = SHORT
            .iter()
            .find(|(below, _)| row.bytes < *below)
            .map_or(1.0, |(_, times)| *times);
        let bytes_us = short * bytes_over_edge(row) / mb_s;
        // The cost of filling pipelines grows with their length.
        let pipeline = if row.bytes >= LARGE {
            self.ranks / 4.0
        } else {
            0.0
        };
        let start = (RAMP + pipeline) * small_us.max(SCATTER_US);
        let start = if row.bytes < LARGE {
            start.max(ONE_SMALL * self.most_small_us())
        } else {
            start
        };
        start + bytes_us
    }

    /// The time limit of the quickest small call, us.
    pub(super) fn most_small_us(&self) -> f64 {
        START_US + START_GPU_US * self.ranks + HOPS * (self.ranks - 1.0) * self.latency_us
    }
}

/// Bytes that cross the slowest edge.
#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a buffer are exact in 53 bits"
)]
fn bytes_over_edge(row: &Row) -> f64 {
    row.bytes as f64 * row.collective.bus_factor(row.ranks as u64)
}

/// Whether all pairs communicate, not only neighbours on a ring.
const fn uses_all_pairs(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::Alltoall | Collective::Sendrecv | Collective::Gather | Collective::Scatter
    )
}

/// The values of all pairs of two GPUs.
fn pair_values(matrix: &Matrix) -> impl Iterator<Item = f64> {
    let row = |(a, row): (usize, &Vec<Option<f64>>)| {
        let others = row.iter().enumerate().filter(move |(b, _)| *b != a);
        others.filter_map(|(_, value)| *value).collect::<Vec<_>>()
    };
    matrix.values.iter().enumerate().flat_map(row)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::sweep::tests::row;
    use super::*;
    use machine::pcie::model::PathKind;

    pub(in crate::suite::nccl) const PCI: Carrier = Carrier::Pcie {
        kind: PathKind::Sys,
        raw_gb_s: 31.5,
    };
    pub(in crate::suite::nccl) const NVL: Carrier = Carrier::NvLink {
        links: 18,
        gb_s: 26.5625,
    };

    pub(in crate::suite::nccl) fn edges(gpus: usize, gb_s: f64) -> Matrix {
        let labels: Vec<_> = (0..gpus).map(|n| n.to_string()).collect();
        let cell = |a, b| (a != b).then_some(gb_s);
        let values = (0..gpus)
            .map(|a| (0..gpus).map(|b| cell(a, b)).collect())
            .collect();
        let (name, unit) = ("ce.write".to_owned(), "GB/s".to_owned());
        Matrix {
            name,
            unit,
            rows: labels.clone(),
            columns: labels,
            values,
        }
    }

    pub(in crate::suite::nccl) fn limits(gpus: usize, gb_s: f64, carrier: Carrier) -> Limits {
        Limits::of(Some(&edges(gpus, gb_s)), None, &move |_, _| carrier).unwrap()
    }

    #[test]
    fn without_link_speeds_there_are_no_limits() {
        assert_eq!(Limits::of(None, None, &|_, _| PCI), None);
        let mut one = edges(4, 20.0);
        one.values[1][2] = None;
        assert_eq!(Limits::of(Some(&one), None, &|_, _| PCI), None);
    }

    #[test]
    fn a_calls_limit_is_its_start_plus_its_bytes() {
        let limits = limits(4, 400.0, NVL);
        // 128 MiB: 1.5 times the time of its bytes at 260 GB/s, plus 3.5 small calls.
        let large = limits.most_us(&row(128 << 20, 0.0, 0), 20.0);
        assert!((large - (70.0 + 774.3)).abs() < 1.0, "{large}");
        let small = limits.most_us(&row(8, 0.0, 0), 20.0);
        assert!((small - 103.5).abs() < 0.1, "{small}");
        let middle = limits.most_us(&row(32 << 10, 0.0, 0), 20.0);
        assert!((middle - 104.3).abs() < 0.1, "{middle}");
        assert!((limits.most_small_us() - 69.0).abs() < 0.1);
    }

    #[test]
    fn an_exchange_is_compared_with_the_slowest_pair_and_two_gpus_have_one_peer() {
        let mut uneven = edges(4, 400.0);
        uneven.values[0][2] = Some(100.0);
        let limits = Limits::of(Some(&uneven), None, &|_, _| NVL).unwrap();
        assert_eq!(limits.least_gb_s(Collective::Alltoall), 50.0);
        assert_eq!(limits.least_gb_s(Collective::AllGather), 240.0);
        assert_eq!(
            super::tests::limits(2, 400.0, NVL).least_gb_s(Collective::Alltoall),
            120.0
        );
    }
}
