//! One ordered pair's figures: its speed against its floors, copies that are staged through host memory
//! although peer access is on, its latency, and a direction that is slower than the other.

use super::{Carrier, Floor, Grade, Mover, rounded};
use crate::schedule::Pair;
use outcome::finding::{Code, Finding, Reason, Severity};
use outcome::metric::Metric;
use outcome::text::names::name_in_sentence;

/// Staged copies are as fast as with peer access off: within 3 %.
const ALIKE: f64 = 0.03;
/// Below this many times one direction, both directions at once indicate staging: on record 1.08 where copies
/// are staged, 1.5 and more where they are not.
const ONE_WAY: f64 = 1.2;
/// A 16-byte direct copy to the peer: on record 1.2 to 2.7 us.
const STRAIGHT_US: f64 = 3.0;
/// A 16-byte copy through host memory: on record 11 to 20 us.
const STAGED_US: f64 = 8.0;
/// Below this fraction of the faster direction the slower one is reported. On healthy machines the widest
/// difference on record is 0.92 (a pair measured cold).
const ASYMMETRIC: f64 = 0.85;
/// Below this fraction of the writes over the same path reads are reported. On record 0.94 and more (H200, 4090); reads
/// wait for answers, and some root complexes answer more slowly.
const READS: f64 = 0.65;

/// The figures of one ordered pair, with peer access on unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairFigures {
    /// The sender and the receiver.
    pub pair: Pair,
    /// The carrier.
    pub carrier: Carrier,
    /// One direction alone, GB/s.
    pub one_way: f64,
    /// The other direction alone, GB/s, if it was measured.
    pub back: Option<f64>,
    /// The same with peer access off, if it was measured.
    pub off: Option<f64>,
    /// The sum of both directions at once, GB/s, if it was measured.
    pub both_ways: Option<f64>,
    /// The time of a 16-byte copy by the GPU's clock, us, if it was measured.
    pub latency_us: Option<f64>,
}

/// All findings about the speed of one ordered pair; `least`: `expect.min_p2p_gb_s`. Latency and asymmetry
/// have separate functions, because other tests measure them.
#[must_use]
pub fn pair_findings(figures: &PairFigures, least: Option<f64>) -> Vec<Finding> {
    if is_staged(figures) {
        return vec![staged(figures)];
    }
    one_way(figures, least)
        .into_iter()
        .chain(both_ways(figures))
        .collect()
}

/// The signature of copies through host memory: as fast as with peer access off and with a high latency, or
/// both directions at once little faster than one. A pair with the latency of a direct copy is not staged,
/// however slow it is.
#[must_use]
pub fn is_staged(figures: &PairFigures) -> bool {
    let answers = |is: fn(f64) -> bool| figures.latency_us.is_some_and(is);
    let alike = figures
        .off
        .is_some_and(|off| (figures.one_way - off).abs() <= off * ALIKE);
    // A slow partner makes both at once slow, too.
    let slower = figures
        .back
        .map_or(figures.one_way, |back| back.min(figures.one_way));
    let ratio = figures.both_ways.map(|both| both / slower);
    let one_at_a_time = ratio.is_some_and(|ratio| ratio < ONE_WAY);
    (alike && answers(|us| us > STAGED_US)) || (one_at_a_time && !answers(|us| us <= STRAIGHT_US))
}

fn staged(figures: &PairFigures) -> Finding {
    let PairFigures { pair, one_way, .. } = figures;
    let mut seen = Vec::new();
    seen.extend(
        figures
            .off
            .map(|off| format!("{off:.2} GB/s with peer access off")),
    );
    seen.extend(
        figures
            .both_ways
            .map(|both| format!("{both:.2} GB/s in both directions at once")),
    );
    seen.extend(
        figures
            .latency_us
            .map(|us| format!("16 bytes take {us:.2} us")),
    );
    let floor = figures.carrier.floor(Mover::WRITES);
    let expected = floor
        .as_ref()
        .map(|f| format!(", expected at least {:.2} GB/s", f.least));
    let message = format!(
        "{pair}: {one_way:.2} GB/s{}: copied through host memory, not directly to the peer",
        expected.unwrap_or_default()
    );
    Code::P2pStaged
        .finding(Severity::Fail, pair, message)
        .values(
            rounded(*one_way),
            floor.map(|f| rounded(f.least)),
            Some("GB/s"),
        )
        .seen_all(seen)
}

fn one_way(figures: &PairFigures, least: Option<f64>) -> Option<Finding> {
    let PairFigures {
        pair,
        one_way,
        carrier,
        ..
    } = figures;
    let asked = least.map(|least| Floor {
        least,
        because: "expect.min_p2p_gb_s".to_owned(),
    });
    // A configured floor has no margin.
    let asked = asked.filter(|floor| floor.grade(*one_way) != Grade::Good);
    let floor = match (asked, carrier.floor(Mover::WRITES)) {
        (Some(asked), Some(floor))
            if floor.grade(*one_way) == Grade::Bad && floor.least > asked.least =>
        {
            return Some(slow(*pair, *one_way, &floor, Severity::Fail));
        }
        (Some(asked), _) => return Some(slow(*pair, *one_way, &asked, Severity::Fail)),
        (None, Some(floor)) => floor,
        (None, None) if least.is_some() => return None,
        (None, None) => return Some(unknown(*pair, *one_way)),
    };
    let severity = match floor.grade(*one_way) {
        Grade::Good => return None,
        Grade::Low => Severity::Warn,
        Grade::Bad => Severity::Fail,
    };
    Some(slow(*pair, *one_way, &floor, severity))
}

fn slow(pair: Pair, gb_s: f64, floor: &Floor, severity: Severity) -> Finding {
    let Floor { least, because } = floor;
    let message = format!("{pair}: {gb_s:.2} GB/s, expected at least {least:.2} GB/s ({because})");
    Code::P2pSlow.finding(severity, pair, message).values(
        rounded(gb_s),
        rounded(*least),
        Some("GB/s"),
    )
}

fn unknown(pair: Pair, gb_s: f64) -> Finding {
    let message = format!("{pair}: {gb_s:.2} GB/s, but what its path can carry is unknown");
    Code::P2pSlow
        .finding(Severity::Error, pair, message)
        .values(rounded(gb_s), serde_json::Value::Null, Some("GB/s"))
        .because(Reason::LinkSpeedUnknown)
}

/// The speed of one direction alone of which both directions at once must be a multiple: that of the slower direction.
/// `None` if the other direction alone is too slow: then both at once say nothing about this direction.
#[must_use]
pub fn basis_of_both(
    carrier: &Carrier,
    mover: Mover,
    one_way: f64,
    back: Option<f64>,
) -> Option<f64> {
    let Some(back) = back else {
        return Some(one_way);
    };
    let below = carrier
        .floor(mover)
        .is_some_and(|floor| floor.grade(back) != Grade::Good);
    (!below && back >= one_way * ASYMMETRIC).then_some(one_way.min(back))
}

fn both_ways(figures: &PairFigures) -> Option<Finding> {
    let PairFigures {
        pair,
        one_way,
        carrier,
        back,
        ..
    } = figures;
    let both = figures.both_ways?;
    let alone = basis_of_both(carrier, Mover::WRITES, *one_way, *back)?;
    let floor = carrier.both_ways(Mover::WRITES);
    let severity = match floor.grade(both / alone) {
        Grade::Good => return None,
        Grade::Low => Severity::Warn,
        Grade::Bad => Severity::Fail,
    };
    let least = floor.least * alone;
    let message = format!(
        "{pair}: {both:.2} GB/s in both directions at once, expected at least {least:.2} GB/s ({}, \
         {alone:.2} GB/s)",
        floor.because
    );
    Some(Code::P2pSlow.finding(severity, pair, message).values(
        rounded(both),
        rounded(least),
        Some("GB/s"),
    ))
}

/// Reads of the copy engine and speeds of kernels, one direction alone (`both` false) or both at once as a
/// multiple of `one`. `what`: the matrix.
#[must_use]
pub fn slow_mover(
    pair: Pair,
    what: Metric,
    mover: Mover,
    carrier: &Carrier,
    (gb_s, one): (f64, Option<f64>),
) -> Option<Finding> {
    let floor = match one {
        None => carrier.floor(mover)?,
        Some(one) => {
            let floor = carrier.both_ways(mover);
            Floor {
                least: floor.least * one,
                because: format!("{}, {one:.2} GB/s", floor.because),
            }
        }
    };
    // Reads over PCIe differ between root complexes; a figure below half of their floor is a fault anyway.
    let lenient = mover.read && !carrier.is_nvlink();
    let severity = match floor.grade(gb_s) {
        Grade::Good => return None,
        Grade::Low => Severity::Warn,
        Grade::Bad if one.is_some() || (lenient && gb_s >= floor.least / 2.0) => Severity::Warn,
        Grade::Bad => Severity::Fail,
    };
    let Floor { least, because } = floor;
    let name = name_in_sentence(what.name());
    let message =
        format!("{pair}: {name}: {gb_s:.2} GB/s, expected at least {least:.2} GB/s ({because})");
    Some(Code::P2pSlow.finding(severity, pair, message).values(
        rounded(gb_s),
        rounded(least),
        Some("GB/s"),
    ))
}

/// Reads against the writes that move data over the same path in the same direction, both in GB/s. `reader`: the reading
/// GPU and the one whose memory it reads; `what`: the matrix of the reads.
#[must_use]
pub fn slow_reads(reader: Pair, what: Metric, reads: f64, writes: f64) -> Option<Finding> {
    let least = writes * READS;
    if reads >= least {
        return None;
    }
    let name = name_in_sentence(what.name());
    let message = format!(
        "{reader}: {name}: {reads:.2} GB/s, expected at least {least:.2} GB/s ({READS} of the {writes:.2} GB/s that \
         writes move over the same path)"
    );
    let finding = Code::P2pSlow.finding(Severity::Warn, reader, message);
    Some(finding.values(rounded(reads), rounded(least), Some("GB/s")))
}

/// One direction against the other; `pair` is the one that moved `there` GB/s.
#[must_use]
pub fn asymmetric(pair: Pair, what: Metric, there: f64, back: f64) -> Option<Finding> {
    let (slower, slow, fast) = if there <= back {
        (pair, there, back)
    } else {
        (pair.back(), back, there)
    };
    let least = fast * ASYMMETRIC;
    if slow >= least {
        return None;
    }
    let name = name_in_sentence(what.name());
    let message = format!(
        "{slower}: {name}: {slow:.2} GB/s, expected at least {least:.2} GB/s ({ASYMMETRIC} of the {fast:.2} GB/s \
         of the other direction)"
    );
    let finding = Code::P2pAsymmetric.finding(Severity::Warn, slower, message);
    Some(finding.values(rounded(slow), rounded(least), Some("GB/s")))
}
