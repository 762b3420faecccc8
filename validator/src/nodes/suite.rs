//! The tests over all nodes, in order. Each ends with a judgement; what cannot run is an error with its cause.

use super::arm::{Ask, Groups, Stop};
use super::cluster::Cluster;
use super::gather::Gathered;
use super::judge::{gain, gone, path, stopped, version_text, wrong};
use super::pairs::pairs;
use super::rdma;
use super::sweep::{one, sweep};
use super::watcher::{About, Watcher};
use crate::gpu::Collective;
use crate::machine::Rank;
use crate::nccl::log::{Proof, Said};
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::nccl::{Row, Sweep};
use crate::outcome::finding::{Code, Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::text::count;
use std::time::{Duration, Instant};

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

/// The time limit of a start.
const START: Duration = Duration::from_secs(120);
/// The sizes of the sweep end here, unless it takes too long.
const TO: u64 = 128 << 20;
/// The most bytes that are asked for.
const MOST: u64 = 16 << 30;
/// The size of the other collectives.
const OTHERS: u64 = 1 << 20;

/// Which tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// The meeting, and RDMA without NCCL.
    Rdma,
}

/// Runs the tests; the judgements in order.
pub fn run(gathered: &mut Gathered, which: Which, watcher: &mut dyn Watcher) -> Vec<(About, Judgement, f64)> {
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
    let no_ports = no_ports(cluster);
    let (mut verbs, mut no_direct) = (rdma::Results::default(), None);
    for (about, memory) in rdma::TESTS {
        let begun = Instant::now();
        let judgement = match (&no_ports, lost(cluster)) {
            (Some(none), _) => none.clone(),
            (None, Some(lost)) => lost,
            (None, None) => verbs.test(cluster, memory, watcher),
        };
        if memory == rdma::Memory::Gpu && judgement.outcome() == Outcome::NotApplicable {
            no_direct = Some(judgement.clone());
        }
        end(about, judgement, begun.elapsed().as_secs_f64(), watcher);
    }
    if which == Which::Rdma {
        return done;
    }
    let mut staged: Option<Vec<Row>> = None;
    let mut best = NetworkKind::Socket;
    for (about, kind) in ARMS {
        let begun = Instant::now();
        let judgement = match (kind, &no_ports, &no_direct) {
            (NetworkKind::Rdma | NetworkKind::Gdr, Some(none), _) | (NetworkKind::Gdr, _, Some(none)) => {
                none.clone()
            }
            _ => match lost(cluster) {
                Some(lost) => lost,
                None => {
                    let (judgement, rows) = arm(cluster, kind, staged.as_deref(), watcher);
                    if kind == NetworkKind::Rdma {
                        staged = Some(rows);
                    }
                    if judgement.outcome() == Outcome::Pass {
                        best = kind;
                    }
                    judgement
                }
            },
        };
        end(about, judgement, begun.elapsed().as_secs_f64(), watcher);
    }
    let begun = Instant::now();
    let judgement = match lost(cluster) {
        _ if cluster.len() < 3 => Judgement::not_applicable("two nodes have no others to compare with"),
        Some(lost) => lost,
        None => pairs(cluster, best),
    };
    end(PAIRS, judgement, begun.elapsed().as_secs_f64(), watcher);
    done
}

/// Why no further test can run; `None` if all nodes are there.
fn lost(cluster: &Cluster) -> Option<Judgement> {
    let (node, why) = cluster.lost()?;
    let name = cluster.name(node);
    let message = format!("not run, because node {name} is lost: {why}");
    Some(Judgement::by(Code::NodesLost.finding(Severity::Error, &name, message)))
}

fn meeting(gathered: &Gathered) -> Judgement {
    let cards = gathered.cluster.cards();
    let gpus: usize = cards.iter().map(|card| card.gpus).sum();
    let names: Vec<_> = cards.iter().map(|card| card.name.as_str()).collect();
    let good = || format!("{} with {}: {}", count(names.len(), "node"), count(gpus, "GPU"), names.join(", "));
    Judgement::summed_up(good, gathered.findings.clone())
}

/// Why RDMA cannot be tested; `None` if all nodes have as many ACTIVE ports.
fn no_ports(cluster: &Cluster) -> Option<Judgement> {
    let counts: Vec<_> = cluster.cards().iter().map(|card| card.hcas.len()).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(0), Some(0)) | (None, _) => {
            Some(Judgement::not_applicable("no node has an RDMA port that is ACTIVE"))
        }
        (Some(least), Some(most)) if least == most => None,
        _ => {
            let text = |card: &&super::card::Card| match card.hcas.as_slice() {
                [] => format!("{} has none", card.name),
                some => format!("{} has {}", card.name, some.join(", ")),
            };
            let all: Vec<_> = cluster.cards().iter().map(text).collect();
            let message =
                format!("the nodes have different numbers of ACTIVE RDMA ports: {}", all.join("; "));
            Some(Judgement::by(Code::NodesPath.finding(Severity::Fail, "nodes", message)))
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
    let nodes: Vec<_> = Rank::all(cluster.gpus()).map(|rank| cluster.host_of(rank)).collect();
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
                &RowAsk { odd, ..RowAsk::of(&sweep, OTHERS + 4 * u64::from(odd), Rank::FIRST) },
            ));
        }
    }
    let said = groups.log().pop().flatten();
    let Some(group) = groups.groups.pop() else { return (lacking(), rows) };
    drop(groups);
    let mut findings = wrong(&rows, &group, cluster);
    findings.extend(group.stop.iter().flat_map(|stop| ended(stop, cluster)));
    let mut way = String::new();
    if let (None, Some(said)) = (&group.stop, said) {
        let node = |rank: Rank| nodes.get(rank.index()).copied().unwrap_or(usize::MAX);
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

/// Why a communicator has ended. NCCL of the other nodes often fails before the kernel gives up a node that is gone: such a
/// node comes last.
fn ended(stop: &Stop, cluster: &Cluster) -> Vec<Finding> {
    let lost = gone(cluster).filter(|_| !matches!(stop, Stop::Lost { .. }));
    [Some(stopped(stop, cluster)), lost].into_iter().flatten().collect()
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
        Some(stop) => match ended(&stop, cluster).pop() {
            Some(finding) => Err(Box::new(finding)),
            None => Ok(rows),
        },
        None => Ok(rows),
    }
}
