//! Parses the kernel word `firstlight.config=URL#sha256=HEX`: a configuration layer on a server or, if the
//! URL ends in `/`, a folder with a layer for each node. The checksum of a folder is that of its
//! `SHA256SUMS`, which lists the checksums of its files.

use super::node::{NodeIdentity, NodeMatch, match_node};
use super::values::url;

/// The allowed values, for error messages.
pub(super) const ALLOWED: &str = "http://HOST/FILE#sha256=64 HEX DIGITS, or a folder's URL, which ends in /, \
                                  with the checksum of its SHA256SUMS; https too";

/// The name of a folder's list of checksums.
pub const CHECKSUMS: &str = "SHA256SUMS";
/// The layer of a folder that is for all nodes.
const DEFAULT: &str = "default.toml";

/// A file or a folder on a server, with its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteSource {
    /// Its URL.
    pub url: String,
    /// Its checksum, 64 hexadecimal digits.
    pub sha256: String,
}

impl RemoteSource {
    /// Parses `URL#sha256=HEX`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, sum) = text.split_once("#sha256=")?;
        let url = url(address)?;
        is_sha256(sum).then(|| Self {
            url,
            sha256: sum.to_owned(),
        })
    }

    /// Whether the URL names a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.url.ends_with('/')
    }

    /// The file that lists the checksums of the folder's files.
    #[must_use]
    pub fn checksums(&self) -> Self {
        Self {
            url: format!("{}{CHECKSUMS}", self.url),
            sha256: self.sha256.clone(),
        }
    }

    /// The files of a folder that are for this node, according to its list, in the order of the layers.
    ///
    /// # Errors
    /// An invalid line of the list, or that it has no file for this node.
    pub fn files(&self, sums: &str, identity: &NodeIdentity) -> Result<Vec<Self>, String> {
        let mut files = Vec::new();
        for (n, line) in sums
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let (sum, name) = parse_line(line).ok_or_else(|| {
                format!(
                    "{CHECKSUMS}, line {}: read {line:?}; allowed: what sha256sum prints",
                    n + 1
                )
            })?;
            let file = Self {
                url: format!("{}{name}", self.url),
                sha256: sum.to_owned(),
            };
            match (name, match_node(name, identity)) {
                (DEFAULT, _) => files.push((None, file)),
                (_, Some(NodeMatch::OtherNode) | None) => {}
                (_, Some(ours)) => files.push((Some(ours), file)),
            }
        }
        files.sort_by_key(|(order, _)| *order);
        if files.is_empty() {
            let macs: Vec<_> = identity.macs.iter().map(ToString::to_string).collect();
            let serial = identity.serial.as_deref().unwrap_or("unknown");
            return Err(format!(
                "{CHECKSUMS} lists nothing for this node (cards {}, serial {serial}) and no {DEFAULT}",
                macs.join(" ")
            ));
        }
        Ok(files.into_iter().map(|(_, file)| file).collect())
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Parses `HEX  NAME` or `HEX *NAME`.
fn parse_line(line: &str) -> Option<(&str, &str)> {
    let (sum, name) = line.split_once(' ')?;
    let name = name.strip_prefix([' ', '*']).unwrap_or(name);
    let name = name.strip_prefix("./").unwrap_or(name);
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    (is_sha256(sum) && !name.is_empty() && name.bytes().all(plain)).then_some((sum, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::mac::Mac;

    #[test]
    fn a_word_has_a_url_and_a_checksum() {
        let sum = "ab".repeat(32);
        let file = RemoteSource::parse(&format!("http://h/n.toml#sha256={sum}")).unwrap();
        assert_eq!(
            (file.url.as_str(), &file.sha256, file.is_folder()),
            ("http://h/n.toml", &sum, false)
        );
        for bad in [
            "",
            "http://h/n.toml",
            "http://h/n#sha256=12",
            "ftp://h/n#sha256=",
            "#sha256=",
        ] {
            assert_eq!(RemoteSource::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_folder_gives_what_is_for_all_then_for_the_card_then_for_the_machine() {
        let folder = RemoteSource {
            url: "http://h/nodes/".to_owned(),
            sha256: String::new(),
        };
        assert!(folder.is_folder() && folder.checksums().url == "http://h/nodes/SHA256SUMS");
        let node = NodeIdentity {
            macs: Mac::parse("52:54:00:12:34:56").into_iter().collect(),
            serial: Some("S1".into()),
        };
        let sum = "ab".repeat(32);
        let list = [
            "serial-S1.toml",
            "mac-525400123456.toml",
            "mac-525400123457.toml",
            "default.toml",
            "README",
        ];
        let list: String = list.iter().map(|name| format!("{sum}  {name}\n")).collect();
        let urls: Vec<_> = folder
            .files(&list, &node)
            .unwrap()
            .into_iter()
            .map(|f| f.url)
            .collect();
        let want = ["default.toml", "mac-525400123456.toml", "serial-S1.toml"];
        assert_eq!(urls, want.map(|name| format!("http://h/nodes/{name}")));
    }

    #[test]
    fn a_folder_without_anything_for_this_node_is_an_error() {
        let folder = RemoteSource {
            url: "http://h/".to_owned(),
            sha256: String::new(),
        };
        let why = folder.files("", &NodeIdentity::default()).unwrap_err();
        assert_eq!(
            why,
            "SHA256SUMS lists nothing for this node (cards , serial unknown) and no default.toml"
        );
        for bad in [
            "12  a.toml".to_owned(),
            format!("{}  ../a.toml", "0".repeat(64)),
            "0".repeat(64),
        ] {
            assert!(
                folder
                    .files(&bad, &NodeIdentity::default())
                    .unwrap_err()
                    .contains("line 1"),
                "{bad}"
            );
        }
    }
}
