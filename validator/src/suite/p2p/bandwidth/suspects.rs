//! Faults in the speeds of pairs, each with the figures that it is based on, which are measured again before the
//! fault counts. Pure.

use super::Basis;
use super::{LATENCY_CELL, Results};
use crate::floors::{
    Carrier, Mover, PairFigures, PathFigure, asymmetric, basis_of_both, below_all_others,
    contradicted_link, impossible_speed, near_no_faster, outliers, pair_findings, slow_mover,
    slow_reads,
};
use crate::schedule::Pair;
use outcome::finding::Finding;
use outcome::metric::{self, Direction, Metric};

/// A finding, and the figures that it is based on: the matrix, and the pair in it.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) cells: Vec<(Metric, Pair)>,
    pub(super) finding: Finding,
}

impl Suspect {
    fn of(cells: &[(Metric, Pair)], finding: Finding) -> Self {
        Self {
            cells: cells.to_vec(),
            finding,
        }
    }
}

/// The metrics besides those of [`PairFigures`] that have a floor of their own. The row's GPU acts.
const WITH_FLOOR: [Metric; 7] = [
    Metric::SAMPLE_UNI_ON,
    Metric::CE_READ,
    Metric::SM_WRITE,
    Metric::SM_READ,
    Metric::CE_BI_READ,
    Metric::SM_BI_WRITE,
    Metric::SM_BI_READ,
];

/// How the data of a metric with peer access is moved. The sample program has the copy engines write.
const fn mover(metric: Metric) -> Mover {
    match metric {
        Metric::Copy {
            mover, direction, ..
        } => Mover {
            kernel: matches!(mover, metric::Mover::Kernel),
            read: matches!(direction, Direction::Read),
        },
        _ => Mover::WRITES,
    }
}

/// The metrics whose figures between two GPUs with peer access are the speed of the links.
fn of_links() -> impl Iterator<Item = Metric> {
    Metric::all().filter(|metric| {
        matches!(
            metric,
            Metric::Sample { access: true, .. } | Metric::Copy { .. }
        )
    })
}

const fn both_ways(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Sample {
            both_ways: true,
            ..
        } | Metric::Copy {
            both_ways: true,
            ..
        }
    )
}

/// All faults, each with the figures that it is based on.
pub(super) fn suspects(results: &Results, basis: &Basis<'_>) -> Vec<Suspect> {
    let pairs: Vec<_> = basis.pairs().filter(|pair| pair.from != pair.to).collect();
    let mut all: Vec<_> = pairs
        .iter()
        .flat_map(|pair| above_ceiling(results, basis, *pair))
        .collect();
    all.extend(
        pairs
            .iter()
            .flat_map(|pair| below_floor(results, basis, *pair)),
    );
    all.extend(
        pairs
            .iter()
            .filter(|p| p.from < p.to)
            .flat_map(|pair| asymmetric_engines(results, *pair)),
    );
    all.extend(
        pairs
            .iter()
            .flat_map(|pair| slow_engines(results, basis, *pair)),
    );
    let known: Vec<_> = all
        .iter()
        .flat_map(|suspect| suspect.cells.clone())
        .collect();
    // If one direction alone is slow, both at once are too, which is no fault of the other direction.
    let explained = |(metric, pair): &(Metric, Pair)| {
        let alone = metric.one_way();
        known.contains(&(*metric, *pair))
            || alone.is_some_and(|alone| known.contains(&(alone, pair.back())))
    };
    // The sample program's copies in both directions overlap by chance.
    let compared = of_links().filter(|metric| *metric != Metric::SAMPLE_BI_ON);
    let outliers_found = compared.flat_map(|metric| group_outliers(results, basis, metric));
    all.extend(outliers_found.filter(|suspect| !suspect.cells.iter().any(explained)));
    // What remains is compared with other figures of the machine, and repeats no finding about the same figure.
    let reads = pairs
        .iter()
        .flat_map(|pair| reads_below_writes(results, *pair));
    let compared = of_links().filter(|metric| *metric != Metric::SAMPLE_BI_ON);
    let below_others = compared.flat_map(|metric| slower_than_all_others(results, basis, metric));
    let more: Vec<_> = reads
        .chain(below_others)
        .chain(slow_near_pairs(results, basis))
        .collect();
    for suspect in more {
        let known: Vec<_> = all
            .iter()
            .flat_map(|suspect| suspect.cells.clone())
            .collect();
        let said = |(metric, pair): &(Metric, Pair)| {
            let alone = metric.one_way();
            known.contains(&(*metric, *pair))
                || alone.is_some_and(|alone| known.contains(&(alone, pair.back())))
        };
        if !suspect.cells.iter().any(said) {
            all.push(suspect);
        }
    }
    all
}

/// What carries a pair's data. If the links carry more than they report, the report is not used for the floor.
fn carrier(results: &Results, basis: &Basis<'_>, pair: Pair) -> Carrier {
    let carrier = (basis.carrier)(pair);
    let moved = results
        .grid
        .get(Metric::CE_WRITE, pair)
        .or_else(|| results.grid.get(Metric::CE_WRITE, pair.back()));
    let own = (basis.own)(pair).or_else(|| (basis.ceiling)(pair));
    match (carrier.raw(), moved, own) {
        (Some(raw), Some(moved), Some(own)) if moved > raw && own > raw => carrier.with_raw(own),
        _ => carrier,
    }
}

/// Figures above what the links can carry.
fn above_ceiling(results: &Results, basis: &Basis<'_>, pair: Pair) -> Vec<Suspect> {
    let most = (basis.ceiling)(pair);
    // No figure may exceed what the links carry, or twice that in both directions.
    let above = |metric: Metric| {
        let most = most.map(|most| if both_ways(metric) { most * 2.0 } else { most });
        let finding = impossible_speed(pair, metric, results.grid.get(metric, pair)?, most)?;
        Some(Suspect::of(&[(metric, pair)], finding))
    };
    let mut all: Vec<_> = of_links().filter_map(above).collect();
    if all.is_empty() {
        let moved = results.grid.get(Metric::CE_WRITE, pair);
        let contradiction = moved.and_then(|moved| {
            contradicted_link(pair, moved, (basis.carrier)(pair).raw(), (basis.own)(pair))
        });
        all.extend(contradiction.map(|finding| Suspect::of(&[], finding)));
    }
    all
}

/// Compares the copy engine's writes with the capability of the links. Pairs without a figure have another finding.
fn below_floor(results: &Results, basis: &Basis<'_>, pair: Pair) -> Vec<Suspect> {
    let figure = |metric| results.grid.get(metric, pair);
    let Some(one_way) = figure(Metric::CE_WRITE) else {
        return Vec::new();
    };
    let figures = PairFigures {
        pair,
        carrier: carrier(results, basis, pair),
        one_way,
        back: results.grid.get(Metric::CE_WRITE, pair.back()),
        off: figure(Metric::SAMPLE_UNI_OFF),
        both_ways: figure(Metric::CE_BI_WRITE),
        latency_us: results.latency.get(LATENCY_CELL, pair),
    };
    let cells = [
        (Metric::CE_WRITE, pair),
        (Metric::CE_BI_WRITE, pair),
        (LATENCY_CELL, pair),
    ];
    pair_findings(&figures, basis.least)
        .into_iter()
        .map(|finding| Suspect::of(&cells, finding))
        .collect()
}

/// Compares each engine's speed in one direction with the opposite direction: the path is the same. If the copy
/// engine's writes already show the fault, the others would only repeat it.
fn asymmetric_engines(results: &Results, pair: Pair) -> Vec<Suspect> {
    let compare = |metric: Metric| {
        let figure = |pair| results.grid.get(metric, pair);
        let finding = asymmetric(pair, metric, figure(pair)?, figure(pair.back())?)?;
        Some(Suspect::of(
            &[(metric, pair), (metric, pair.back())],
            finding,
        ))
    };
    let writes = compare(Metric::CE_WRITE);
    if writes.is_some() {
        return writes.into_iter().collect();
    }
    of_links()
        .filter(|metric| !both_ways(*metric))
        .filter_map(compare)
        .collect()
}

/// Compares every other engine and direction with its own floor; staged pairs are reported by their writes.
fn slow_engines(results: &Results, basis: &Basis<'_>, pair: Pair) -> Vec<Suspect> {
    let carrier = carrier(results, basis, pair);
    let low = |metric: Metric| {
        let gb_s = results.grid.get(metric, pair)?;
        let by = mover(metric);
        let basis = match metric.one_way() {
            None => None,
            Some(alone) => {
                let (one_way, back) = (
                    results.grid.get(alone, pair)?,
                    results.grid.get(alone, pair.back()),
                );
                Some(basis_of_both(&carrier, by, one_way, back)?)
            }
        };
        let finding = slow_mover(pair, metric, by, &carrier, (gb_s, basis))?;
        Some(Suspect::of(&[(metric, pair)], finding))
    };
    WITH_FLOOR.into_iter().filter_map(low).collect()
}

fn group_outliers(results: &Results, basis: &Basis<'_>, metric: Metric) -> Vec<Suspect> {
    let all = results
        .grid
        .all(metric)
        .filter(|(pair, _)| pair.from != pair.to);
    let all: Vec<_> = all
        .map(|(pair, gb_s)| (pair, gb_s, (basis.path_group)(pair)))
        .collect();
    let suspect = |(pair, finding)| Suspect::of(&[(metric, pair)], finding);
    outliers(metric, &all).into_iter().map(suspect).collect()
}

/// The group's pairs whose links carry the same: a narrow slot makes no pair slower than its like.
fn slower_than_all_others(results: &Results, basis: &Basis<'_>, metric: Metric) -> Vec<Suspect> {
    let all = results
        .grid
        .all(metric)
        .filter(|(pair, _)| pair.from != pair.to);
    let like = |pair| {
        format!(
            "{} {:?}",
            (basis.path_group)(pair),
            carrier(results, basis, pair).raw()
        )
    };
    let all: Vec<_> = all.map(|(pair, gb_s)| (pair, gb_s, like(pair))).collect();
    let suspect = |(pair, finding)| Suspect::of(&[(metric, pair)], finding);
    below_all_others(metric, &all)
        .into_iter()
        .map(suspect)
        .collect()
}

/// The reads by `reader.from` of the memory of `reader.to`, by each engine, against that engine's writes in the same
/// direction.
fn reads_below_writes(results: &Results, reader: Pair) -> Vec<Suspect> {
    let engines = [
        (Metric::CE_READ, Metric::CE_WRITE),
        (Metric::SM_READ, Metric::SM_WRITE),
    ];
    let compare = |(read, write): (Metric, Metric)| {
        let (reads, writes) = (
            results.grid.get(read, reader)?,
            results.grid.get(write, reader.back())?,
        );
        let finding = slow_reads(reader, read, reads, writes)?;
        Some(Suspect::of(
            &[(read, reader), (write, reader.back())],
            finding,
        ))
    };
    engines.into_iter().filter_map(compare).collect()
}

/// Near pairs against pairs farther apart, by the copy engines' writes.
fn slow_near_pairs(results: &Results, basis: &Basis<'_>) -> Vec<Suspect> {
    let figure = |(pair, gb_s): (Pair, f64)| {
        Some(PathFigure {
            pair,
            distance: (basis.distance)(pair)?,
            gb_s,
            raw: carrier(results, basis, pair).raw()?,
        })
    };
    let all = results
        .grid
        .all(Metric::CE_WRITE)
        .filter(|(pair, _)| pair.from != pair.to);
    let all: Vec<_> = all.filter_map(figure).collect();
    let suspect = |(pairs, finding): (Vec<Pair>, Finding)| Suspect {
        cells: pairs
            .into_iter()
            .map(|pair| (Metric::CE_WRITE, pair))
            .collect(),
        finding,
    };
    near_no_faster(&all).into_iter().map(suspect).collect()
}
