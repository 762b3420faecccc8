//! Which of many nodes a configuration file is for: its name says it, `mac-AABBCCDDEEFF.toml` or
//! `serial-NAME.toml`. Reading what this node is, and the files, is for others.

use super::mac::Mac;

/// What an error says of other names.
pub const NAMES: &str = "mac-AABBCCDDEEFF.toml, serial-NAME.toml (letters, digits, . _ -)";

/// What this node is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Of its network cards.
    pub macs: Vec<Mac>,
    /// The machine's, as its firmware has it.
    pub serial: Option<String>,
}

/// Whom a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// This node, by an Ethernet address.
    ThisCard,
    /// This node, by its serial number: later, so it wins.
    ThisMachine,
    /// Another one.
    Another,
}

/// Whom a file of this name is for; `None` when its name says nothing of the kind.
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

/// A serial number as part of a name: what is neither letter, digit, `.`, `-` nor `_` becomes `_`.
#[must_use]
pub fn plain(serial: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    serial.chars().map(|c| if fine(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whom_its_file_is_for() {
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
