//! The tests over all nodes, in order. Each ends with a judgement; what cannot run is an error with its cause.

use super::arm::{Ask, Group, Groups};
use super::blame::{Got, Measure, Network, Round, again, infer, rounds};
use super::cluster::Cluster;
use super::gather::Gathered;
use super::judge::{blamed, gain, path, stopped, version_text, wrong};
use crate::gpu::Collective;
use crate::nccl::log::{Proof, Said};
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::nccl::{Row, Sweep};
use crate::outcome::Judgement;
use crate::outcome::finding::{Code, Finding, Severity};
use std::time::{Duration, Instant};

/// A test's name and what a pass proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Short and stable.
    pub id: &'static str,
    /// The name.
    pub title: &'static str,
    /// What a pass proves.
    pub proves: &'static str,
}

/// The meeting itself.
pub const MEETING: About = About {
    id: "nodes-meeting",
    title: "The nodes meet",
    proves: "all nodes are there, each once, know the token, and have the same image, firstlight and driver",
};

/// The arms: over sockets, over RDMA through the host's memory, and over RDMA to the GPUs' memory.
const ARMS: [(About, NetworkKind); 3] = [
    (
        About {
            id: "nodes-nccl-socket",
            title: "NCCL between nodes over TCP",
            proves: "NCCL's collectives over all nodes return right values over TCP sockets",
        },
        NetworkKind::Socket,
    ),
    (
        About {
            id: "nodes-nccl-rdma",
            title: "NCCL between nodes over RDMA",
            proves: "NCCL's collectives over all nodes return right values over RDMA through the host's memory",
        },
        NetworkKind::Rdma,
    ),
    (
        About {
            id: "nodes-nccl-gdr",
            title: "NCCL between nodes with GPUDirect",
            proves: "NCCL's collectives over all nodes return right values over GPUDirect RDMA, which is faster",
        },
        NetworkKind::Gdr,
    ),
];

/// The pairs of nodes.
const PAIRS: About = About {
    id: "nodes-pairs",
    title: "Pairs of nodes",
    proves: "no node, port or rail is slower than the others, or wrong",
};

/// The time limits of a start: of all nodes together, and of two.
const START: Duration = Duration::from_secs(120);
const START_OF_PAIRS: Duration = Duration::from_secs(45);
/// The sizes of the sweep end here, unless it takes too long.
const TO: u64 = 128 << 20;
/// A size follows only if it will not take longer than this, and the largest that memory allows no longer than that.
const SLOWEST: Duration = Duration::from_secs(4);
const LARGEST: Duration = Duration::from_secs(8);
/// The most bytes that are asked for.
const MOST: u64 = 16 << 30;
/// The size of the other collectives, and of the measurement between two nodes.
const OTHERS: u64 = 1 << 20;
const OF_PAIRS: u64 = 32 << 20;

/// What happens meanwhile, for the console.
pub trait Watcher {
    /// An arm has started: its GPUs, and the sweep that follows.
    fn head(&mut self, cluster: &Cluster, group: &Group, sweep: &Sweep);
    /// A row was measured.
    fn row(&mut self, row: &Row);
    /// The rows of a collective are complete.
    fn tail(&mut self, collective: Collective, rows: &[Row]);
    /// A test has ended.
    fn ended(&mut self, about: &About, judgement: &Judgement, seconds: f64);
}

/// Runs everything; the judgements in order.
pub fn run(gathered: &mut Gathered, watcher: &mut dyn Watcher) -> Vec<(About, Judgement, f64)> {
    let mut done: Vec<(About, Judgement, f64)> = Vec::new();
    let mut end = |about: About, judgement: Judgement, seconds: f64, watcher: &mut dyn Watcher| {
        watcher.ended(&about, &judgement, seconds);
        done.push((about, judgement, seconds));
    };
    let met = meeting(gathered);
    end(MEETING, met, gathered.seconds, watcher);
    if !gathered.complete {
        return done;
    }
    let cluster = &mut gathered.cluster;
    let mut staged: Option<Vec<Row>> = None;
    let (mut best, rdma) = (NetworkKind::Socket, rdma(cluster));
    for (about, kind) in ARMS {
        let begun = Instant::now();
        let judgement = match (kind, &rdma) {
            (NetworkKind::Rdma | NetworkKind::Gdr, Err(none)) => none.clone(),
            _ => match cluster.lost() {
                Some((node, why)) => {
                    let name = cluster.name(node);
                    let message = format!("not run, because node {name} is lost: {why}");
                    Judgement::by(Code::NodesLost.finding(Severity::Error, &name, message))
                }
                None => {
                    let (judgement, rows) = arm(cluster, kind, staged.as_deref(), watcher);
                    if kind == NetworkKind::Rdma {
                        staged = Some(rows);
                    }
                    if judgement.outcome() == crate::outcome::Outcome::Pass {
                        best = kind;
                    }
                    judgement
                }
            },
        };
        end(about, judgement, begun.elapsed().as_secs_f64(), watcher);
    }
    let begun = Instant::now();
    let judgement = match cluster.lost() {
        _ if cluster.len() < 3 => Judgement::not_applicable("two nodes have no others to compare with"),
        Some((node, why)) => {
            let name = cluster.name(node);
            let message = format!("not run, because node {name} is lost: {why}");
            Judgement::by(Code::NodesLost.finding(Severity::Error, &name, message))
        }
        None => pairs(cluster, best),
    };
    end(PAIRS, judgement, begun.elapsed().as_secs_f64(), watcher);
    done
}

fn meeting(gathered: &Gathered) -> Judgement {
    let cards = gathered.cluster.cards();
    let gpus: usize = cards.iter().map(|card| card.gpus).sum();
    let names: Vec<_> = cards.iter().map(|card| card.name.as_str()).collect();
    let good = || format!("{} nodes with {gpus} GPUs: {}", names.len(), names.join(", "));
    Judgement::summed_up(good, gathered.findings.clone())
}

/// Whether RDMA can be tested: all nodes have as many ACTIVE ports, or none has one.
fn rdma(cluster: &Cluster) -> Result<usize, Judgement> {
    let counts: Vec<_> = cluster.cards().iter().map(|card| card.hcas.len()).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(0), Some(0)) | (None, _) => {
            Err(Judgement::not_applicable("no node has an RDMA port that is ACTIVE"))
        }
        (Some(least), Some(most)) if least == most => Ok(*least),
        _ => {
            let text = |card: &&super::card::Card| match card.hcas.as_slice() {
                [] => format!("{} has none", card.name),
                some => format!("{} has {}", card.name, some.join(", ")),
            };
            let all: Vec<_> = cluster.cards().iter().map(text).collect();
            let message =
                format!("the nodes have different numbers of ACTIVE RDMA ports: {}", all.join("; "));
            Err(Judgement::by(Code::NodesPath.finding(Severity::Fail, "nodes", message)))
        }
    }
}

/// One arm: all sizes of all_gather and all_reduce, one size of the others, the proof of the network.
fn arm(
    cluster: &mut Cluster,
    kind: NetworkKind,
    staged: Option<&[Row]>,
    watcher: &mut dyn Watcher,
) -> (Judgement, Vec<Row>) {
    let all = (0..cluster.len()).collect();
    let ask = Ask { kind, rail: None, bytes: (TO, MOST), start: START };
    let nodes: Vec<_> = (0..cluster.first_rank(cluster.len())).map(|rank| cluster.node_of(rank)).collect();
    let mut groups = Groups::start(cluster, vec![all], &ask);
    let mut rows = Vec::new();
    for collective in [Collective::AllGather, Collective::AllReduce] {
        sweep(&mut groups, collective, &mut rows, watcher);
    }
    let others =
        Collective::ALL.iter().filter(|c| !matches!(c, Collective::AllGather | Collective::AllReduce));
    for collective in others {
        let sweep = Sweep { iterations: 5, ..Sweep::standard(*collective).at(OTHERS) };
        for odd in [false, true] {
            rows.extend(one(
                &mut groups,
                &RowAsk { odd, ..RowAsk::of(&sweep, OTHERS + 4 * u64::from(odd), 0) },
            ));
        }
    }
    let said = groups.log().pop().flatten();
    let Some(group) = groups.groups.pop() else { return (lacking(), rows) };
    drop(groups);
    let mut findings = wrong(&rows, &group, cluster);
    findings.extend(group.stop.as_ref().map(|stop| stopped(stop, cluster)));
    let mut way = String::new();
    if let (None, Some(said)) = (&group.stop, said) {
        let node = |rank: usize| nodes.get(rank).copied().unwrap_or(usize::MAX);
        let proof = Said::read(&said).proves_network(nodes.len(), &node, kind);
        findings.extend(path(&proof, kind));
        if let Proof::Proven(text) = proof {
            way = text;
        }
    }
    if kind == NetworkKind::Gdr {
        findings.extend(staged.and_then(|staged| gain(&rows, staged)));
    }
    let nccl = group.nccl.first().copied().map(version_text).unwrap_or_default();
    let checked: u64 = rows.iter().map(Row::checked).sum();
    let good = || format!("{way}; {}; {checked} calls checked, all right; NCCL {nccl}", figures(&rows));
    (Judgement::summed_up(good, findings), rows)
}

fn lacking() -> Judgement {
    Judgement::by(Code::NcclError.finding(Severity::Error, "nodes", "there is no communicator"))
}

/// The best bus bandwidth of each collective, and the time of the smallest size.
fn figures(rows: &[Row]) -> String {
    let of = |collective| rows.iter().filter(move |row| row.collective == collective);
    let best = |collective| {
        let rates = of(collective).map(|row| (row.busbw(&row.out_of_place), row.bytes));
        rates.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    };
    let text = |collective: Collective| {
        let (rate, bytes) = best(collective);
        format!("{collective} {rate:.2} GB/s at {}", crate::text::size::size(bytes))
    };
    let least = of(Collective::AllReduce).map(|row| row.out_of_place.us).next().unwrap_or_default();
    format!("{}, {}, {least:.1} us", text(Collective::AllGather), text(Collective::AllReduce))
}

/// All sizes from 8 B on, as long as a size takes no more than seconds; then the largest that memory allows.
fn sweep(groups: &mut Groups<'_>, collective: Collective, rows: &mut Vec<Row>, watcher: &mut dyn Watcher) {
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
        let Some(row) = one(groups, &RowAsk::of(&sweep, bytes, 0)) else { return };
        last = started.elapsed();
        watcher.row(&row);
        (reached, _) = (bytes, rows.push(row));
    }
    let room = groups.groups.first().map_or(0, |group| group.room);
    // One timed call and one before it, where the sweep makes five and one.
    let per_byte = last.as_secs_f64() / 3.0 / as_f64(reached.max(1));
    let mut bytes = prev_power_of_two(room);
    while bytes > reached && per_byte * as_f64(bytes) > LARGEST.as_secs_f64() {
        bytes /= 2;
    }
    if bytes > reached {
        let largest = RowAsk { iterations: 1, ..RowAsk::of(&sweep, bytes, 0) };
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
fn one(groups: &mut Groups<'_>, ask: &RowAsk) -> Option<Row> {
    groups.row(ask).pop().flatten()
}

/// All pairs of nodes in rounds, the suspects again, and what follows.
fn pairs(cluster: &mut Cluster, kind: NetworkKind) -> Judgement {
    let ports = cluster.cards().iter().map(|card| card.hcas.len()).min().unwrap_or_default();
    let rails = if kind == NetworkKind::Socket { 1 } else { ports.max(1) };
    let network = Network { nodes: cluster.len(), rails, leaves: None };
    let first = measure(cluster, &rounds(network.nodes, rails), kind);
    let before = infer(&network, &first, &[], None);
    let retried = measure(cluster, &again(&before), kind);
    let inference = infer(&network, &first, &retried, None);
    let findings = blamed(&inference, cluster);
    let usual = inference.usual_gb_s.map_or_else(|| "no rate".to_owned(), |rate| format!("{rate:.2} GB/s"));
    let good = || {
        format!(
            "{} pairs on {rails} rails: {usual} usual, none below {:.0} % of that",
            first.len() / rails,
            80.0
        )
    };
    Judgement::summed_up(good, findings)
}

fn measure(cluster: &mut Cluster, rounds: &[Round], kind: NetworkKind) -> Vec<Measure> {
    let mut all = Vec::new();
    let sweep = Sweep { iterations: 5, ..Sweep::standard(Collective::AllReduce).at(OF_PAIRS) };
    for round in rounds {
        let rail = (kind != NetworkKind::Socket).then_some(round.rail);
        let ask = Ask { kind, rail, bytes: (OF_PAIRS, OF_PAIRS), start: START_OF_PAIRS };
        let nodes = round.pairs.iter().map(|(a, b)| vec![*a, *b]).collect();
        let mut groups = Groups::start(cluster, nodes, &ask);
        let rows = groups.row(&RowAsk::of(&sweep, OF_PAIRS, 0));
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

/// The collective of `firstlight nccl --nodes`: all its sizes over the network that NCCL chooses.
///
/// # Errors
/// Why it stopped.
pub fn collective(
    cluster: &mut Cluster,
    sweep: &Sweep,
    sizes: &[u64],
    root: usize,
    watcher: &mut dyn Watcher,
) -> Result<Vec<Row>, Box<Finding>> {
    let all = (0..cluster.len()).collect();
    let ask = Ask { kind: NetworkKind::Any, rail: None, bytes: (sweep.to, sweep.to), start: START };
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
        Some(stop) => Err(Box::new(stopped(&stop, cluster))),
        None => Ok(rows),
    }
}
