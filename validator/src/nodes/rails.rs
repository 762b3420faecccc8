//! The tests over the ports of all nodes: whether all rails together carry their shares, which pairs are bad, and whether a
//! port counted errors meanwhile.

use super::blame::{Network, blame_findings, infer, retry_rounds, rounds};
use super::card::switches;
use super::cluster::Cluster;
use super::judge::{RailBytes, idle_rails, lost_node_finding, port_error_findings};
use super::measure::{
    AllRailsResult, ClusterCounters, measure_all_rails, measure_rounds, read_counters,
};
use super::watcher::TestInfo;
use crate::nccl::advice::LEAST_GAIN;
use crate::nccl::ranks::NetworkKind;
use machine::host::rdma::Bytes;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity, Subject};
use outcome::table::{PortBytesRow, Table};
use outcome::text::count;
use std::collections::BTreeSet;

/// All rails at the same time.
pub(super) const RAILS: TestInfo = TestInfo {
    id: "nodes-nccl-rails",
    title: "NCCL over all rails",
    proves: "all rails together carry their shares of NCCL's data, by the counters of their ports",
};

/// The pairs of nodes.
pub(super) const PAIRS: TestInfo = TestInfo {
    id: "nodes-pairs",
    title: "Pairs of nodes",
    proves: "no node, port or rail is slower than the others, or wrong",
};

/// The errors that ports count.
pub(super) const PORTS: TestInfo = TestInfo {
    id: "nodes-ports",
    title: "Errors of RDMA ports",
    proves: "no RDMA port of any node counted an error of its link or lost a packet while the tests ran",
};

/// What the tests have found about the rails.
#[derive(Debug, Default)]
pub(super) struct RailResults {
    /// Rails that carried nearly nothing.
    pub(super) idle: BTreeSet<usize>,
    /// Whether NCCL should merge rails, and the gain as a factor; `None`: neither gains.
    pub(super) merge: Option<(bool, f64)>,
}

/// The name of a port: `node1 mlx5_0:1`
pub(super) fn port_name(cluster: &Cluster, node: usize, rail: usize) -> String {
    let hca = cluster
        .card(node)
        .and_then(|card| card.hcas.get(rail))
        .map_or("", String::as_str);
    format!("{} {hca}", cluster.name(node))
}

/// The number of rails that all nodes have.
pub(super) fn rail_count(cluster: &Cluster) -> usize {
    cluster
        .cards()
        .iter()
        .map(|card| card.hcas.len())
        .min()
        .unwrap_or_default()
}

/// Measures all rails together, with NCCL merging them and without. `kind`: the best network that has passed.
pub(super) fn test_all_rails(
    cluster: &mut Cluster,
    kind: NetworkKind,
    found: &mut RailResults,
) -> Judgement {
    let rails = rail_count(cluster);
    if rails < 2 {
        let what = if rails == 0 {
            "no node has an RDMA port that is ACTIVE"
        } else {
            "there is one rail"
        };
        return Judgement::not_applicable(what);
    }
    if !matches!(kind, NetworkKind::Rdma | NetworkKind::Gdr) {
        return Judgement::not_applicable("NCCL over RDMA has not passed, see nodes-nccl-rdma");
    }
    match missing_counters(cluster, rails) {
        Ok(None) => {}
        Ok(Some(judgement)) => return judgement,
        Err(why) => {
            return Judgement::by(Code::NodesRail.finding(Severity::Error, Subject::Nodes, why));
        }
    }
    let both = [false, true].map(|merge| measure_all_rails(cluster, kind, merge));
    let [Ok(apart), Ok(together)] = both else {
        let findings = both.into_iter().filter_map(Result::err).flatten().collect();
        return Judgement::summed_up(String::new, findings);
    };
    found.merge = merge_gain(apart.gb_s, together.gb_s);
    let used = if together.gb_s > apart.gb_s {
        &together
    } else {
        &apart
    };
    let parts: Vec<_> = (0..cluster.len())
        .map(|node| rail_bytes(cluster, used, node, rails))
        .collect();
    let (findings, idle) = idle_rails(&parts, used.bytes, &|node, rail| {
        port_name(cluster, node, rail)
    });
    found.idle.extend(idle);
    let good = || {
        let least = parts
            .iter()
            .filter_map(|part| part.least())
            .min_by(f64::total_cmp)
            .unwrap_or_default();
        format!(
            "{} carry their shares, the least {:.0} % of all bytes; {:.2} GB/s with NCCL_IB_MERGE_NICS=1, {:.2} GB/s with 0",
            count(rails, "rail"),
            least * 100.0,
            together.gb_s,
            apart.gb_s
        )
    };
    Judgement::summed_up(good, findings).with_tables(vec![table(cluster, &parts)])
}

/// The judgement if a port has no hardware counters, without which its share is unknown. RoCE in software has none.
fn missing_counters(cluster: &mut Cluster, rails: usize) -> Result<Option<Judgement>, String> {
    let counts = read_counters(cluster)?;
    let hardware = |bytes: &Option<Bytes>| bytes.is_some_and(|bytes| bytes.hardware);
    let mut findings = Vec::new();
    for (node, ports) in counts.iter().enumerate() {
        for (rail, counted) in ports
            .iter()
            .take(rails)
            .enumerate()
            .filter(|(_, c)| !hardware(&c.bytes))
        {
            let name = port_name(cluster, node, rail);
            let is_card = cluster
                .card(node)
                .is_some_and(|card| card.gbit_s.get(rail).is_some_and(Option::is_some));
            if !is_card && counted.bytes.is_some() {
                let why = format!("{name} is RoCE in software, which has no counters of its own");
                return Ok(Some(Judgement::not_applicable(why)));
            }
            findings.push(no_counters_finding(&name));
        }
    }
    Ok((!findings.is_empty()).then(|| Judgement::summed_up(String::new, findings)))
}

/// The finding about a port whose share cannot be measured.
pub(super) fn no_counters_finding(name: &str) -> Finding {
    let message = format!("{name} has no byte counters, so this rail's traffic cannot be measured");
    Code::NodesRail.finding(Severity::Warn, Subject::port(name), message)
}

/// The choice that is faster by more than 5 %, and its gain as a factor.
fn merge_gain(apart: f64, together: f64) -> Option<(bool, f64)> {
    let (merge, ratio) = if together > apart {
        (true, together / apart)
    } else {
        (false, apart / together)
    };
    (ratio.is_finite() && ratio > LEAST_GAIN).then_some((merge, ratio))
}

/// The bytes that each rail of a node carried, and its rate.
fn rail_bytes(
    cluster: &Cluster,
    measured: &AllRailsResult,
    node: usize,
    rails: usize,
) -> RailBytes {
    let of = |counts: &ClusterCounters, rail: usize| counts.get(node)?.get(rail)?.bytes;
    let [before, after] = &measured.counts;
    let since = |rail| {
        let (before, after) = (of(before, rail)?, of(after, rail)?);
        Some(after.since(&before))
    };
    let carried = (0..rails)
        .map(|rail| since(rail).unwrap_or_default())
        .collect();
    RailBytes {
        node,
        carried,
        gbit_s: cluster
            .card(node)
            .map(|card| card.gbit_s.clone())
            .unwrap_or_default(),
    }
}

fn table(cluster: &Cluster, parts: &[RailBytes]) -> Table {
    let rows = |part: &RailBytes| {
        let row = |(rail, (sent, received)): (usize, &(u64, u64))| PortBytesRow {
            rail,
            port: port_name(cluster, part.node, rail),
            sent: *sent,
            received: *received,
        };
        part.carried.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    Table::PortBytes(parts.iter().flat_map(rows).collect())
}

/// Measures all pairs of nodes in rounds, then the suspects again, and judges them.
pub(super) fn test_pairs(cluster: &mut Cluster, kind: NetworkKind) -> Judgement {
    let rails = if kind == NetworkKind::Socket {
        1
    } else {
        rail_count(cluster).max(1)
    };
    let (known, names, without) = match switches(&cluster.cards(), rails) {
        Ok(found) => (Some(found.of_ports), found.names, String::new()),
        Err(why) => (
            None,
            Vec::new(),
            why.map(|why| format!("; {why}")).unwrap_or_default(),
        ),
    };
    let network = Network {
        nodes: cluster.len(),
        rails,
        leaves: known,
    };
    let first = measure_rounds(cluster, &rounds(network.nodes, rails), kind);
    let before = infer(&network, &first, &[], None);
    let retried = measure_rounds(cluster, &retry_rounds(&before), kind);
    // The pairs of a lost node have no figures, which proves nothing about its speed.
    if let Some(lost) = lost_node_finding(cluster) {
        return Judgement::by(lost);
    }
    let inference = infer(&network, &first, &retried, None);
    let leaf = |leaf: usize| names.get(leaf).cloned().unwrap_or_else(|| leaf.to_string());
    let findings = blame_findings(&inference, &|node| cluster.name(node), &leaf);
    let usual = inference
        .usual_gb_s
        .map_or_else(|| "no rate".to_owned(), |rate| format!("{rate:.2} GB/s"));
    let good = || {
        let switches = if names.is_empty() {
            String::new()
        } else {
            format!(" and {} leaf switches", names.len())
        };
        format!(
            "{} pairs on {rails} rails{switches}: {usual} usual, none below {:.0} % of that{without}",
            first.len() / rails,
            80.0
        )
    };
    Judgement::summed_up(good, findings)
}

/// The errors that ports have counted since `before`.
pub(super) fn test_port_errors(
    cluster: &mut Cluster,
    before: &Result<ClusterCounters, String>,
) -> Judgement {
    let unread = |why: &String| {
        Judgement::by(Code::NodesPortErrors.finding(Severity::Error, Subject::Nodes, why.clone()))
    };
    let before = match before {
        Ok(before) => before,
        Err(why) => return unread(why),
    };
    let after = match read_counters(cluster) {
        Ok(after) => after,
        Err(why) => return unread(&why),
    };
    let known: usize = after
        .iter()
        .flatten()
        .map(|counted| counted.errors.len())
        .sum();
    let ports: usize = after.iter().map(Vec::len).sum();
    if known == 0 {
        let none = "no node has an RDMA port that is ACTIVE";
        return Judgement::not_applicable(if ports == 0 {
            none
        } else {
            "no RDMA port counts errors"
        });
    }
    let findings =
        port_error_findings(before, &after, &|node, rail| port_name(cluster, node, rail));
    let good = || {
        format!(
            "{known} counters of {}: none has grown",
            count(ports, "port")
        )
    };
    Judgement::summed_up(good, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_is_chosen_only_where_one_of_both_gains_more_than_5_percent() {
        assert_eq!(merge_gain(10.0, 16.0), Some((true, 1.6)));
        assert_eq!(merge_gain(16.0, 10.0), Some((false, 1.6)));
        for (apart, together) in [
            (10.0, 10.5),
            (10.5, 10.0),
            (0.0, 10.0),
            (0.0, 0.0),
            (f64::NAN, 1.0),
        ] {
            assert_eq!(merge_gain(apart, together), None, "{apart} {together}");
        }
    }
}
