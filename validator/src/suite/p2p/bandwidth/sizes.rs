//! Bandwidth by size, for one pair of each kind of path, and at level full for so many that every GPU sends and receives
//! over each kind of path: from which size on transfers are efficient, and whether one size is slower than its
//! neighbours suggest.

use super::Results;
use super::cells::policy;
use crate::floors::{SizeFigure, expected_by_size, slow_size};
use crate::schedule::Pair;
use crate::suite::TestContext;
use crate::suite::benchmark::{
    Bench, CopyMethod, Flow, GpuPaths, Job, JobFigure, JobResult, kind, rounded, wrong_data,
};
use crate::suite::shared::gpu_fault::fault_finding;
use gpu::PeerAccess;
use outcome::finding::Finding;
use outcome::metric::Metric;
use outcome::table::{BySizeRow, Table};
use report::Level;
use std::collections::BTreeSet;

/// From a page to nvbandwidth's size, each four times the one before.
const SMALLEST: u64 = 4096;
const LARGEST: u64 = 512 << 20;
/// A sample moves about this much: small copies are repeated.
const SAMPLE_BYTES: u64 = 64 << 20;
const MOST_COPIES: u64 = 64;
/// The engines, by their matrix.
const ENGINES: [(Metric, CopyMethod); 2] = [
    (Metric::CE_WRITE, CopyMethod::Ce),
    (Metric::SM_WRITE, CopyMethod::Sm),
];

/// The speed of copies of one size, GB/s, by engine; `None` where the data was wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pair: Pair,
    kind: String,
    bytes: u64,
    gb_s: [Option<f64>; 2],
}

/// Measures all sizes for the chosen pairs that have peer access; sizes that look slow are measured again
/// after all others.
pub(super) fn measure(
    context: &TestContext,
    bench: &Bench<'_>,
    paths: &GpuPaths,
    results: &mut Results,
) -> Result<(), Box<Finding>> {
    let clique = context.clique()?;
    let pairs: Vec<_> = paths.rounds().concat();
    let without_access: Vec<_> = results
        .without_access
        .iter()
        .map(|(pair, _)| *pair)
        .collect();
    let with_access: Vec<_> = pairs
        .into_iter()
        .filter(|p| !without_access.contains(p))
        .collect();
    let chosen = if context.config.validate.level >= Level::Full {
        both_ends_of_each(&with_access, |pair| paths.path_group(pair))
    } else {
        one_of_each(with_access.into_iter(), |pair| kind(&paths.routes, pair))
    };
    for pair in chosen {
        let (Some(a), Some(b)) = (clique.gpu(pair.from), clique.gpu(pair.to)) else {
            continue;
        };
        let _on = PeerAccess::both_ways(a, b).map_err(|e| fault_finding(pair, &e))?;
        let mut rows = Vec::new();
        for bytes in sizes(bench.bytes) {
            let gb_s =
                [0, 1].map(|engine| measure_one(context, bench, (pair, bytes, engine), results));
            let [ce, sm] = gb_s;
            rows.push(Row {
                pair,
                kind: kind(&paths.routes, pair),
                bytes,
                gb_s: [ce?, sm?],
            });
        }
        for engine in [0, 1] {
            let slow = slow(&rows, engine);
            for (size, least) in slow {
                let again = measure_one(context, bench, (pair, size.bytes, engine), results)?;
                if let Some((metric, _)) = ENGINES.get(engine) {
                    results
                        .findings
                        .extend(slow_size(pair, *metric, &size, least, again));
                }
            }
        }
        results.sizes.extend(rows);
    }
    Ok(())
}

/// Measures one size by one engine, GB/s; `None` where the data was wrong, which is a finding.
fn measure_one(
    context: &TestContext,
    bench: &Bench<'_>,
    (pair, bytes, engine): (Pair, u64, usize),
    results: &mut Results,
) -> Result<Option<f64>, Box<Finding>> {
    let Some((metric, method)) = ENGINES.get(engine) else {
        return Ok(None);
    };
    let times = u32::try_from((SAMPLE_BYTES / bytes).clamp(1, MOST_COPIES)).unwrap_or(1);
    let job = Job::new(
        vec![Flow::write(pair, *method, bytes, times)],
        JobFigure::First,
    );
    let taken = bench.sampled(context, &policy(*metric, Level::Standard), &[job])?;
    Ok(match taken.into_iter().next() {
        Some(JobResult::Figures(figures)) => figures.first().map(|f| f.median),
        Some(JobResult::Wrong(flow, checked)) => {
            results.findings.push(wrong_data(&flow, &checked));
            None
        }
        None => None,
    })
}

/// Sizes that are slower than the others suggest, and the expected speed.
fn slow(rows: &[Row], engine: usize) -> Vec<(SizeFigure, f64)> {
    let size = |row: &Row| {
        Some(SizeFigure {
            bytes: row.bytes,
            gb_s: (*row.gb_s.get(engine)?)?,
        })
    };
    let sizes: Vec<_> = rows.iter().filter_map(size).collect();
    let least = expected_by_size(&sizes);
    sizes
        .into_iter()
        .zip(least)
        .filter(|(size, least)| size.gb_s < *least)
        .collect()
}

/// The table of speeds by size, if any was measured.
pub(super) fn by_size(rows: &[Row]) -> Option<Table> {
    let row = |row: &Row| {
        let [copy_engine, kernel] = row.gb_s.map(|gb_s| gb_s.map(rounded));
        BySizeRow {
            pair: row.pair,
            way: row.kind.clone(),
            bytes: row.bytes,
            copy_engine,
            kernel,
        }
    };
    (!rows.is_empty()).then(|| Table::BySize(rows.iter().map(row).collect()))
}

fn sizes(most: u64) -> impl Iterator<Item = u64> {
    let larger = |bytes: &u64| Some(*bytes * 4).filter(|bytes| *bytes <= LARGEST);
    let last = std::iter::successors(Some(SMALLEST), larger).chain([LARGEST]);
    last.filter(move |bytes| *bytes <= most)
}

/// The first pair of each kind of path.
fn one_of_each(pairs: impl Iterator<Item = Pair>, kind: impl Fn(Pair) -> String) -> Vec<Pair> {
    let mut known = Vec::new();
    pairs
        .filter(|pair| {
            let kind = kind(*pair);
            let new = !known.contains(&kind);
            known.push(kind);
            new
        })
        .collect()
}

/// Ordered pairs among `pairs` and their opposite directions, so many that every GPU that sends over one kind of path
/// does so in one of them, and every GPU that receives.
fn both_ends_of_each(pairs: &[Pair], kind: impl Fn(Pair) -> String) -> Vec<Pair> {
    let (mut senders, mut receivers) = (BTreeSet::new(), BTreeSet::new());
    let ordered: Vec<_> = pairs.iter().flat_map(|pair| [*pair, pair.back()]).collect();
    // Pairs with two new ends first: fewer are then needed.
    let mut chosen = Vec::new();
    for ends in [2, 1] {
        for pair in &ordered {
            let (from, to) = ((kind(*pair), pair.from), (kind(*pair), pair.to));
            let new = usize::from(!senders.contains(&from)) + usize::from(!receivers.contains(&to));
            if new >= ends {
                senders.insert(from);
                receivers.insert(to);
                chosen.push(*pair);
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_go_from_a_page_to_the_buffers() {
        let all: Vec<_> = sizes(512 << 20).collect();
        assert_eq!(
            (all.first(), all.last(), all.len()),
            (Some(&4096), Some(&(512 << 20)), 10)
        );
        assert_eq!(sizes(32 << 20).last(), Some(16 << 20));
    }

    #[test]
    fn a_size_below_what_its_neighbours_suggest_is_slow() {
        let row = |n: u32, gb_s| Row {
            pair: Pair::of(0, 1),
            kind: "PIX".to_owned(),
            bytes: 4096 << (2 * n),
            gb_s,
        };
        let speeds = [2.0, 6.5, 14.0, 4.0, 24.0, 25.0];
        let rows: Vec<_> = (0..)
            .zip(speeds)
            .map(|(n, gb_s)| row(n, [Some(gb_s), None]))
            .collect();
        let found: Vec<_> = slow(&rows, 0)
            .into_iter()
            .map(|(size, _)| size.bytes)
            .collect();
        assert_eq!((found, slow(&rows, 1)), (vec![262_144], Vec::new()));
        assert_eq!(by_size(&rows).unwrap().json()["rows"][3][3], 4.0);
        assert_eq!(by_size(&[]), None);
    }

    #[test]
    fn one_pair_represents_its_kind() {
        let pairs = [(0, 1), (0, 2), (1, 2), (2, 3)].map(|(a, b)| Pair::of(a, b));
        let kind = |p: Pair| {
            if p.from == 0 {
                "PIX".into()
            } else {
                "SYS".to_owned()
            }
        };
        assert_eq!(one_of_each(pairs.into_iter(), kind), [pairs[0], pairs[2]]);
    }

    #[test]
    fn at_full_every_gpu_sends_and_receives_over_each_kind_of_path() {
        let pairs: Vec<_> = Pair::all(8).filter(|pair| pair.from < pair.to).collect();
        let kind = |p: Pair| {
            if p.from.index() / 4 == p.to.index() / 4 {
                "NODE".to_owned()
            } else {
                "SYS".to_owned()
            }
        };
        let chosen = both_ends_of_each(&pairs, kind);
        for (of, gpu) in ["NODE", "SYS"]
            .into_iter()
            .flat_map(|of| (0..8).map(move |gpu| (of, gpu)))
        {
            let has = |end: fn(&Pair) -> machine::GpuId| {
                chosen.iter().any(|p| kind(*p) == of && end(p) == gpu)
            };
            assert!(has(|p| p.from) && has(|p| p.to), "{of} {gpu}: {chosen:?}");
        }
        assert!((16..=24).contains(&chosen.len()), "{chosen:?}");
    }
}
