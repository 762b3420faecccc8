//! The measurements over NCCL's communicators: all sizes of a collective, all rails at the same time, and the pairs of
//! nodes round by round.

use super::blame::{Measurement, MeasurementResult, Round};
use super::cluster::{Cluster, NodeReply};
use super::communicators::{CommunicatorConfig, Communicators};
use super::judge::{stop_findings, wrong_data_findings};
use super::order::{Order, Reply};
use super::watcher::Watcher;
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::nccl::{Row, Sweep};
use gpu::Collective;
use machine::Rank;
use machine::host::rdma::RdmaCounters;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::time::{Duration, Instant};

/// The time limits of a start: of all nodes for the first time, and of two nodes, or of all once they have started before.
pub(super) const FIRST_START_TIMEOUT: Duration = Duration::from_secs(120);
const RESTART_TIMEOUT: Duration = Duration::from_secs(45);
/// The time limits up to which a size is measured: the next size of the sweep, and the largest that memory allows.
const MAX_SWEEP_ROW: Duration = Duration::from_secs(4);
const MAX_LARGEST_ROW: Duration = Duration::from_secs(8);

/// All sizes from 8 B on, as long as each takes at most a few seconds; then the largest that memory allows.
pub(super) fn run_sweep(
    communicators: &mut Communicators<'_>,
    collective: Collective,
    rows: &mut Vec<Row>,
    watcher: &mut dyn Watcher,
) {
    let sweep = Sweep {
        iterations: 5,
        ..Sweep::standard(collective)
    };
    if let Some(communicator) = communicators
        .list
        .first()
        .filter(|communicator| communicator.stop.is_none())
    {
        watcher.head(communicators.cluster(), communicator, &sweep);
    }
    let begun = rows.len();
    let Ok(sizes) = sweep.sizes() else { return };
    let mut last = Duration::ZERO;
    let mut reached = 0;
    for bytes in sizes {
        if last * 2 > MAX_SWEEP_ROW {
            break;
        }
        let started = Instant::now();
        let Some(row) = measure_row(communicators, &RowAsk::of(&sweep, bytes, Rank::FIRST)) else {
            return;
        };
        last = started.elapsed();
        watcher.row(&row);
        (reached, _) = (bytes, rows.push(row));
    }
    let room = communicators
        .list
        .first()
        .map_or(0, |communicator| communicator.room);
    // It has one timed call and one warm-up call, where a row of the sweep has five and one.
    let per_byte = last.as_secs_f64() / 3.0 / as_f64(reached.max(1));
    let mut bytes = prev_power_of_two(room);
    while bytes > reached && per_byte * as_f64(bytes) > MAX_LARGEST_ROW.as_secs_f64() {
        bytes /= 2;
    }
    if bytes > reached {
        let largest = RowAsk {
            iterations: 1,
            ..RowAsk::of(&sweep, bytes, Rank::FIRST)
        };
        let Some(row) = measure_row(communicators, &largest) else {
            return;
        };
        watcher.row(&row);
        rows.push(row);
    }
    watcher.tail(collective, rows.get(begun..).unwrap_or_default());
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a buffer are exact in 53 bits"
)]
fn as_f64(bytes: u64) -> f64 {
    bytes as f64
}

fn prev_power_of_two(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// Measures a row of the only communicator; `None` if it has ended.
pub(super) fn measure_row(communicators: &mut Communicators<'_>, ask: &RowAsk) -> Option<Row> {
    communicators.row(ask).pop().flatten()
}

/// The counters of all nodes' RDMA ports, by node and rail.
pub(super) type ClusterCounters = Vec<Vec<RdmaCounters>>;

/// The time limit for reading counters.
const COUNTERS_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the counters of all nodes' ports, in the order of nodes and rails.
///
/// # Errors
/// One line: the first node whose counters could not be read.
pub(super) fn read_counters(cluster: &mut Cluster) -> Result<ClusterCounters, String> {
    read_counters_of(cluster, &|_| true)
        .into_iter()
        .map(|(_, counted)| counted)
        .collect()
}

/// The same for the `wanted` nodes; each with its counters, or why they could not be read.
pub(super) fn read_counters_of(
    cluster: &mut Cluster,
    wanted: &dyn Fn(usize) -> bool,
) -> Vec<(usize, Result<Vec<RdmaCounters>, String>)> {
    let replies = cluster.execute(
        |node| wanted(node).then_some(Order::Count),
        COUNTERS_TIMEOUT,
        false,
    );
    let one = |(node, reply): (usize, NodeReply)| {
        let named = |why: String| format!("node {}: {why}", cluster.name(node));
        let counted = match reply {
            NodeReply::Reply(Reply::Counted(counted)) => counted.map_err(named),
            NodeReply::Reply(other) => Err(named(format!("it answered {other:?}"))),
            NodeReply::Failed(failure) => Err(named(failure.text)),
            NodeReply::Lost(why) => Err(named(why.to_string())),
            NodeReply::Abandoned => Err(named("it did not answer".to_owned())),
        };
        (node, counted)
    };
    replies.into_iter().map(one).collect()
}

/// The size of a measurement over all rails, bytes, and its number of calls.
const RAILS_BYTES: u64 = 64 << 20;
const RAILS_ITERATIONS: u32 = 20;

/// The result of a measurement over all rails at the same time.
#[derive(Debug, Clone)]
pub(super) struct AllRailsResult {
    /// The bus bandwidth, GB/s.
    pub(super) gb_s: f64,
    /// The least that each node has sent to others, bytes.
    pub(super) bytes: u64,
    /// The counters before and after.
    pub(super) counts: [ClusterCounters; 2],
}

/// Measures all rails at the same time, merged or not.
///
/// # Errors
/// The findings about the failure.
pub(super) fn measure_all_rails(
    cluster: &mut Cluster,
    kind: NetworkKind,
    merge: bool,
) -> Result<AllRailsResult, Vec<Finding>> {
    let error = |why: String| vec![Code::NodesRail.finding(Severity::Error, Subject::Nodes, why)];
    let before = read_counters(cluster).map_err(error)?;
    let config = CommunicatorConfig {
        kind,
        rail: None,
        merge: Some(merge),
        bytes: (RAILS_BYTES, RAILS_BYTES),
        start: RESTART_TIMEOUT,
    };
    let sweep = Sweep {
        iterations: RAILS_ITERATIONS,
        ..Sweep::standard(Collective::AllReduce).at(RAILS_BYTES)
    };
    let all = (0..cluster.len()).collect();
    let mut communicators = Communicators::start(cluster, vec![all], &config);
    let row = measure_row(
        &mut communicators,
        &RowAsk::of(&sweep, RAILS_BYTES, Rank::FIRST),
    );
    let Some(communicator) = communicators.list.pop() else {
        return Err(error("there is no communicator".to_owned()));
    };
    drop(communicators);
    if let Some(stop) = &communicator.stop {
        return Err(stop_findings(stop, cluster));
    }
    let row = row.ok_or_else(|| error("nothing was measured".to_owned()))?;
    let wrong = wrong_data_findings(std::slice::from_ref(&row), &communicator, cluster);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let after = read_counters(cluster).map_err(error)?;
    let bytes = RAILS_BYTES.saturating_mul(RAILS_ITERATIONS.into());
    Ok(AllRailsResult {
        gb_s: row.busbw(&row.out_of_place),
        bytes,
        counts: [before, after],
    })
}

/// The size of the measurement of a pair, bytes.
const PAIR_BYTES: u64 = 32 << 20;

/// Measures the pairs of each round at the same time.
pub(super) fn measure_rounds(
    cluster: &mut Cluster,
    rounds: &[Round],
    kind: NetworkKind,
) -> Vec<Measurement> {
    let mut all = Vec::new();
    let sweep = Sweep {
        iterations: 5,
        ..Sweep::standard(Collective::AllReduce).at(PAIR_BYTES)
    };
    for round in rounds {
        let rail = (kind != NetworkKind::Socket).then_some(round.rail);
        let config = CommunicatorConfig {
            kind,
            rail,
            merge: None,
            bytes: (PAIR_BYTES, PAIR_BYTES),
            start: RESTART_TIMEOUT,
        };
        let nodes = round.pairs.iter().map(|(a, b)| vec![*a, *b]).collect();
        let mut communicators = Communicators::start(cluster, nodes, &config);
        let rows = communicators.row(&RowAsk::of(&sweep, PAIR_BYTES, Rank::FIRST));
        for (pair, row) in round.pairs.iter().zip(rows) {
            let result = match row {
                Some(row) if row.wrong() > 0 => MeasurementResult::WrongData,
                Some(row) => MeasurementResult::Rate(row.busbw(&row.out_of_place)),
                None => MeasurementResult::NoTransfer,
            };
            all.push(Measurement {
                pair: *pair,
                rail: round.rail,
                result,
            });
        }
    }
    all
}

/// The best bus bandwidth of each collective and the time of the smallest size, for people.
pub(super) fn performance_text(rows: &[Row]) -> String {
    let of = |collective| rows.iter().filter(move |row| row.collective == collective);
    let best = |collective| {
        let rates = of(collective).map(|row| (row.busbw(&row.out_of_place), row.bytes));
        rates.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    };
    let text = |collective: Collective| {
        let (rate, bytes) = best(collective);
        format!(
            "{collective} {rate:.2} GB/s at {}",
            outcome::text::size(bytes)
        )
    };
    let least = of(Collective::AllReduce)
        .map(|row| row.out_of_place.us)
        .next()
        .unwrap_or_default();
    format!(
        "{}, {}, {least:.1} us",
        text(Collective::AllGather),
        text(Collective::AllReduce)
    )
}

/// The collective of `firstlight nccl --nodes`: all its sizes over the network that NCCL chooses.
///
/// # Errors
/// Why it stopped.
pub fn run_collective(
    cluster: &mut Cluster,
    sweep: &Sweep,
    sizes: &[u64],
    root: Rank,
    watcher: &mut dyn Watcher,
) -> Result<Vec<Row>, Box<Finding>> {
    let all = (0..cluster.len()).collect();
    let config = CommunicatorConfig {
        kind: NetworkKind::Any,
        rail: None,
        merge: None,
        bytes: (sweep.to, sweep.to),
        start: FIRST_START_TIMEOUT,
    };
    let mut communicators = Communicators::start(cluster, vec![all], &config);
    if let Some(communicator) = communicators
        .list
        .first()
        .filter(|communicator| communicator.stop.is_none())
    {
        watcher.head(communicators.cluster(), communicator, sweep);
    }
    let mut rows = Vec::new();
    for bytes in sizes {
        let Some(row) = measure_row(&mut communicators, &RowAsk::of(sweep, *bytes, root)) else {
            break;
        };
        watcher.row(&row);
        rows.push(row);
    }
    let stop = communicators
        .list
        .pop()
        .and_then(|communicator| communicator.stop);
    drop(communicators);
    match stop {
        Some(stop) => match stop_findings(&stop, cluster).pop() {
            Some(finding) => Err(Box::new(finding)),
            None => Ok(rows),
        },
        None => Ok(rows),
    }
}
