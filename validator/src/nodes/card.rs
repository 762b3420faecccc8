//! The description of itself that a node sends first, and what all nodes must have in common.

use outcome::finding::{Code, Finding, Severity, Subject};
use serde::{Deserialize, Serialize};

/// A node's first message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Its name, for messages.
    pub name: String,
    /// Distinguishes it from every other node: its machine, and which of its GPUs take part.
    pub identity: String,
    /// Its machine, which several processes of a launcher may share: host name and boot, which identify machines to NCCL too.
    pub host: String,
    /// Whether it is the node that listens.
    pub hosts: bool,
    /// Its rank, if a launcher has assigned one.
    pub rank: Option<usize>,
    /// Names and versions that must be the same on all nodes.
    pub versions: Versions,
    /// How many GPUs take part.
    pub gpus: usize,
    /// Its RDMA ports that are ACTIVE, as `mlx5_0:1`, in order.
    pub hcas: Vec<String>,
    /// The expected rate of each of them in one direction, Gb/s, if it is known.
    pub gbit_s: Vec<Option<f64>>,
    /// The leaf switch of each of them, or of all of them, if it is known.
    pub leaves: Leaves,
}

/// What a node knows about the leaf switches that its ports are connected to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Leaves {
    /// Nothing.
    #[default]
    Unknown,
    /// One name for the node: each rail may have a separate switch there.
    OfNode(String),
    /// One name for each rail; `None`: unknown.
    OfRails(Vec<Option<String>>),
}

/// The leaf switches of all nodes: that of each node's port on each rail, and their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switches {
    /// The switch's number, by node and rail.
    pub of_ports: Vec<Vec<usize>>,
    /// The names, by the switch's number.
    pub names: Vec<String>,
}

/// The leaf switches, if all nodes know theirs on the first `rails` rails.
///
/// # Errors
/// `None` if no node knows any; otherwise the first switch that is unknown.
pub fn switches(cards: &[&Card], rails: usize) -> Result<Switches, Option<String>> {
    if cards.iter().all(|card| card.leaves == Leaves::Unknown) {
        return Err(None);
    }
    let (mut of_ports, mut names) = (Vec::new(), Vec::<String>::new());
    for card in cards {
        let mut own = Vec::new();
        for rail in 0..rails {
            let name = match &card.leaves {
                Leaves::Unknown => None,
                Leaves::OfNode(leaf) if rails == 1 => Some(leaf.clone()),
                Leaves::OfNode(leaf) => Some(format!("{leaf} of rail {rail}")),
                Leaves::OfRails(all) => all.get(rail).cloned().flatten(),
            };
            let unknown = || {
                format!(
                    "the leaf switch of node {} on rail {rail} is unknown",
                    card.name
                )
            };
            let name = name.ok_or_else(|| Some(unknown()))?;
            let place = names.iter().position(|other| *other == name);
            own.push(place.unwrap_or(names.len()));
            if place.is_none() {
                names.push(name);
            }
        }
        of_ports.push(own);
    }
    Ok(Switches { of_ports, names })
}

/// Versions; `None`: the node does not have that component.
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
    let Some((first, others)) = cards.split_first() else {
        return Vec::new();
    };
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
        for ((what, ours, severity), (_, theirs, _)) in things(&first.versions)
            .into_iter()
            .zip(things(&other.versions))
        {
            if ours != theirs {
                findings.push(differ(
                    severity,
                    what,
                    (&first.name, &ours),
                    (&other.name, &theirs),
                ));
            }
        }
    }
    findings
}

/// Two nodes with different versions of something.
#[must_use]
pub fn differ(severity: Severity, what: &str, one: (&str, &str), other: (&str, &str)) -> Finding {
    let subject = Subject::node(format_args!("{} and {}", one.0, other.0));
    let message = format!(
        "{what} is {} on node {}, and {} on node {}",
        one.1, one.0, other.1, other.0
    );
    Code::NodesDiffer
        .finding(severity, subject, message)
        .values(other.1, one.1, None)
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
        let (host, identity, hcas, gbit_s) = (
            name.to_owned(),
            format!("machine of {name}"),
            Vec::new(),
            Vec::new(),
        );
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
            leaves: Leaves::Unknown,
        }
    }

    #[test]
    fn a_leaf_switch_of_a_node_is_another_one_on_each_rail_unless_the_rails_name_it() {
        let with = |leaves| Card {
            leaves,
            ..card("a")
        };
        let node = |leaf: &str| with(Leaves::OfNode(leaf.to_owned()));
        let rails = |leaves: &[&str]| {
            with(Leaves::OfRails(
                leaves.iter().map(|l| Some((*l).to_owned())).collect(),
            ))
        };
        let of = |cards: &[Card], rails| switches(&cards.iter().collect::<Vec<_>>(), rails);
        let found = of(&[node("x"), node("x"), node("y")], 2).unwrap();
        assert_eq!(found.of_ports, [[0, 1], [0, 1], [2, 3]]);
        assert_eq!(
            found.names,
            ["x of rail 0", "x of rail 1", "y of rail 0", "y of rail 1"]
        );
        let found = of(&[rails(&["x", "x"]), rails(&["x", "y"])], 2).unwrap();
        assert_eq!(
            (found.of_ports, found.names.len()),
            (vec![vec![0, 0], vec![0, 1]], 2)
        );
        assert_eq!(of(&[node("x")], 1).unwrap().names, ["x"]);
        assert_eq!(of(&[card("a"), card("b")], 1), Err(None));
        let why = "the leaf switch of node a on rail 0 is unknown";
        assert_eq!(of(&[node("x"), card("a")], 1), Err(Some(why.to_owned())));
    }

    #[test]
    fn equal_nodes_have_no_findings_and_a_difference_names_both() {
        let (a, b, mut c) = (card("a"), card("b"), card("c"));
        assert!(differences(&[&a, &b, &c]).is_empty() && differences(&[]).is_empty());
        c.versions.driver = Some("580.1".to_owned());
        c.versions.image = None;
        let found = differences(&[&a, &b, &c]);
        let messages: Vec<_> = found.iter().map(|f| &*f.message).collect();
        assert_eq!(
            messages,
            [
                "the image is 1 on node a, and none on node c",
                "the driver is 550.163.01 on node a, and 580.1 on node c"
            ]
        );
        assert!(
            found
                .iter()
                .all(|f| f.severity == Severity::Warn && f.subject == "a and c")
        );
        c.versions.firstlight = "0.2.0".to_owned();
        assert_eq!(differences(&[&a, &c])[0].severity, Severity::Fail);
    }
}
