//! What a node says of itself when it comes, and what two nodes must have in common.

use crate::outcome::finding::{Code, Finding, Severity};
use serde::{Deserialize, Serialize};

/// A node's first message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Its name, for messages.
    pub name: String,
    /// What tells it from every other node: its machine, and which of its GPUs take part.
    pub identity: String,
    /// Its machine, which processes of one launcher may share: host name and boot, by which NCCL tells machines, too.
    pub host: String,
    /// Whether it is the node that listens.
    pub hosts: bool,
    /// Its number, where a launcher has given it one.
    pub rank: Option<usize>,
    /// Names and versions that must be the same on all nodes.
    pub versions: Versions,
    /// How many GPUs take part.
    pub gpus: usize,
    /// Its RDMA ports that are ACTIVE, as `mlx5_0:1`, in order.
    pub hcas: Vec<String>,
    /// What each of them should carry in one direction, Gb/s, where that is known.
    pub gbit_s: Vec<Option<f64>>,
}

/// Versions; `None`: the node has none of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Versions {
    /// firstlight's.
    pub firstlight: String,
    /// The image's id.
    pub image: Option<String>,
    /// The NVIDIA driver's.
    pub driver: Option<String>,
}

/// One finding for each thing in which a node differs from the first one; it names both.
#[must_use]
pub fn differences(cards: &[&Card]) -> Vec<Finding> {
    let Some((first, others)) = cards.split_first() else { return Vec::new() };
    let things = |versions: &Versions| {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        [
            ("firstlight", versions.firstlight.clone(), Severity::Fail),
            ("the image", text(&versions.image), Severity::Warn),
            ("the driver", text(&versions.driver), Severity::Warn),
        ]
    };
    let mut findings = Vec::new();
    for other in others {
        for ((what, ours, severity), (_, theirs, _)) in
            things(&first.versions).into_iter().zip(things(&other.versions))
        {
            if ours != theirs {
                findings.push(differ(severity, what, (&first.name, &ours), (&other.name, &theirs)));
            }
        }
    }
    findings
}

/// Two nodes with different versions of something.
#[must_use]
pub fn differ(severity: Severity, what: &str, one: (&str, &str), other: (&str, &str)) -> Finding {
    let subject = format!("{} and {}", one.0, other.0);
    let message = format!("{what} is {} on node {}, and {} on node {}", one.1, one.0, other.1, other.0);
    Code::NodesDiffer.finding(severity, &subject, message).values(other.1, one.1, None)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn card(name: &str) -> Card {
        let versions = Versions {
            firstlight: "0.1.0".to_owned(),
            image: Some("1".to_owned()),
            driver: Some("550.163.01".to_owned()),
        };
        let (host, identity, hcas, gbit_s) =
            (name.to_owned(), format!("machine of {name}"), Vec::new(), Vec::new());
        Card {
            name: name.to_owned(),
            identity,
            host,
            hosts: false,
            rank: None,
            versions,
            gpus: 1,
            hcas,
            gbit_s,
        }
    }

    #[test]
    fn equal_nodes_have_no_findings_and_a_difference_names_both() {
        let (a, b, mut c) = (card("a"), card("b"), card("c"));
        assert!(differences(&[&a, &b, &c]).is_empty() && differences(&[]).is_empty());
        c.versions.driver = Some("580.1".to_owned());
        c.versions.image = None;
        let found = differences(&[&a, &b, &c]);
        let messages: Vec<_> = found.iter().map(|f| f.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "the image is 1 on node a, and none on node c",
                "the driver is 550.163.01 on node a, and 580.1 on node c"
            ]
        );
        assert!(found.iter().all(|f| f.severity == Severity::Warn && f.subject == "a and c"));
        c.versions.firstlight = "0.2.0".to_owned();
        assert_eq!(differences(&[&a, &c])[0].severity, Severity::Fail);
    }
}
