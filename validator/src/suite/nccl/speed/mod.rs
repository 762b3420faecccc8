//! Which rows took too long, compared with the links and with each other, because a fault at one size or one
//! placement does not affect its neighbours. Rows that are too slow are measured again before they count.
//! Pure.

use super::limits::{LARGE, Limits, SCATTER_US, SMALL};
use crate::nccl::{Placement, Row};
use crate::suite::benchmark::rounded;
use gpu::Collective;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::text::size;
use serde_json::Value;
use std::fmt;

/// From this size on a row is compared with its neighbours; below, protocols change from one to the next.
const NEIGHBOURS: u64 = 1 << 20;
/// A call may take at most this many times the time of twice its bytes. Recorded: 1.2 (alltoall of 512 KiB).
const OF_TWICE: f64 = 1.3;
/// Below `LARGE`, where NCCL may change its protocol from one size to the next. Recorded: 1.43 (4 H100, scatter of 1 MiB in
/// each of three measurements: 40 us, and 28 us for 2 MiB).
const OF_TWICE_BELOW_LARGE: f64 = 2.0;
/// From `LARGE` on, twice the bytes may take at most this many times as long. Recorded: 2.4.
const TWICE: f64 = 2.7;
/// One placement may take at most this many times the time of the other. Recorded: 1.15.
const OTHER: f64 = 1.5;
/// Up to this many times its limit a slow row is a warning; the second factor is for rows that only bandwidth
/// limits.
const CLEARLY: f64 = 1.5;
const CLEARLY_OF_BYTES: f64 = 1.11;

/// A row that took too long.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slow {
    pub(super) collective: Collective,
    pub(super) bytes: u64,
    pub(super) placement: Placement,
    /// Its time, us.
    pub(super) us: f64,
    /// Its bus bandwidth, GB/s.
    gb_s: f64,
    /// The time limit, us.
    most_us: f64,
    basis: LimitBasis,
}

/// One placement of one row: the collective and the bytes of the row.
pub(super) type RowPlacement = (Collective, u64, Placement);

/// What the time limit is derived from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LimitBasis {
    /// The links, which allow at least this bus bandwidth, GB/s.
    Links(f64),
    /// Latency.
    Start,
    /// Twice or half its size.
    Neighbour(u64),
    /// The other placement.
    Other,
}

/// All rows that are too slow. `rows` are sweeps of any collectives; those in `alike` are not compared with other rows.
pub(super) fn slow(rows: &[Row], limits: &Limits, alike: &[RowPlacement]) -> Vec<Slow> {
    let of = |collective: &Collective| {
        let own: Vec<_> = rows
            .iter()
            .filter(|r| r.collective == *collective && r.count > 0)
            .collect();
        slow_in_collective(&own, limits, alike)
    };
    Collective::ALL.iter().flat_map(of).collect()
}

fn slow_in_collective(rows: &[&Row], limits: &Limits, alike: &[RowPlacement]) -> Vec<Slow> {
    let both = |row: &&Row| [row.out_of_place.us, row.in_place.us];
    let small = rows.iter().filter(|row| row.bytes <= SMALL);
    let small_us = small
        .flat_map(both)
        .fold(f64::INFINITY, f64::min)
        .min(limits.most_small_us());
    let mut found = Vec::new();
    for row in rows {
        for placement in [Placement::OutOfPlace, Placement::InPlace] {
            let mut compared = compared(row, placement, rows, limits, small_us);
            compared.retain(|slow| {
                !slow.basis.is_other_row() || !alike.contains(&slow.row_placement())
            });
            // Each row once, by the limit that it exceeds most.
            let worst = compared.into_iter().filter(|slow| slow.us > slow.most_us);
            found.extend(worst.max_by(|a, b| a.times().total_cmp(&b.times())));
        }
    }
    found.extend(slow_start(rows, limits));
    found
}

/// A row with each of the limits that apply to it, whether it exceeds them or not.
fn compared(
    row: &Row,
    placement: Placement,
    rows: &[&Row],
    limits: &Limits,
    small_us: f64,
) -> Vec<Slow> {
    let slow = |most_us, basis| Slow {
        most_us,
        basis,
        ..Slow::of(row, placement)
    };
    let links = LimitBasis::Links(limits.least_gb_s(row.collective));
    let basis = if row.bytes >= LARGE {
        links
    } else {
        LimitBasis::Start
    };
    let mut all = vec![slow(limits.most_us(row, small_us), basis)];
    if row.bytes < NEIGHBOURS {
        return all;
    }
    // Where ranks do not divide a size, the next row has a little less than twice its bytes.
    let near = |bytes: u64| rows.iter().find(|r| r.bytes.abs_diff(bytes) <= bytes >> 10);
    if let Some(twice) = near(row.bytes * 2) {
        let times = if row.bytes < LARGE {
            OF_TWICE_BELOW_LARGE
        } else {
            OF_TWICE
        };
        all.push(slow(
            reference_time(twice, placement) * times,
            LimitBasis::Neighbour(twice.bytes),
        ));
    }
    if let Some(half) = near(row.bytes / 2).filter(|half| half.bytes >= LARGE) {
        all.push(slow(
            reference_time(half, placement) * TWICE,
            LimitBasis::Neighbour(half.bytes),
        ));
    }
    let other = match placement {
        Placement::OutOfPlace => Placement::InPlace,
        Placement::InPlace => Placement::OutOfPlace,
    };
    all.push(slow(reference_time(row, other) * OTHER, LimitBasis::Other));
    all
}

/// The quickest of the small calls.
fn slow_start(rows: &[&Row], limits: &Limits) -> Option<Slow> {
    let small = rows.iter().filter(|row| row.bytes <= SMALL);
    let placed = small.flat_map(|row| [(row, Placement::OutOfPlace), (row, Placement::InPlace)]);
    let quickest = placed.map(|(row, placement)| Slow::of(row, placement));
    let quickest = quickest.min_by(|a, b| a.us.total_cmp(&b.us))?;
    let slow = Slow {
        most_us: limits.most_small_us(),
        ..quickest
    };
    (slow.us > slow.most_us).then_some(slow)
}

/// The time that another row is compared with: at least `SCATTER_US`, because shorter times vary too much.
fn reference_time(row: &Row, placement: Placement) -> f64 {
    time(row, placement).max(SCATTER_US)
}

const fn time(row: &Row, placement: Placement) -> f64 {
    match placement {
        Placement::OutOfPlace => row.out_of_place.us,
        Placement::InPlace => row.in_place.us,
    }
}

impl LimitBasis {
    /// Whether the limit is the time of other calls: of another size, or in the other placement.
    const fn is_other_row(self) -> bool {
        matches!(self, Self::Neighbour(_) | Self::Other)
    }
}

impl Slow {
    pub(super) const fn row_placement(&self) -> RowPlacement {
        (self.collective, self.bytes, self.placement)
    }

    /// The sizes to measure, bytes: its own, and the one that it is compared with.
    pub(super) fn sizes(&self) -> Vec<u64> {
        match self.basis {
            LimitBasis::Neighbour(other) => vec![self.bytes, other],
            LimitBasis::Other | LimitBasis::Links(_) | LimitBasis::Start => vec![self.bytes],
        }
    }

    /// A row's figures, without a limit yet.
    fn of(row: &Row, placement: Placement) -> Self {
        let timed = match placement {
            Placement::OutOfPlace => &row.out_of_place,
            Placement::InPlace => &row.in_place,
        };
        Self {
            collective: row.collective,
            bytes: row.bytes,
            placement,
            us: timed.us,
            gb_s: row.busbw(timed),
            most_us: f64::INFINITY,
            basis: LimitBasis::Start,
        }
    }

    /// Its time as a multiple of the limit.
    fn times(&self) -> f64 {
        self.us / self.most_us
    }

    fn severity(&self) -> Severity {
        let clearly = if matches!(self.basis, LimitBasis::Links(_)) {
            CLEARLY_OF_BYTES
        } else {
            CLEARLY
        };
        if self.times() > clearly {
            Severity::Fail
        } else {
            Severity::Warn
        }
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            collective,
            us,
            gb_s,
            most_us,
            ..
        } = self;
        let place = if self.placement == Placement::InPlace {
            "in place"
        } else {
            "out of place"
        };
        let bytes = size(self.bytes);
        write!(
            f,
            "{collective} of {bytes} {place} takes {us:.1} us ({gb_s:.2} GB/s), expected at most {most_us:.1} us"
        )?;
        match self.basis {
            LimitBasis::Links(least) => write!(f, " (the links allow {least:.2} GB/s)"),
            LimitBasis::Start => f.write_str(" (latency)"),
            LimitBasis::Neighbour(bytes) => write!(f, " (from the time of {})", size(bytes)),
            LimitBasis::Other => f.write_str(" (from the other placement)"),
        }
    }
}

/// One finding for each collective: its worst row, with the others as evidence.
pub(super) fn findings(slow: &[Slow], limits: &Limits, arm: &str) -> Vec<Finding> {
    let of = |collective: &Collective| {
        let mut own: Vec<_> = slow
            .iter()
            .filter(|slow| slow.collective == *collective)
            .collect();
        own.sort_by(|a, b| {
            b.severity()
                .cmp(&a.severity())
                .then(b.times().total_cmp(&a.times()))
        });
        let worst = own.first()?;
        let more = if own.len() > 1 {
            format!("; and {} more of this kind", own.len() - 1)
        } else {
            String::new()
        };
        let message = format!("NCCL {arm}: {worst}{more}");
        let finding =
            Code::NcclSlow.finding(worst.severity(), Subject::operation(collective), message);
        let finding = finding.values(rounded(worst.us), rounded(worst.most_us), Some("us"));
        let lines = own.iter().skip(1).map(ToString::to_string).collect();
        Some(finding.seen_all(lines).seen(ring_line(limits)))
    };
    Collective::ALL.iter().filter_map(of).collect()
}

/// The finding that nothing was compared with the links.
pub(super) fn unjudged(rows: &[Row]) -> Finding {
    let best = rows
        .iter()
        .map(|row| row.busbw(&row.out_of_place))
        .fold(0.0, f64::max);
    let message = format!(
        "NCCL reaches {best:.2} GB/s, but the links' speed was not measured for comparison"
    );
    let finding = Code::NcclUnjudged.finding(
        Severity::Warn,
        Subject::operation(Collective::AllReduce),
        message,
    );
    finding.values(rounded(best), Value::Null, Some("GB/s"))
}

fn ring_line(limits: &Limits) -> String {
    let ring = &limits.ring;
    let order: Vec<_> = ring.order.iter().map(ToString::to_string).collect();
    let (order, slowest, (a, b)) = (order.join(" -> "), ring.slowest, ring.edge);
    let most = if ring.most > slowest {
        format!("; no ring has more than {:.2}", ring.most)
    } else {
        String::new()
    };
    format!(
        "best ring by measured speeds: {order}; slowest edge GPU {a} -> {b}, {slowest:.2} GB/s{most}"
    )
}

#[cfg(test)]
mod tests;
