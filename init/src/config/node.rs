//! Which node a configuration file is for, according to its name: `mac-AABBCCDDEEFF.toml` or `serial-NAME.toml`.
//! Reading the node's identity and the files happens elsewhere.

use super::mac::Mac;

/// The allowed names, for error messages.
pub const NAMES: &str = "mac-AABBCCDDEEFF.toml, serial-NAME.toml (letters, digits, . _ -)";

/// The identity of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The addresses of its network cards.
    pub macs: Vec<Mac>,
    /// The machine's serial number, from its firmware.
    pub serial: Option<String>,
}

/// Which node a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// This node, by one of its Ethernet addresses.
    ThisCard,
    /// This node, by its serial number. It is ordered after the address, so it wins.
    ThisMachine,
    /// Another node.
    Another,
}

/// Which node a file of this name is for; `None` when the name is not of that form.
#[must_use]
pub fn meant(name: &str, identity: &Identity) -> Option<For> {
    let stem = name.strip_suffix(".toml")?;
    if let Some(mac) = stem.strip_prefix("mac-") {
        let mac = Mac::read(mac).filter(|_| mac.len() == 12)?;
        return Some(if identity.macs.contains(&mac) { For::ThisCard } else { For::Another });
    }
    let serial =
        stem.strip_prefix("serial-").filter(|serial| !serial.is_empty() && plain(serial) == *serial)?;
    let ours = identity.serial.as_deref().is_some_and(|own| plain(own.trim()) == serial);
    Some(if ours { For::ThisMachine } else { For::Another })
}

/// A serial number as part of a file name: every character other than letters, digits, `.`, `-` and `_`
/// becomes `_`.
#[must_use]
pub fn plain(serial: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    serial.chars().map(|c| if fine(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_decides_which_node_its_file_is_for() {
        let macs = ["52:54:00:12:34:56", "52:54:00:12:34:57"].iter().filter_map(|m| Mac::read(m)).collect();
        let node = Identity { macs, serial: Some("SN 12/3".to_owned()) };
        for (name, want) in [
            ("mac-525400123457.toml", Some(For::ThisCard)),
            ("mac-525400123458.toml", Some(For::Another)),
            ("serial-SN_12_3.toml", Some(For::ThisMachine)),
            ("serial-SN_12_4.toml", Some(For::Another)),
            ("mac-52:54:00:12:34:56.toml", None),
            ("mac-5254001234.toml", None),
            ("serial-.toml", None),
            ("serial-SN 12.toml", None),
            ("site.toml", None),
            ("mac-525400123457.toml~", None),
        ] {
            assert_eq!(meant(name, &node), want, "{name}");
        }
        assert_eq!(meant("serial-x.toml", &Identity::default()), Some(For::Another));
    }
}
