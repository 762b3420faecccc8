//! Which node a configuration file is for, according to its name: `mac-AABBCCDDEEFF.toml` or `serial-NAME.toml`.
//! Reading the node's identity and the files happens elsewhere.

use super::mac::Mac;

/// The allowed names, for error messages.
pub const NAMES: &str = "mac-AABBCCDDEEFF.toml, serial-NAME.toml (letters, digits, . _ -)";

/// The identity of this node: what the names of configuration files refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The addresses of its network cards.
    pub macs: Vec<Mac>,
    /// The machine's serial number, from its firmware.
    pub serial: Option<String>,
}

/// Which node a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeMatch {
    /// This node, by one of its Ethernet addresses.
    MacAddress,
    /// This node, by its serial number. It is ordered after the address, so it wins.
    SerialNumber,
    /// Another node.
    OtherNode,
}

/// Which node a file of this name is for; `None` when the name is not of that form.
#[must_use]
pub fn match_node(name: &str, identity: &NodeIdentity) -> Option<NodeMatch> {
    let stem = name.strip_suffix(".toml")?;
    if let Some(mac) = stem.strip_prefix("mac-") {
        let mac = Mac::parse(mac).filter(|_| mac.len() == 12)?;
        return Some(if identity.macs.contains(&mac) {
            NodeMatch::MacAddress
        } else {
            NodeMatch::OtherNode
        });
    }
    let is_valid = |serial: &&str| !serial.is_empty() && file_name_part(serial) == *serial;
    let serial = stem.strip_prefix("serial-").filter(is_valid)?;
    let ours = identity
        .serial
        .as_deref()
        .is_some_and(|own| file_name_part(own.trim()) == serial);
    Some(if ours {
        NodeMatch::SerialNumber
    } else {
        NodeMatch::OtherNode
    })
}

/// A serial number as part of a file name: every character other than letters, digits, `.`, `-` and `_`
/// becomes `_`.
#[must_use]
pub fn file_name_part(serial: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    serial
        .chars()
        .map(|c| if fine(c) { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_decides_which_node_its_file_is_for() {
        let macs = ["52:54:00:12:34:56", "52:54:00:12:34:57"]
            .iter()
            .filter_map(|m| Mac::parse(m))
            .collect();
        let node = NodeIdentity {
            macs,
            serial: Some("SN 12/3".to_owned()),
        };
        for (name, want) in [
            ("mac-525400123457.toml", Some(NodeMatch::MacAddress)),
            ("mac-525400123458.toml", Some(NodeMatch::OtherNode)),
            ("serial-SN_12_3.toml", Some(NodeMatch::SerialNumber)),
            ("serial-SN_12_4.toml", Some(NodeMatch::OtherNode)),
            ("mac-52:54:00:12:34:56.toml", None),
            ("mac-5254001234.toml", None),
            ("serial-.toml", None),
            ("serial-SN 12.toml", None),
            ("site.toml", None),
            ("mac-525400123457.toml~", None),
        ] {
            assert_eq!(match_node(name, &node), want, "{name}");
        }
        assert_eq!(
            match_node("serial-x.toml", &NodeIdentity::default()),
            Some(NodeMatch::OtherNode)
        );
    }
}
