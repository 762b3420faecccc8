//! From what was measured over nodes to findings.

use super::arm::{Group, Stop};
use super::blame::Inference;
use super::card::differ;
use super::cluster::Cluster;
use crate::machine::Rank;
use crate::nccl::log::Proof;
use crate::nccl::ranks::{NetworkKind, TroubleKind};
use crate::nccl::{Row, Wrongs};
use crate::outcome::finding::{Code, Finding, Severity};

/// What GPUDirect must gain at least in one of the two, bandwidth of the largest size or time of the smallest.
const GAIN: f64 = 1.05;

/// Why a communicator has ended.
pub(super) fn stopped(stop: &Stop, cluster: &Cluster) -> Finding {
    match stop {
        Stop::Lost { node, why, doing } => {
            let name = cluster.name(*node);
            Code::NodesLost.finding(Severity::Error, &name, format!("node {name}, {doing}: {why}"))
        }
        Stop::Failed { node, failure, doing } => {
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
            code.finding(severity, &name, text).seen_all(failure.lines.clone())
        }
        Stop::Versions([one, other]) => {
            let names = [one, other].map(|(node, _)| cluster.name(*node));
            let versions = [one, other].map(|(_, version)| version_text(*version));
            let [a, b] = &names;
            let [x, y] = &versions;
            differ(Severity::Fail, "NCCL", (a, x), (b, y))
        }
    }
}

/// The first node that is gone.
pub(super) fn gone(cluster: &Cluster) -> Option<Finding> {
    let (node, why) = cluster.lost()?;
    let name = cluster.name(node);
    Some(Code::NodesLost.finding(Severity::Error, &name, format!("node {name} is lost: {why}")))
}

/// `2.29.7` for 22907.
pub(super) fn version_text(number: u32) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

/// Wrong values and changes beside buffers: one finding for each node where they were found.
pub(super) fn wrong(rows: &[Row], group: &Group, cluster: &Cluster) -> Vec<Finding> {
    let name_of = |rank: Rank| {
        let device = group.devices.get(rank.index());
        device.map_or_else(|| format!("of rank {rank}"), |(node, _)| cluster.name(*node))
    };
    let placed = rows.iter().flat_map(|row| [(row, &row.out_of_place), (row, &row.in_place)]);
    let wrongs: Vec<_> = placed.filter_map(|(row, timed)| Some((row, timed.wrong.as_ref()?))).collect();
    let mut findings: Vec<Finding> = Vec::new();
    let mut add = |finding: Finding| {
        if !findings.iter().any(|other| other.code == finding.code && other.subject == finding.subject) {
            findings.push(finding);
        }
    };
    for (row, Wrongs { count, looked, first, stray, .. }) in wrongs {
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
            let finding = Code::NodesWrongData.finding(Severity::Fail, &name_of(first.rank), message);
            add(finding.values(*count, 0, Some("values")));
        } else if *count > 0 {
            let message =
                format!("{} of {} B: {count} of {looked} values are wrong", row.collective, row.bytes);
            add(Code::NodesWrongData.finding(Severity::Fail, "nodes", message));
        }
        if let Some(stray) = stray {
            let name = name_of(stray.rank);
            let message = format!(
                "{} of {} B: memory {} B beside a buffer of rank {} (node {name}) was changed: {}",
                row.collective, row.bytes, stray.distance, stray.rank, stray.found
            );
            add(Code::NcclStray.finding(Severity::Fail, &name, message));
        }
    }
    findings
}

/// The transport that NCCL's lines prove.
pub(super) fn path(proof: &Proof, kind: NetworkKind) -> Option<Finding> {
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
            let message = format!("ranks of different nodes are not all connected by {wanted}: {first}");
            Some(Code::NodesPath.finding(Severity::Fail, "nodes", message).seen_all(lines.clone()))
        }
        Proof::Unproven(why) => {
            let message = format!("NCCL's log does not prove {wanted} between the nodes: {why}");
            Some(Code::NodesPath.finding(Severity::Error, "nodes", message))
        }
    }
}

/// Whether GPUDirect gains over the host's memory.
pub(super) fn gain(direct: &[Row], staged: &[Row]) -> Option<Finding> {
    let best = |rows: &[Row]| rows.iter().map(|row| row.busbw(&row.out_of_place)).fold(0.0, f64::max);
    let least = |rows: &[Row]| {
        rows.iter().map(|row| row.out_of_place.us).filter(|us| *us > 0.0).fold(f64::INFINITY, f64::min)
    };
    let (with, without) = (best(direct), best(staged));
    let (fast, slow) = (least(direct), least(staged));
    if with >= without * GAIN || slow >= fast * GAIN {
        return None;
    }
    let message = format!(
        "with GPUDirect RDMA {with:.2} GB/s and at least {fast:.1} us, through the host's memory {without:.2} GB/s and {slow:.1} us: \
         one of the two should be {:.0} % better",
        (GAIN - 1.0) * 100.0
    );
    let finding = Code::NodesGdrStaged.finding(Severity::Warn, "nodes", message);
    Some(finding.values(with, without * GAIN, Some("GB/s")))
}

/// The parts at fault, from measurements between pairs; `name` gives a node's name.
pub(super) fn blamed(inference: &Inference, name: &dyn Fn(usize) -> String) -> Vec<Finding> {
    let bad = inference.blames.iter().map(|blame| {
        let part = blame.part.text(name);
        let message = format!("{part}: {}", blame.figures.text(inference));
        Code::NodesBad.finding(Severity::Fail, &part, message)
    });
    let unclear = inference.unclear.iter().map(|unclear| {
        let text = unclear.text(name);
        Code::NodesUnclear.finding(Severity::Fail, "nodes", text)
    });
    let passing = inference.passing.iter().map(|port| {
        let name = name(port.node);
        let message =
            format!("node {name} was bad with most others on rail {}, and good when tried again", port.rail);
        Code::NodesUnclear.finding(Severity::Warn, &name, message)
    });
    bad.chain(unclear).chain(passing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::blame::{Part, Port, Unclear};

    #[test]
    fn a_fault_without_a_place_fails_and_one_that_passes_warns() {
        let unclear =
            Unclear { candidates: vec![Part::Node(2), Part::Node(6)], why: "only the way between them" };
        let passing = Port { node: 4, rail: 0 };
        let inference = Inference { unclear: vec![unclear], passing: vec![passing], ..Inference::default() };
        let found = blamed(&inference, &|node| format!("n{node}"));
        let found: Vec<_> = found.iter().map(|f| (f.code.as_str(), f.severity, f.message.as_str())).collect();
        let expected = [
            ("NODES-UNCLEAR", Severity::Fail, "node n2 or node n6: only the way between them"),
            (
                "NODES-UNCLEAR",
                Severity::Warn,
                "node n4 was bad with most others on rail 0, and good when tried again",
            ),
        ];
        assert_eq!(found, expected);
    }
}
