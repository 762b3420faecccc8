//! The tests over all nodes, in order. Each ends with a judgement; a test that cannot run is an error with its cause.

use super::cluster::Cluster;
use super::communicators::{CommunicatorConfig, Communicators};
use super::gather::GatheredNodes;
use super::judge::{gpudirect_finding, stop_findings, transport_finding, wrong_data_findings};
pub use super::measure::run_collective;
use super::measure::{
    FIRST_START_TIMEOUT, measure_row, performance_text, read_counters, run_sweep,
};
use super::order::Choice;
use super::rails::{self, RailResults};
use super::rdma;
use super::watcher::{TestInfo, Watcher};
use crate::nccl::log::{NcclLog, Proof};
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::nccl::{Row, Sweep};
use gpu::Collective;
use machine::Rank;
use outcome::finding::{Code, Severity, Subject};
use outcome::text::count;
use outcome::{Judgement, Outcome};
use std::time::Instant;

/// The meeting itself.
pub const MEETING: TestInfo = TestInfo {
    id: "nodes-meeting",
    title: "The nodes meet",
    proves: "all nodes are there, each once, know the token, and have the same image, firstlight and driver",
};

/// The networks that NCCL is tested over: TCP sockets, RDMA through the host's memory, and RDMA to the GPUs' memory.
const NETWORKS: [(TestInfo, NetworkKind); 3] = [
    (
        TestInfo {
            id: "nodes-nccl-socket",
            title: "NCCL between nodes over TCP",
            proves: "NCCL's collectives over all nodes return right values over TCP sockets",
        },
        NetworkKind::Socket,
    ),
    (
        TestInfo {
            id: "nodes-nccl-rdma",
            title: "NCCL between nodes over RDMA",
            proves: "NCCL's collectives over all nodes return right values over RDMA through the host's memory",
        },
        NetworkKind::Rdma,
    ),
    (
        TestInfo {
            id: "nodes-nccl-gdr",
            title: "NCCL between nodes with GPUDirect",
            proves: "NCCL's collectives over all nodes return right values over GPUDirect RDMA, which is faster",
        },
        NetworkKind::Gdr,
    ),
];

/// The largest size of the sweep, unless it takes too long.
const MAX_SWEEP_BYTES: u64 = 128 << 20;
/// The most bytes that are requested for a buffer.
const MAX_BUFFER_BYTES: u64 = 16 << 30;
/// The size of the other collectives, bytes.
const OTHER_BYTES: u64 = 1 << 20;

/// Which tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestSelection {
    /// All tests.
    All,
    /// The meeting, and RDMA without NCCL.
    Rdma,
}

/// A test, its judgement and its duration in seconds.
pub type TestResult = (TestInfo, Judgement, f64);

/// Runs the tests; returns the judgements in order, and what the workload should use if they are good.
pub fn run(
    gathered: &mut GatheredNodes,
    selection: TestSelection,
    watcher: &mut dyn Watcher,
) -> (Vec<TestResult>, Option<Choice>) {
    let mut done: Vec<TestResult> = Vec::new();
    let mut end =
        |test: TestInfo, judgement: Judgement, seconds: f64, watcher: &mut dyn Watcher| {
            watcher.ended(&test, &judgement, seconds);
            done.push((test, judgement, seconds));
        };
    let judgement = judge_meeting(gathered);
    end(MEETING, judgement, gathered.seconds, watcher);
    if !gathered.complete {
        return (done, None);
    }
    let cluster = &mut gathered.cluster;
    let no_ports = no_ports(cluster);
    let counted = read_counters(cluster);
    let (mut verbs, mut no_gpudirect) = (rdma::RdmaResults::default(), None);
    for (test, memory) in rdma::TESTS {
        let begun = Instant::now();
        let judgement = match (&no_ports, lost_node(cluster)) {
            (Some(none), _) => none.clone(),
            (None, Some(lost)) => lost,
            (None, None) => verbs.test(cluster, memory, watcher),
        };
        if memory == rdma::Memory::Gpu && judgement.outcome() == Outcome::NotApplicable {
            no_gpudirect = Some(judgement.clone());
        }
        end(test, judgement, begun.elapsed().as_secs_f64(), watcher);
    }
    let mut results = RailResults {
        idle: verbs.idle.clone(),
        merge: None,
    };
    let mut best = NetworkKind::Socket;
    if selection == TestSelection::All {
        let mut staged: Option<Vec<Row>> = None;
        for (test, kind) in NETWORKS {
            let begun = Instant::now();
            let judgement = match (kind, &no_ports, &no_gpudirect) {
                (NetworkKind::Rdma | NetworkKind::Gdr, Some(none), _)
                | (NetworkKind::Gdr, _, Some(none)) => none.clone(),
                _ => match lost_node(cluster) {
                    Some(lost) => lost,
                    None => {
                        let (judgement, rows) =
                            test_network(cluster, kind, staged.as_deref(), watcher);
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
            end(test, judgement, begun.elapsed().as_secs_f64(), watcher);
        }
        let begun = Instant::now();
        let judgement = lost_node(cluster)
            .unwrap_or_else(|| rails::test_all_rails(cluster, best, &mut results));
        end(
            rails::RAILS,
            judgement,
            begun.elapsed().as_secs_f64(),
            watcher,
        );
        let begun = Instant::now();
        let judgement = match lost_node(cluster) {
            _ if cluster.len() < 3 => {
                Judgement::not_applicable("two nodes have no others to compare with")
            }
            Some(lost) => lost,
            None => rails::test_pairs(cluster, best),
        };
        end(
            rails::PAIRS,
            judgement,
            begun.elapsed().as_secs_f64(),
            watcher,
        );
    }
    let begun = Instant::now();
    let judgement =
        lost_node(cluster).unwrap_or_else(|| rails::test_port_errors(cluster, &counted));
    end(
        rails::PORTS,
        judgement,
        begun.elapsed().as_secs_f64(),
        watcher,
    );
    let choice = (selection == TestSelection::All)
        .then(|| choice(rails::rail_count(cluster), best, &results));
    (done, choice)
}

/// What the workload should use: the rails that carried their shares; none without RDMA.
fn choice(rails: usize, best: NetworkKind, results: &RailResults) -> Choice {
    if best == NetworkKind::Socket {
        return Choice::default();
    }
    let good: Vec<_> = (0..rails)
        .filter(|rail| !results.idle.contains(rail))
        .collect();
    let is_merged = good.len() == rails;
    let rails = if good.is_empty() {
        (0..rails).collect()
    } else {
        good
    };
    Choice {
        rails,
        merge: results.merge.filter(|_| is_merged),
    }
}

/// Why no further test can run; `None` if all nodes are there.
fn lost_node(cluster: &Cluster) -> Option<Judgement> {
    let (node, why) = cluster.lost()?;
    let name = cluster.name(node);
    let message = format!("not run, because node {name} is lost: {why}");
    Some(Judgement::by(Code::NodesLost.finding(
        Severity::Error,
        Subject::node(&name),
        message,
    )))
}

fn judge_meeting(gathered: &GatheredNodes) -> Judgement {
    let cards = gathered.cluster.cards();
    let gpus: usize = cards.iter().map(|card| card.gpus).sum();
    let names: Vec<_> = cards.iter().map(|card| card.name.as_str()).collect();
    let good = || {
        format!(
            "{} with {}: {}",
            count(names.len(), "node"),
            count(gpus, "GPU"),
            names.join(", ")
        )
    };
    Judgement::summed_up(good, gathered.findings.clone())
}

/// Why RDMA cannot be tested; `None` if all nodes have the same number of ACTIVE ports.
fn no_ports(cluster: &Cluster) -> Option<Judgement> {
    let counts: Vec<_> = cluster.cards().iter().map(|card| card.hcas.len()).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(0), Some(0)) | (None, _) => Some(Judgement::not_applicable(
            "no node has an RDMA port that is ACTIVE",
        )),
        (Some(least), Some(most)) if least == most => None,
        _ => {
            let text = |card: &&super::card::Card| match card.hcas.as_slice() {
                [] => format!("{} has none", card.name),
                some => format!("{} has {}", card.name, some.join(", ")),
            };
            let all: Vec<_> = cluster.cards().iter().map(text).collect();
            let message = format!(
                "the nodes have different numbers of ACTIVE RDMA ports: {}",
                all.join("; ")
            );
            Some(Judgement::by(Code::NodesPath.finding(
                Severity::Fail,
                Subject::Nodes,
                message,
            )))
        }
    }
}

/// Tests NCCL over one network: all sizes of all_gather and all_reduce, one size of the others, and the transport.
fn test_network(
    cluster: &mut Cluster,
    kind: NetworkKind,
    staged: Option<&[Row]>,
    watcher: &mut dyn Watcher,
) -> (Judgement, Vec<Row>) {
    let all = (0..cluster.len()).collect();
    let config = CommunicatorConfig {
        kind,
        rail: None,
        merge: None,
        bytes: (MAX_SWEEP_BYTES, MAX_BUFFER_BYTES),
        start: FIRST_START_TIMEOUT,
    };
    let nodes: Vec<_> = Rank::all(cluster.gpus())
        .map(|rank| cluster.host_of(rank))
        .collect();
    let mut communicators = Communicators::start(cluster, vec![all], &config);
    let mut rows = Vec::new();
    for collective in [Collective::AllGather, Collective::AllReduce] {
        run_sweep(&mut communicators, collective, &mut rows, watcher);
    }
    let others = Collective::ALL
        .iter()
        .filter(|c| !matches!(c, Collective::AllGather | Collective::AllReduce));
    for collective in others {
        let sweep = Sweep {
            iterations: 5,
            ..Sweep::standard(*collective).at(OTHER_BYTES)
        };
        for odd in [false, true] {
            rows.extend(measure_row(
                &mut communicators,
                &RowAsk {
                    odd,
                    ..RowAsk::of(&sweep, OTHER_BYTES + 4 * u64::from(odd), Rank::FIRST)
                },
            ));
        }
    }
    let log = communicators.log().pop().flatten();
    let Some(communicator) = communicators.list.pop() else {
        return (no_communicator(), rows);
    };
    drop(communicators);
    let mut findings = wrong_data_findings(&rows, &communicator, cluster);
    findings.extend(
        communicator
            .stop
            .iter()
            .flat_map(|stop| stop_findings(stop, cluster)),
    );
    let mut transport = String::new();
    if let (None, Some(log)) = (&communicator.stop, log) {
        let node = |rank: Rank| nodes.get(rank.index()).copied().unwrap_or(usize::MAX);
        let proof = NcclLog::read(&log).proves_network(nodes.len(), &node, kind);
        findings.extend(transport_finding(&proof, kind));
        if let Proof::Proven(text) = proof {
            transport = text;
        }
    }
    if kind == NetworkKind::Gdr {
        findings.extend(staged.and_then(|staged| gpudirect_finding(&rows, staged)));
    }
    let nccl = communicator
        .nccl
        .first()
        .copied()
        .map(crate::nccl::version_text)
        .unwrap_or_default();
    let checked: u64 = rows.iter().map(Row::checked).sum();
    let good = || {
        format!(
            "{transport}; {}; {checked} calls checked, all right; NCCL {nccl}",
            performance_text(&rows)
        )
    };
    (Judgement::summed_up(good, findings), rows)
}

fn no_communicator() -> Judgement {
    Judgement::by(Code::NcclError.finding(
        Severity::Error,
        Subject::Nodes,
        "there is no communicator",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_gets_the_rails_that_carried_their_shares_and_none_without_rdma() {
        let results = |idle: &[usize]| RailResults {
            idle: idle.iter().copied().collect(),
            merge: Some((true, 1.5)),
        };
        let chosen = |best, idle: &[usize]| choice(3, best, &results(idle));
        assert_eq!(chosen(NetworkKind::Socket, &[]), Choice::default());
        let all = Choice {
            rails: vec![0, 1, 2],
            merge: Some((true, 1.5)),
        };
        assert_eq!(chosen(NetworkKind::Gdr, &[]), all);
        // Merging was measured with all rails alone.
        assert_eq!(
            chosen(NetworkKind::Rdma, &[1]),
            Choice {
                rails: vec![0, 2],
                merge: None
            }
        );
        assert_eq!(chosen(NetworkKind::Rdma, &[0, 1, 2]).rails, [0, 1, 2]);
    }
}
