//! The tests over all nodes, in order. Each ends with a judgement; a test that cannot run is an error with its cause.

use super::arm::{Ask, Groups};
use super::cluster::Cluster;
use super::gather::Gathered;
use super::judge::{ended, gain, path, version_text, wrong};
pub use super::measure::collective;
use super::measure::{START, counts, figures, one, sweep};
use super::order::Choice;
use super::rails::{self, Rails};
use super::rdma;
use super::watcher::{About, Watcher};
use crate::gpu::Collective;
use crate::machine::Rank;
use crate::nccl::log::{Proof, Said};
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::nccl::{Row, Sweep};
use crate::outcome::finding::{Code, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::text::count;
use std::time::Instant;

/// The meeting itself.
pub const MEETING: About = About {
    id: "nodes-meeting",
    title: "The nodes meet",
    proves: "all nodes are there, each once, know the token, and have the same image, firstlight and driver",
};

/// The arms of NCCL: over sockets, over RDMA through the host's memory, and over RDMA to the GPUs' memory.
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

/// The largest size of the sweep, unless it takes too long.
const TO: u64 = 128 << 20;
/// The most bytes that are requested for a buffer.
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

/// A test, its judgement and its duration in seconds.
pub type Done = (About, Judgement, f64);

/// Runs the tests; returns the judgements in order, and what the workload should use if they are good.
pub fn run(gathered: &mut Gathered, which: Which, watcher: &mut dyn Watcher) -> (Vec<Done>, Option<Choice>) {
    let mut done: Vec<Done> = Vec::new();
    let mut end = |about: About, judgement: Judgement, seconds: f64, watcher: &mut dyn Watcher| {
        watcher.ended(&about, &judgement, seconds);
        done.push((about, judgement, seconds));
    };
    let met = meeting(gathered);
    end(MEETING, met, gathered.seconds, watcher);
    if !gathered.complete {
        return (done, None);
    }
    let cluster = &mut gathered.cluster;
    let no_ports = no_ports(cluster);
    let counted = counts(cluster);
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
    let mut found = Rails { idle: verbs.idle.clone(), merge: None };
    let mut best = NetworkKind::Socket;
    if which == Which::All {
        let mut staged: Option<Vec<Row>> = None;
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
        let judgement = lost(cluster).unwrap_or_else(|| rails::rails(cluster, best, &mut found));
        end(rails::RAILS, judgement, begun.elapsed().as_secs_f64(), watcher);
        let begun = Instant::now();
        let judgement = match lost(cluster) {
            _ if cluster.len() < 3 => Judgement::not_applicable("two nodes have no others to compare with"),
            Some(lost) => lost,
            None => rails::pairs(cluster, best),
        };
        end(rails::PAIRS, judgement, begun.elapsed().as_secs_f64(), watcher);
    }
    let begun = Instant::now();
    let judgement = lost(cluster).unwrap_or_else(|| rails::ports(cluster, &counted));
    end(rails::PORTS, judgement, begun.elapsed().as_secs_f64(), watcher);
    let choice = (which == Which::All).then(|| choice(rails::number(cluster), best, &found));
    (done, choice)
}

/// What the workload should use: the rails that carried their shares; none without RDMA.
fn choice(rails: usize, best: NetworkKind, found: &Rails) -> Choice {
    if best == NetworkKind::Socket {
        return Choice::default();
    }
    let good: Vec<_> = (0..rails).filter(|rail| !found.idle.contains(rail)).collect();
    let is_merged = good.len() == rails;
    let rails = if good.is_empty() { (0..rails).collect() } else { good };
    Choice { rails, merge: found.merge.filter(|_| is_merged) }
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

/// Why RDMA cannot be tested; `None` if all nodes have the same number of ACTIVE ports.
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
    let ask = Ask { kind, rail: None, merge: None, bytes: (TO, MOST), start: START };
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
    let log = groups.log().pop().flatten();
    let Some(group) = groups.groups.pop() else { return (lacking(), rows) };
    drop(groups);
    let mut findings = wrong(&rows, &group, cluster);
    findings.extend(group.stop.iter().flat_map(|stop| ended(stop, cluster)));
    let mut way = String::new();
    if let (None, Some(log)) = (&group.stop, log) {
        let node = |rank: Rank| nodes.get(rank.index()).copied().unwrap_or(usize::MAX);
        let proof = Said::read(&log).proves_network(nodes.len(), &node, kind);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_gets_the_rails_that_carried_their_shares_and_none_without_rdma() {
        let found = |idle: &[usize]| Rails { idle: idle.iter().copied().collect(), merge: Some((true, 1.5)) };
        let chosen = |best, idle: &[usize]| choice(3, best, &found(idle));
        assert_eq!(chosen(NetworkKind::Socket, &[]), Choice::default());
        let all = Choice { rails: vec![0, 1, 2], merge: Some((true, 1.5)) };
        assert_eq!(chosen(NetworkKind::Gdr, &[]), all);
        // Merging was measured with all rails alone.
        assert_eq!(chosen(NetworkKind::Rdma, &[1]), Choice { rails: vec![0, 2], merge: None });
        assert_eq!(chosen(NetworkKind::Rdma, &[0, 1, 2]).rails, [0, 1, 2]);
    }
}
