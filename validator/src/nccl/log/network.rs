//! What a log proves about the network between nodes.

use super::{LinkSide, NcclLog, Pairs, Proof, Transport};
use crate::nccl::ranks::NetworkKind;
use machine::Rank;
use std::collections::{BTreeMap, BTreeSet};

impl NcclLog {
    /// Judges whether all data between `ranks` ranks on several nodes used the network that was allowed. `node` returns a
    /// rank's node. NCCL names the network in both ranks' lines: `NET/Socket/0`, `NET/IB/0`, `NET/IB/0/GDRDMA`.
    #[must_use]
    pub fn proves_network(
        &self,
        ranks: usize,
        node: &dyn Fn(Rank) -> usize,
        kind: NetworkKind,
    ) -> Proof {
        let between: Vec<_> = self
            .links
            .iter()
            .filter(|link| node(link.from) != node(link.to))
            .collect();
        let wrong: BTreeSet<_> = between
            .iter()
            .filter(|link| link.transport != Transport::Net || !is_of(kind, &link.suffix))
            .map(|link| format!("{} -> {} via {}", link.from, link.to, link.text()))
            .collect();
        let none = self
            .unconnected
            .iter()
            .map(|(a, b)| format!("no transport between ranks {a} and {b}"));
        let wrong: Vec<_> = wrong.into_iter().chain(none).collect();
        if !wrong.is_empty() {
            return Proof::Disproven(wrong);
        }
        if let Some(why) = self.missing_evidence(ranks, Pairs::Ring) {
            return Proof::Unproven(why);
        }
        let mut pairs = BTreeMap::<_, BTreeSet<LinkSide>>::new();
        for link in &between {
            pairs
                .entry((link.from, link.to))
                .or_default()
                .insert(link.side);
        }
        if pairs.is_empty() {
            return Proof::Unproven("NCCL logged no connection between nodes".to_owned());
        }
        let names: BTreeSet<_> = between.iter().map(|link| short(&link.text())).collect();
        let names: Vec<_> = names.into_iter().collect();
        let ordered = if pairs.len() == 1 {
            "ordered pair"
        } else {
            "ordered pairs"
        };
        Proof::Proven(format!(
            "{} for {} {ordered} of ranks on different nodes",
            names.join(" and "),
            pairs.len()
        ))
    }
}

fn is_of(kind: NetworkKind, suffix: &str) -> bool {
    let direct = suffix
        .split('/')
        .any(|word| word == "GDRDMA" || word.starts_with("GDRDMA("));
    match kind {
        NetworkKind::Any => true,
        NetworkKind::Socket => suffix.starts_with("/Socket/"),
        NetworkKind::Rdma => suffix.starts_with("/IB/") && !direct,
        NetworkKind::Gdr => suffix.starts_with("/IB/") && direct,
    }
}

/// Removes the number of the rank that passes the data on: `NET/IB/0(3)/GDRDMA` becomes `NET/IB/0/GDRDMA`.
fn short(text: &str) -> String {
    text.split('/')
        .map(|word| word.split('(').next().unwrap_or(word))
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of two nodes with two ranks each; `way` is the transport between the nodes.
    fn log(way: &str, skip: Option<&str>) -> String {
        let mut log = "vm:1:1 [0] NCCL INFO Channel 00/01 : 0 1 2 3\n".to_owned();
        for (from, to) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
            let inside = from / 2 == to / 2;
            let lines = if inside {
                vec![("", "P2P/CUMEM")]
            } else {
                vec![("[send] ", way), ("[receive] ", way)]
            };
            for (half, way) in lines {
                let line = format!(
                    "vm:1:1 [0] NCCL INFO Channel 00/0 : {from}[0] -> {to}[1] {half}via {way}\n"
                );
                log += &line;
            }
        }
        let kept = log
            .lines()
            .filter(|line| skip.is_none_or(|skip| !line.contains(skip)));
        kept.map(|line| format!("{line}\n")).collect()
    }

    fn proof(log: &str, kind: NetworkKind) -> Proof {
        NcclLog::read(log).proves_network(4, &|rank| rank.index() / 2, kind)
    }

    #[test]
    fn each_network_is_proven_by_its_own_lines_only() {
        let ways = [
            ("NET/Socket/0", NetworkKind::Socket, "NET/Socket/0"),
            ("NET/IB/0", NetworkKind::Rdma, "NET/IB/0"),
            ("NET/IB/0(3)/GDRDMA", NetworkKind::Gdr, "NET/IB/0/GDRDMA"),
            (
                "NET/IB/1/GDRDMA(PCI)/Shared",
                NetworkKind::Gdr,
                "NET/IB/1/GDRDMA/Shared",
            ),
        ];
        for (way, kind, name) in ways {
            let text = format!("{name} for 2 ordered pairs of ranks on different nodes");
            assert_eq!(proof(&log(way, None), kind), Proof::Proven(text));
            assert!(matches!(
                proof(&log(way, None), NetworkKind::Any),
                Proof::Proven(_)
            ));
            for (_, other, _) in ways.iter().filter(|(_, other, _)| *other != kind) {
                assert!(
                    matches!(proof(&log(way, None), *other), Proof::Disproven(_)),
                    "{way} {other:?}"
                );
            }
        }
        assert!(matches!(
            proof(&log("SHM/direct", None), NetworkKind::Any),
            Proof::Disproven(_)
        ));
    }

    #[test]
    fn a_missing_line_is_no_proof() {
        for skip in [
            "1[0] -> 2[1] [send]",
            "3[0] -> 0[1] [receive]",
            "Channel 00/01 :",
            "via",
        ] {
            let proof = proof(&log("NET/IB/0", Some(skip)), NetworkKind::Rdma);
            assert!(matches!(proof, Proof::Unproven(_)), "{skip}: {proof:?}");
        }
    }
}
