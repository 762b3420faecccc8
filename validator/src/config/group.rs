//! GPUs as users name them, by number or address, and groups of them; and groups of nodes by leaf switch.

use super::Expect;
use machine::pcie::model::Bdf;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GpuName {
    /// Its number, counted by address from 0.
    Number(usize),
    /// Its address.
    Address(Bdf),
}

impl fmt::Display for GpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Address(bdf) => write!(f, "{bdf}"),
        }
    }
}

impl FromStr for GpuName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "'{text}' is not a GPU; allowed are a number or an address, such as 2 or 0000:41:00.0"
            )
        };
        // The domain may be omitted, as in `lspci`.
        let address = || {
            text.parse()
                .or_else(|_| format!("0000:{text}").parse())
                .ok()
        };
        text.parse()
            .map(Self::Number)
            .ok()
            .or_else(|| address().map(Self::Address))
            .ok_or_else(bad)
    }
}

impl GpuName {
    /// The number of that GPU among `gpus`, which are ordered by address.
    #[must_use]
    pub fn among(&self, gpus: &[Bdf]) -> Option<usize> {
        match self {
            Self::Number(number) => Some(*number).filter(|n| *n < gpus.len()),
            Self::Address(bdf) => gpus.iter().position(|gpu| gpu == bdf),
        }
    }
}

/// Groups by number among `gpus`.
///
/// # Errors
/// A name that is not a GPU, or one that was named before.
pub fn numbered(groups: &[Vec<GpuName>], gpus: &[Bdf]) -> Result<Vec<Vec<usize>>, String> {
    let mut seen = Vec::new();
    let mut find = |name: &GpuName| {
        let number = name
            .among(gpus)
            .ok_or_else(|| format!("names GPU {name}, but there are {}", gpus.len()))?;
        if seen.contains(&number) {
            return Err(format!("names GPU {number} twice"));
        }
        seen.push(number);
        Ok(number)
    };
    groups
        .iter()
        .map(|group| group.iter().map(&mut find).collect())
        .collect()
}

impl Expect {
    /// The groups of [`Expect::peers`] by address; none if it is not set or does not fit `gpus`, which the test `gpus` reports.
    #[must_use]
    pub fn demanded(&self, gpus: &[Bdf]) -> Vec<Vec<Bdf>> {
        let groups = self
            .peers
            .as_ref()
            .and_then(|groups| numbered(groups, gpus).ok());
        let at = |group: &Vec<usize>| group.iter().filter_map(|n| gpus.get(*n).copied()).collect();
        groups.unwrap_or_default().iter().map(at).collect()
    }
}

/// A leaf switch, and nodes whose ports lead to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaf {
    /// Its name.
    pub name: String,
    /// The rail of these ports; `None`: all rails, each of which may have its own switch in that place.
    pub rail: Option<usize>,
    /// The names of the nodes.
    pub nodes: Vec<String>,
}

impl FromStr for Leaf {
    type Err = String;

    /// `leaf1: node1 node2`, `leaf1/0: node1 node2`
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("'{text}' is not a leaf switch with its nodes, such as 'leaf1: node1 node2'")
        };
        let (place, nodes) = text.split_once(':').ok_or_else(bad)?;
        let (name, rail) = match place.trim().rsplit_once('/') {
            Some((name, rail)) => (name, Some(rail.parse().map_err(|_| bad())?)),
            None => (place.trim(), None),
        };
        let nodes: Vec<_> = nodes.split_whitespace().map(str::to_owned).collect();
        let is_name = !name.is_empty() && !name.contains(char::is_whitespace) && !nodes.is_empty();
        is_name
            .then(|| Self {
                name: name.to_owned(),
                rail,
                nodes,
            })
            .ok_or_else(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus() -> Vec<Bdf> {
        ["0000:01:00.0", "0000:41:00.0", "0001:01:00.0"]
            .map(|bdf| bdf.parse().unwrap())
            .to_vec()
    }

    #[test]
    fn a_gpu_is_named_by_number_or_address() {
        let among = |text: &str| text.parse::<GpuName>().unwrap().among(&gpus());
        assert_eq!(
            ["2", "41:00.0", "0001:01:00.0"].map(among),
            [Some(2), Some(1), Some(2)]
        );
        assert_eq!(["3", "42:00.0"].map(among), [None, None]);
        for text in ["", "x", "-1", "1.0", "0000:41:00", "GPU-00000000"] {
            assert!(
                text.parse::<GpuName>()
                    .unwrap_err()
                    .contains("0000:41:00.0"),
                "{text}"
            );
        }
    }

    #[test]
    fn groups_name_each_gpu_once() {
        let name = |text: &str| text.parse::<GpuName>().unwrap();
        let groups = |names: &[&[&str]]| {
            let names: Vec<Vec<_>> = names
                .iter()
                .map(|g| g.iter().map(|n| name(n)).collect())
                .collect();
            numbered(&names, &gpus())
        };
        assert_eq!(
            groups(&[&["0", "41:00.0"], &["2"]]),
            Ok(vec![vec![0, 1], vec![2]])
        );
        assert_eq!(
            groups(&[&["0", "1"], &["41:00.0"]]).unwrap_err(),
            "names GPU 1 twice"
        );
        assert_eq!(
            groups(&[&["0", "7"]]).unwrap_err(),
            "names GPU 7, but there are 3"
        );
    }

    #[test]
    fn demanded_peers_have_addresses_and_groups_that_do_not_fit_demand_nothing() {
        let of = |groups: Option<&[&[usize]]>| {
            let group = |group: &&[usize]| group.iter().copied().map(GpuName::Number).collect();
            let peers = groups.map(|groups| groups.iter().map(group).collect());
            Expect {
                peers,
                ..Expect::default()
            }
            .demanded(&gpus())
        };
        assert_eq!(
            of(Some(&[&[0, 2], &[1]])),
            [vec![gpus()[0], gpus()[2]], vec![gpus()[1]]]
        );
        assert!(of(None).is_empty() && of(Some(&[&[0, 7]])).is_empty());
    }

    #[test]
    fn a_leaf_switch_has_nodes_and_perhaps_a_rail() {
        let leaf = |text: &str| {
            text.parse::<Leaf>()
                .map(|leaf| (leaf.name, leaf.rail, leaf.nodes.join(" ")))
        };
        assert_eq!(
            leaf("leaf1: node1  node2"),
            Ok(("leaf1".into(), None, "node1 node2".into()))
        );
        assert_eq!(
            leaf("rack3/leaf1/7:n"),
            Ok(("rack3/leaf1".into(), Some(7), "n".into()))
        );
        for bad in [
            "",
            "leaf1",
            "leaf1:",
            ": node1",
            "leaf1/x: node1",
            "a b: node1",
        ] {
            assert!(leaf(bad).is_err(), "{bad}");
        }
    }
}
