//! The test of all pairs of nodes, round by round, and what follows from it.

use super::arm::{Ask, Groups};
use super::blame::{Got, Measure, Network, Round, again, infer, rounds};
use super::cluster::Cluster;
use super::judge::{blamed, gone};
use crate::gpu::Collective;
use crate::machine::Rank;
use crate::nccl::Sweep;
use crate::nccl::ranks::{NetworkKind, RowAsk};
use crate::outcome::Judgement;
use std::time::Duration;

/// The time limit of the start of two nodes.
const START_OF_PAIRS: Duration = Duration::from_secs(45);
/// The size of a measurement, bytes.
const OF_PAIRS: u64 = 32 << 20;

/// All pairs of nodes in rounds, the suspects again, and what follows.
pub(super) fn pairs(cluster: &mut Cluster, kind: NetworkKind) -> Judgement {
    let ports = cluster.cards().iter().map(|card| card.hcas.len()).min().unwrap_or_default();
    let rails = if kind == NetworkKind::Socket { 1 } else { ports.max(1) };
    let network = Network { nodes: cluster.len(), rails, leaves: None };
    let first = measure(cluster, &rounds(network.nodes, rails), kind);
    let before = infer(&network, &first, &[], None);
    let retried = measure(cluster, &again(&before), kind);
    // Its pairs have no figures, which says nothing of how fast it was.
    if let Some(lost) = gone(cluster) {
        return Judgement::by(lost);
    }
    let inference = infer(&network, &first, &retried, None);
    let findings = blamed(&inference, &|node| cluster.name(node));
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
