//! Derives findings from the measurements over nodes.

use super::card::differ;
use super::cluster::Cluster;
use super::communicators::{Communicator, StopReason};
use crate::nccl::log::Proof;
use crate::nccl::ranks::{NetworkKind, TroubleKind};
use crate::nccl::{Row, Wrongs};
use machine::Rank;
use machine::host::rdma::RdmaCounters;
use outcome::finding::{Code, Finding, Severity, Subject};
use std::collections::BTreeSet;

/// The factor by which GPUDirect must improve the bandwidth of the largest size or the time of the smallest.
const MIN_GAIN: f64 = 1.05;

/// The finding about why a communicator has ended.
fn stop_finding(stop: &StopReason, cluster: &Cluster) -> Finding {
    match stop {
        StopReason::Lost { node, why, doing } => {
            let name = cluster.name(*node);
            Code::NodesLost.finding(
                Severity::Error,
                Subject::node(&name),
                format!("node {name}, {doing}: {why}"),
            )
        }
        StopReason::Failed {
            node,
            failure,
            doing,
        } => {
            let name = cluster.name(*node);
            let (code, severity) = match failure.kind {
                TroubleKind::Hang => (Code::NcclHang, Severity::Error),
                TroubleKind::NoTransport => (Code::NodesPath, Severity::Fail),
                TroubleKind::Missing => (Code::NcclMissing, Severity::Error),
                _ => (Code::NcclError, Severity::Error),
            };
            let text = if failure.text.starts_with(doing.as_str()) {
                format!("node {name}: {}", failure.text)
            } else {
                format!("node {name}, {doing}: {}", failure.text)
            };
            code.finding(severity, Subject::node(&name), text)
                .seen_all(failure.lines.clone())
        }
        StopReason::Versions([one, other]) => {
            let names = [one, other].map(|(node, _)| cluster.name(*node));
            let versions = [one, other].map(|(_, version)| crate::nccl::version_text(*version));
            let [a, b] = &names;
            let [x, y] = &versions;
            differ(Severity::Fail, "NCCL", (a, x), (b, y))
        }
    }
}

/// The findings about an ended communicator. NCCL on the other nodes often fails before the kernel reports that the
/// connection to a node is lost; the finding about the lost node comes last.
pub(super) fn stop_findings(stop: &StopReason, cluster: &Cluster) -> Vec<Finding> {
    let lost = lost_node_finding(cluster).filter(|_| !matches!(stop, StopReason::Lost { .. }));
    [Some(stop_finding(stop, cluster)), lost]
        .into_iter()
        .flatten()
        .collect()
}

/// The finding about the first node whose connection is lost.
pub(super) fn lost_node_finding(cluster: &Cluster) -> Option<Finding> {
    let (node, why) = cluster.lost()?;
    let name = cluster.name(node);
    Some(Code::NodesLost.finding(
        Severity::Error,
        Subject::node(&name),
        format!("node {name} is lost: {why}"),
    ))
}

/// The findings about wrong values, and about changed memory beside buffers: one for each node.
pub(super) fn wrong_data_findings(
    rows: &[Row],
    communicator: &Communicator,
    cluster: &Cluster,
) -> Vec<Finding> {
    let name_of = |rank: Rank| {
        let device = communicator.devices.get(rank.index());
        device.map_or_else(
            || format!("of rank {rank}"),
            |(node, _)| cluster.name(*node),
        )
    };
    let placements = rows
        .iter()
        .flat_map(|row| [(row, &row.out_of_place), (row, &row.in_place)]);
    let wrongs: Vec<_> = placements
        .filter_map(|(row, timed)| Some((row, timed.wrong.as_ref()?)))
        .collect();
    let mut findings: Vec<Finding> = Vec::new();
    let mut add = |finding: Finding| {
        if !findings
            .iter()
            .any(|other| other.code == finding.code && other.subject == finding.subject)
        {
            findings.push(finding);
        }
    };
    for (
        row,
        Wrongs {
            count,
            looked,
            first,
            stray,
            ..
        },
    ) in wrongs
    {
        if let Some(first) = first {
            let message = format!(
                "{} of {} B: {count} of {looked} values are wrong; element {} of rank {} (node {}) is {}, expected {}",
                row.collective,
                row.bytes,
                first.element,
                first.rank,
                name_of(first.rank),
                first.found,
                first.expected
            );
            let finding = Code::NodesWrongData.finding(
                Severity::Fail,
                Subject::node(name_of(first.rank)),
                message,
            );
            add(finding.values(*count, 0, Some("values")));
        } else if *count > 0 {
            let message = format!(
                "{} of {} B: {count} of {looked} values are wrong",
                row.collective, row.bytes
            );
            add(Code::NodesWrongData.finding(Severity::Fail, Subject::Nodes, message));
        }
        if let Some(stray) = stray {
            let name = name_of(stray.rank);
            let message = format!(
                "{} of {} B: memory {} B beside a buffer of rank {} (node {name}) was changed: {}",
                row.collective, row.bytes, stray.distance, stray.rank, stray.found
            );
            add(Code::NcclStray.finding(Severity::Fail, Subject::node(&name), message));
        }
    }
    findings
}

/// The finding if NCCL's log does not prove the wanted transport between the nodes.
pub(super) fn transport_finding(proof: &Proof, kind: NetworkKind) -> Option<Finding> {
    let wanted = match kind {
        NetworkKind::Any => "a network",
        NetworkKind::Socket => "NET/Socket",
        NetworkKind::Rdma => "NET/IB without GDRDMA",
        NetworkKind::Gdr => "NET/IB with GDRDMA",
    };
    match proof {
        Proof::Proven(_) => None,
        Proof::Disproven(lines) => {
            let first = lines.first().map_or("", String::as_str);
            let message =
                format!("ranks of different nodes are not all connected by {wanted}: {first}");
            Some(
                Code::NodesPath
                    .finding(Severity::Fail, Subject::Nodes, message)
                    .seen_all(lines.clone()),
            )
        }
        Proof::Unproven(why) => {
            let message = format!("NCCL's log does not prove {wanted} between the nodes: {why}");
            Some(Code::NodesPath.finding(Severity::Error, Subject::Nodes, message))
        }
    }
}

/// The finding if GPUDirect RDMA is not faster than transfers through the host's memory.
pub(super) fn gpudirect_finding(direct: &[Row], staged: &[Row]) -> Option<Finding> {
    let best = |rows: &[Row]| {
        rows.iter()
            .map(|row| row.busbw(&row.out_of_place))
            .fold(0.0, f64::max)
    };
    let least = |rows: &[Row]| {
        rows.iter()
            .map(|row| row.out_of_place.us)
            .filter(|us| *us > 0.0)
            .fold(f64::INFINITY, f64::min)
    };
    let (with, without) = (best(direct), best(staged));
    let (fast, slow) = (least(direct), least(staged));
    if with >= without * MIN_GAIN || slow >= fast * MIN_GAIN {
        return None;
    }
    let message = format!(
        "with GPUDirect RDMA {with:.2} GB/s and at least {fast:.1} us, through the host's memory {without:.2} GB/s and {slow:.1} us: \
         one of the two should be {:.0} % better",
        (MIN_GAIN - 1.0) * 100.0
    );
    let finding = Code::NodesGdrStaged.finding(Severity::Warn, Subject::Nodes, message);
    Some(finding.values(with, without * MIN_GAIN, Some("GB/s")))
}

/// The bytes that each rail of a node has carried.
#[derive(Debug, Clone)]
pub(super) struct RailBytes {
    /// The node.
    pub(super) node: usize,
    /// Bytes sent and received by each rail.
    pub(super) carried: Vec<(u64, u64)>,
    /// The rate of each, Gb/s, if it is known.
    pub(super) gbit_s: Vec<Option<f64>>,
}

/// A rail that carried less than this fraction of its share counts as idle.
const IDLE_FRACTION: f64 = 0.1;

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
impl RailBytes {
    fn total(&self) -> u64 {
        self.carried
            .iter()
            .map(|(sent, received)| sent.saturating_add(*received))
            .sum()
    }

    /// The fraction of all bytes that a rail carried.
    fn fraction(&self, rail: usize) -> f64 {
        let (sent, received) = self.carried.get(rail).copied().unwrap_or_default();
        sent.saturating_add(received) as f64 / self.total().max(1) as f64
    }

    /// The smallest fraction of all rails.
    pub(super) fn least(&self) -> Option<f64> {
        (0..self.carried.len())
            .map(|rail| self.fraction(rail))
            .min_by(f64::total_cmp)
    }

    /// The fraction that a rail should carry: by the rates of the ports, or equal for all if one rate is unknown.
    fn share(&self, rail: usize) -> f64 {
        let rates: Option<Vec<f64>> = self.gbit_s.iter().copied().collect();
        let rates = rates
            .filter(|rates| rates.len() == self.carried.len() && rates.iter().all(|r| *r > 0.0));
        let equal = 1.0 / self.carried.len().max(1) as f64;
        rates.map_or(equal, |rates| {
            rates
                .get(rail)
                .map_or(equal, |own| own / rates.iter().sum::<f64>())
        })
    }
}

/// The rails that were idle while each node sent at least `bytes`, and the findings about them; `name` returns a port's
/// name.
pub(super) fn idle_rails(
    all: &[RailBytes],
    bytes: u64,
    name: &dyn Fn(usize, usize) -> String,
) -> (Vec<Finding>, BTreeSet<usize>) {
    let (mut findings, mut idle) = (Vec::new(), BTreeSet::new());
    for carried in all {
        let sum = carried.total();
        let is_none = |rail: &usize| {
            sum < bytes || carried.fraction(*rail) < IDLE_FRACTION * carried.share(*rail)
        };
        for rail in (0..carried.carried.len()).filter(is_none) {
            idle.insert(rail);
            let (name, (sent, received)) = (
                name(carried.node, rail),
                carried.carried.get(rail).copied().unwrap_or_default(),
            );
            let message = if sum < bytes {
                format!(
                    "{name} counted {sent} B sent and {received} B received, all ports of the node {sum} B, while NCCL sent {bytes} B over them"
                )
            } else {
                format!(
                    "{name} carried {:.1} % of NCCL's bytes ({sent} B sent, {received} B received); its share is {:.0} %",
                    100.0 * carried.fraction(rail),
                    100.0 * carried.share(rail)
                )
            };
            let found = 100.0 * carried.fraction(rail);
            let finding = Code::NodesRail.finding(Severity::Warn, Subject::port(&name), message);
            findings.push(finding.values(found, 100.0 * carried.share(rail), Some("%")));
        }
    }
    (findings, idle)
}

/// The findings about error counters that have risen between two readings; `name` returns a port's name.
pub(super) fn port_error_findings(
    before: &[Vec<RdmaCounters>],
    after: &[Vec<RdmaCounters>],
    name: &dyn Fn(usize, usize) -> String,
) -> Vec<Finding> {
    let nodes = before.iter().zip(after).enumerate();
    let ports = nodes.flat_map(|(node, (before, after))| {
        before
            .iter()
            .zip(after)
            .enumerate()
            .map(move |(rail, pair)| (node, rail, pair))
    });
    let of_port =
        |(node, rail, (before, after)): (usize, usize, (&RdmaCounters, &RdmaCounters))| {
            let name = name(node, rail);
            let finding = |(counter, then, now): (&str, u64, u64)| {
                let message = format!(
                    "{name}: its counter {counter} rose from {then} to {now} while the tests ran"
                );
                Code::NodesPortErrors
                    .finding(Severity::Warn, Subject::port(&name), message)
                    .values(now, then, None)
            };
            after
                .grown(before)
                .into_iter()
                .map(finding)
                .collect::<Vec<_>>()
        };
    ports.flat_map(of_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(carried: &[(u64, u64)], gbit_s: &[Option<f64>]) -> (Vec<String>, Vec<usize>) {
        let carried = RailBytes {
            node: 1,
            carried: carried.to_vec(),
            gbit_s: gbit_s.to_vec(),
        };
        let (findings, idle) =
            idle_rails(&[carried], 1000, &|node, rail| format!("n{node} r{rail}"));
        assert!(
            findings
                .iter()
                .all(|f| f.code.as_str() == "NODES-RAIL" && f.severity == Severity::Warn)
        );
        (
            findings
                .into_iter()
                .map(|f| f.message.to_string())
                .collect(),
            idle.into_iter().collect(),
        )
    }

    #[test]
    fn a_rail_is_idle_by_its_share_of_what_was_counted() {
        assert_eq!(
            carried(&[(600, 500), (400, 500)], &[None, None]),
            (vec![], vec![])
        );
        assert_eq!(
            carried(&[(1800, 100), (50, 50)], &[None, None]),
            (vec![], vec![]),
            "5 of 50 % is no nothing"
        );
        let (messages, idle) = carried(&[(1900, 60), (20, 20)], &[Some(400.0), Some(400.0)]);
        let message =
            "n1 r1 carried 2.0 % of NCCL's bytes (20 B sent, 20 B received); its share is 50 %";
        assert_eq!((messages, idle), (vec![message.to_owned()], vec![1]));
        // A port with a twentieth of the rate has a twentieth of the bytes.
        assert_eq!(
            carried(&[(1900, 60), (20, 20)], &[Some(400.0), Some(20.0)]),
            (vec![], vec![])
        );
    }

    #[test]
    fn counters_that_stand_still_prove_no_rail() {
        let (messages, idle) = carried(&[(300, 0), (300, 0)], &[None, None]);
        assert_eq!(idle, [0, 1]);
        let message = "n1 r0 counted 300 B sent and 0 B received, all ports of the node 600 B, while NCCL sent 1000 B over them";
        assert_eq!(messages[0], message);
    }
}
