//! The measurements over NCCL's communicators: all sizes of a collective, all rails at the same time, and the pairs of
//! nodes round by round.

use super::arm::{Ask, Groups};
use super::blame::{Got, Measure, Round};
use super::cluster::{Cluster, Heard};
use super::judge::{ended, wrong};
use super::order::{Order, Reply};
use super::watcher::Watcher;
use crate::gpu::Collective;
use crate::machine::Rank;
use crate::machine::host::rdma::Counted;
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::nccl::{Row, Sweep};
use crate::outcome::finding::{Code, Finding, Severity};
use std::time::{Duration, Instant};

/// The time limits of a start: of all nodes for the first time, and of two nodes, or of all once they have started before.
pub(super) const START: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_secs(45);
/// The time limits up to which a size is measured: the next size of the sweep, and the largest that memory allows.
const SLOWEST: Duration = Duration::from_secs(4);
const LARGEST: Duration = Duration::from_secs(8);

/// All sizes from 8 B on, as long as each takes at most a few seconds; then the largest that memory allows.
pub(super) fn sweep(
    groups: &mut Groups<'_>,
    collective: Collective,
    rows: &mut Vec<Row>,
    watcher: &mut dyn Watcher,
) {
    let sweep = Sweep { iterations: 5, ..Sweep::standard(collective) };
    if let Some(group) = groups.groups.first().filter(|group| group.stop.is_none()) {
        watcher.head(groups.cluster(), group, &sweep);
    }
    let begun = rows.len();
    let Ok(sizes) = sweep.sizes() else { return };
    let mut last = Duration::ZERO;
    let mut reached = 0;
    for bytes in sizes {
        if last * 2 > SLOWEST {
            break;
        }
        let started = Instant::now();
        let Some(row) = one(groups, &RowAsk::of(&sweep, bytes, Rank::FIRST)) else { return };
        last = started.elapsed();
        watcher.row(&row);
        (reached, _) = (bytes, rows.push(row));
    }
    let room = groups.groups.first().map_or(0, |group| group.room);
    // It has one timed call and one warm-up call, where a row of the sweep has five and one.
    let per_byte = last.as_secs_f64() / 3.0 / as_f64(reached.max(1));
    let mut bytes = prev_power_of_two(room);
    while bytes > reached && per_byte * as_f64(bytes) > LARGEST.as_secs_f64() {
        bytes /= 2;
    }
    if bytes > reached {
        let largest = RowAsk { iterations: 1, ..RowAsk::of(&sweep, bytes, Rank::FIRST) };
        let Some(row) = one(groups, &largest) else { return };
        watcher.row(&row);
        rows.push(row);
    }
    watcher.tail(collective, rows.get(begun..).unwrap_or_default());
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a buffer are exact in 53 bits")]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

fn prev_power_of_two(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// A row of the only communicator.
pub(super) fn one(groups: &mut Groups<'_>, ask: &RowAsk) -> Option<Row> {
    groups.row(ask).pop().flatten()
}

/// The counters of all nodes' RDMA ports.
pub(super) type Counts = Vec<Vec<Counted>>;

/// The time limit for reading counters.
const COUNTING: Duration = Duration::from_secs(10);

/// Reads the counters of all nodes' ports, in the order of nodes and rails.
///
/// # Errors
/// One line: the first node whose counters could not be read.
pub(super) fn counts(cluster: &mut Cluster) -> Result<Counts, String> {
    counts_of(cluster, &|_| true).into_iter().map(|(_, counted)| counted).collect()
}

/// The same for some nodes, each with its counters or the error of reading them.
pub(super) fn counts_of(
    cluster: &mut Cluster,
    wanted: &dyn Fn(usize) -> bool,
) -> Vec<(usize, Result<Vec<Counted>, String>)> {
    let heard = cluster.ask(|node| wanted(node).then_some(Order::Count), COUNTING, false);
    let one = |(node, heard): (usize, Heard)| {
        let named = |why: String| format!("node {}: {why}", cluster.name(node));
        let counted = match heard {
            Heard::Reply(Reply::Counted(counted)) => counted.map_err(named),
            Heard::Reply(other) => Err(named(format!("it answered {other:?}"))),
            Heard::Failed(failure) => Err(named(failure.text)),
            Heard::Lost(why) => Err(named(why.to_string())),
            Heard::Unheard => Err(named("it did not answer".to_owned())),
        };
        (node, counted)
    };
    heard.into_iter().map(one).collect()
}

/// The size of a measurement over all rails, bytes, and its number of calls.
const OF_RAILS: u64 = 64 << 20;
const TIMES: u32 = 20;

/// A measurement over all rails at the same time.
#[derive(Debug, Clone)]
pub(super) struct Merged {
    /// The bus bandwidth, GB/s.
    pub(super) gb_s: f64,
    /// The least that each node has sent to others, bytes.
    pub(super) bytes: u64,
    /// The counters before and after.
    pub(super) counts: [Counts; 2],
}

/// Measures all rails at the same time, merged or not.
///
/// # Errors
/// The findings about the failure.
pub(super) fn merged(cluster: &mut Cluster, kind: NetworkKind, merge: bool) -> Result<Merged, Vec<Finding>> {
    let error = |why: String| vec![Code::NodesRail.finding(Severity::Error, "nodes", why)];
    let before = counts(cluster).map_err(error)?;
    let ask = Ask { kind, rail: None, merge: Some(merge), bytes: (OF_RAILS, OF_RAILS), start: AGAIN };
    let sweep = Sweep { iterations: TIMES, ..Sweep::standard(Collective::AllReduce).at(OF_RAILS) };
    let all = (0..cluster.len()).collect();
    let mut groups = Groups::start(cluster, vec![all], &ask);
    let row = one(&mut groups, &RowAsk::of(&sweep, OF_RAILS, Rank::FIRST));
    let Some(group) = groups.groups.pop() else { return Err(error("there is no communicator".to_owned())) };
    drop(groups);
    if let Some(stop) = &group.stop {
        return Err(ended(stop, cluster));
    }
    let row = row.ok_or_else(|| error("nothing was measured".to_owned()))?;
    let wrong = wrong(std::slice::from_ref(&row), &group, cluster);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let after = counts(cluster).map_err(error)?;
    let bytes = OF_RAILS.saturating_mul(TIMES.into());
    Ok(Merged { gb_s: row.busbw(&row.out_of_place), bytes, counts: [before, after] })
}

/// The size of a measurement, bytes.
const OF_PAIRS: u64 = 32 << 20;

/// Measures the pairs of each round at the same time.
pub(super) fn measured(cluster: &mut Cluster, rounds: &[Round], kind: NetworkKind) -> Vec<Measure> {
    let mut all = Vec::new();
    let sweep = Sweep { iterations: 5, ..Sweep::standard(Collective::AllReduce).at(OF_PAIRS) };
    for round in rounds {
        let rail = (kind != NetworkKind::Socket).then_some(round.rail);
        let ask = Ask { kind, rail, merge: None, bytes: (OF_PAIRS, OF_PAIRS), start: AGAIN };
        let nodes = round.pairs.iter().map(|(a, b)| vec![*a, *b]).collect();
        let mut groups = Groups::start(cluster, nodes, &ask);
        let rows = groups.row(&RowAsk::of(&sweep, OF_PAIRS, Rank::FIRST));
        for (pair, row) in round.pairs.iter().zip(rows) {
            let got = match row {
                Some(row) if row.wrong() > 0 => Got::Wrong,
                Some(row) => Got::Rate(row.busbw(&row.out_of_place)),
                None => Got::Nothing,
            };
            all.push(Measure { pair: *pair, rail: round.rail, got });
        }
    }
    all
}

/// The best bus bandwidth of each collective, and the time of the smallest size.
pub(super) fn figures(rows: &[Row]) -> String {
    let of = |collective| rows.iter().filter(move |row| row.collective == collective);
    let best = |collective| {
        let rates = of(collective).map(|row| (row.busbw(&row.out_of_place), row.bytes));
        rates.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    };
    let text = |collective: Collective| {
        let (rate, bytes) = best(collective);
        format!("{collective} {rate:.2} GB/s at {}", crate::text::size(bytes))
    };
    let least = of(Collective::AllReduce).map(|row| row.out_of_place.us).next().unwrap_or_default();
    format!("{}, {}, {least:.1} us", text(Collective::AllGather), text(Collective::AllReduce))
}

/// The collective of `firstlight nccl --nodes`: all its sizes over the network that NCCL chooses.
///
/// # Errors
/// Why it stopped.
pub fn collective(
    cluster: &mut Cluster,
    sweep: &Sweep,
    sizes: &[u64],
    root: Rank,
    watcher: &mut dyn Watcher,
) -> Result<Vec<Row>, Box<Finding>> {
    let all = (0..cluster.len()).collect();
    let ask =
        Ask { kind: NetworkKind::Any, rail: None, merge: None, bytes: (sweep.to, sweep.to), start: START };
    let mut groups = Groups::start(cluster, vec![all], &ask);
    if let Some(group) = groups.groups.first().filter(|group| group.stop.is_none()) {
        watcher.head(groups.cluster(), group, sweep);
    }
    let mut rows = Vec::new();
    for bytes in sizes {
        let Some(row) = one(&mut groups, &RowAsk::of(sweep, *bytes, root)) else { break };
        watcher.row(&row);
        rows.push(row);
    }
    let stop = groups.groups.pop().and_then(|group| group.stop);
    drop(groups);
    match stop {
        Some(stop) => match ended(&stop, cluster).pop() {
            Some(finding) => Err(Box::new(finding)),
            None => Ok(rows),
        },
        None => Ok(rows),
    }
}
