//! The kernel's command line as words.

use crate::root::Root;
use std::io;

/// One word: `key` or `key=value`, quotes removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The part before the first `=`.
    pub key: String,
    /// The part after it.
    pub value: Option<String>,
}

impl Word {
    /// Whether this is its key; for the kernel, `-` and `_` are the same in a key.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        let same = |c: u8| if c == b'-' { b'_' } else { c };
        self.key.bytes().map(same).eq(key.bytes().map(same))
    }

    /// The value's comma-separated items, as in `iommu=off,soft` and `pci=a,b`.
    pub fn items(&self) -> impl Iterator<Item = &str> {
        self.value.iter().flat_map(|v| v.split(','))
    }
}

/// Splits the line as the kernel does: at white space outside double quotes, up to a lone `--`, after which
/// words are for process 1.
#[must_use]
pub fn words(line: &str) -> Vec<Word> {
    parts(line).map(word).collect()
}

fn parts(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let split = line.split(move |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    });
    split.filter(|w| !w.is_empty()).take_while(|w| *w != "--")
}

/// The words as they are written, with their quotes.
#[must_use]
pub fn written(line: &str) -> Vec<String> {
    parts(line).map(str::to_owned).collect()
}

fn word(text: &str) -> Word {
    let plain = text.replace('"', "");
    match plain.split_once('=') {
        Some((key, value)) => Word {
            key: key.to_owned(),
            value: Some(value.to_owned()),
        },
        None => Word {
            key: plain,
            value: None,
        },
    }
}

/// The line as the running kernel shows it.
///
/// # Errors
/// If /proc/cmdline cannot be read.
pub fn read(root: &Root) -> io::Result<String> {
    root.text("proc/cmdline")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(line: &str) -> Vec<(String, Option<String>)> {
        words(line).into_iter().map(|w| (w.key, w.value)).collect()
    }

    #[test]
    fn words_are_split_at_the_first_equals_sign() {
        let found = pairs("ro pci=config_acs=0@pci:0:0  iommu=off,soft\n");
        assert_eq!(found[0], ("ro".into(), None));
        assert_eq!(
            found[1],
            ("pci".into(), Some("config_acs=0@pci:0:0".into()))
        );
        assert_eq!(
            words("iommu=off,soft")[0].items().collect::<Vec<_>>(),
            ["off", "soft"]
        );
    }

    #[test]
    fn quotes_hold_a_word_together() {
        assert_eq!(
            pairs("a=\"b c\" \"d=e f\""),
            [
                ("a".into(), Some("b c".into())),
                ("d".into(), Some("e f".into()))
            ]
        );
    }

    #[test]
    fn words_after_two_dashes_are_not_the_kernels() {
        assert_eq!(pairs("a -- iommu=off").len(), 1);
        assert_eq!(pairs(""), []);
    }
}
