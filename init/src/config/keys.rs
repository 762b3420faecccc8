//! The list of all configuration keys that init owns: name, kind of value, and the allowed values as error
//! messages show them, and which layers may set it. The types that the values become are in `types`, with
//! their meaning and defaults.

use super::LayerSource;
use contract::section;
use toml::Spanned;
use toml::Value;
use toml::de::{DeString, DeValue};

/// What kind of value a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// A string, used as it is.
    Text,
    /// `true` or `false`.
    Flag,
    /// An integer between the two, both included.
    Number(i64, i64),
    /// A string that is one of these words.
    OneOf(&'static [&'static str]),
    /// An array of strings; on the command line also words separated by commas.
    List,
    /// A table of strings; on the command line one entry per word, `SECTION.KEY.ENTRY=VALUE`.
    Pairs,
}

/// Which layers may set a key. A layer must not decide whether it is itself trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedLayers {
    /// Every layer.
    Any,
    /// Only files of the image.
    Image,
    /// Files of the image and of the server that the kernel word `firstlight.config=` names.
    ImageOrServer,
    /// Every layer except files of the data partition.
    NotPartition,
}

impl AllowedLayers {
    /// Whether a layer of that source may set the key.
    #[must_use]
    pub const fn allows(self, source: LayerSource) -> bool {
        match self {
            Self::Any => true,
            Self::Image => matches!(source, LayerSource::Image),
            Self::ImageOrServer => matches!(source, LayerSource::Image | LayerSource::Server),
            Self::NotPartition => !matches!(source, LayerSource::Partition),
        }
    }

    /// The layers, for error messages.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Any => "every layer",
            Self::Image => "files of the image",
            Self::ImageOrServer => "files of the image and of a server",
            Self::NotPartition => "files of the image and of a server, and kernel words",
        }
    }
}

/// One configuration key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `SECTION.KEY`
    pub name: &'static str,
    /// The kind of its value.
    pub kind: ValueKind,
    /// The allowed values, for error messages.
    pub allowed: &'static str,
    /// The layers that may set it.
    pub layers: AllowedLayers,
}

const ACTIONS: &[&str] = &["workload", "workload-without-p2p", "hold", "shell", "reboot", "poweroff"];
const ACTIONS_TEXT: &str = "workload, workload-without-p2p, hold, shell, reboot, poweroff";
const WATCHDOGS: &[&str] = &["auto", "hardware", "software", "off"];
const SECONDS: ValueKind = ValueKind::Number(1, 86400);
const SECONDS_TEXT: &str = "1 to 86400 seconds";
const ROOT_TEXT: &str = "LABEL=.., UUID=.., /dev/.., each with :/FILE for an image on it, or \
                         http://HOST/FILE#sha256=64 HEX DIGITS; https too";
const MODES_TEXT: &str = "none, dhcp, static, link-local";
const FLAG_TEXT: &str = "true, false";

const fn key(name: &'static str, kind: ValueKind, allowed: &'static str) -> Key {
    Key { name, kind, allowed, layers: AllowedLayers::Any }
}

const fn restricted(layers: AllowedLayers, key: Key) -> Key {
    Key { layers, ..key }
}

/// Every key of init's sections.
pub const KEYS: &[Key] = &[
    restricted(
        AllowedLayers::Image,
        key("config.key", ValueKind::Text, "a minisign public key: 56 characters, the first RW"),
    ),
    restricted(AllowedLayers::ImageOrServer, key("config.disk_overrides_server", ValueKind::Flag, FLAG_TEXT)),
    key("driver.load", ValueKind::Flag, FLAG_TEXT),
    key("driver.modules", ValueKind::List, "an array of module names"),
    key("driver.parameters", ValueKind::Pairs, "a table of module = \"parameters\""),
    key("driver.timeout_s", SECONDS, SECONDS_TEXT),
    key("network.mode", ValueKind::OneOf(&["none", "dhcp", "static", "link-local"]), MODES_TEXT),
    key("network.hostname", ValueKind::Text, "1 to 64 of a-z A-Z 0-9 . -"),
    key("network.interface", ValueKind::Text, "a name of at most 15 characters, or aa:bb:cc:dd:ee:ff"),
    key("network.ports", ValueKind::List, "an array of names of at most 15 characters, or aa:bb:cc:dd:ee:ff"),
    key("network.soft_roce", ValueKind::Flag, FLAG_TEXT),
    key("network.address", ValueKind::Text, "ADDRESS/PREFIX, e.g. 10.0.0.2/24"),
    key("network.gateway", ValueKind::Text, "an address of the same family as network.address"),
    key("network.dns", ValueKind::List, "an array of addresses"),
    key("network.ca", ValueKind::Text, "an absolute path to certificates in PEM form"),
    key("network.timeout_s", SECONDS, SECONDS_TEXT),
    key("network.time", ValueKind::List, "an array of HOST, HOST:PORT or dhcp"),
    restricted(AllowedLayers::Image, key("policy.allow_shell", ValueKind::Flag, FLAG_TEXT)),
    key("policy.on_pass", ValueKind::OneOf(ACTIONS), ACTIONS_TEXT),
    key("policy.on_degraded", ValueKind::OneOf(ACTIONS), ACTIONS_TEXT),
    key("policy.on_fail", ValueKind::OneOf(ACTIONS), ACTIONS_TEXT),
    key("policy.on_error", ValueKind::OneOf(ACTIONS), ACTIONS_TEXT),
    key("policy.recover", ValueKind::OneOf(&["off", "gpu", "reboot"]), "off, gpu, reboot"),
    key("workload.mode", ValueKind::OneOf(&["none", "exec", "switch-root"]), "none, exec, switch-root"),
    key("workload.exec", ValueKind::List, "an array whose first word is an absolute path"),
    key("workload.root", ValueKind::Text, ROOT_TEXT),
    key("workload.on_exit", ValueKind::OneOf(&["poweroff", "reboot", "hold"]), "poweroff, reboot, hold"),
    key("workload.lock_modules", ValueKind::Flag, FLAG_TEXT),
    key("workload.watchdog", ValueKind::Flag, FLAG_TEXT),
    key("report.partition", ValueKind::Text, "LABEL=.., UUID=.., /dev/.., or \"\" for none"),
    key("report.required", ValueKind::Flag, FLAG_TEXT),
    key("report.url", ValueKind::Text, "http://HOST/.., https://HOST/.., or \"\" for none"),
    key("report.timeout_s", ValueKind::Number(1, 3600), "1 to 3600 seconds"),
    key("report.keep", ValueKind::Number(1, 1000), "1 to 1000 reports"),
    restricted(
        AllowedLayers::NotPartition,
        key("report.key_file", ValueKind::Text, "an absolute path to a file of 32 to 4096 bytes"),
    ),
    // Otherwise a partition could have any file of the image sent to a server of its choice.
    restricted(
        AllowedLayers::NotPartition,
        key("report.token_file", ValueKind::Text, "an absolute path to a file with one line"),
    ),
    key("console.serial", ValueKind::List, "an array of NAME or NAME,RATE, e.g. ttyS0,115200"),
    key("console.screen", ValueKind::OneOf(&["auto", "keep", "release"]), "auto, keep, release"),
    key("console.view", ValueKind::OneOf(&["auto", "lines", "full"]), "auto, lines, full"),
    key("watchdog.mode", ValueKind::OneOf(WATCHDOGS), "auto, hardware, software, off"),
    key("watchdog.timeout_s", ValueKind::Number(10, 600), "10 to 600 seconds"),
];

/// Finds the key with that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// All sections, in alphabetical order.
#[must_use]
pub fn sections() -> Vec<&'static str> {
    let mut all: Vec<_> = section::INIT.iter().chain(section::VALIDATOR).copied().collect();
    all.sort_unstable();
    all
}

/// The keys of a section, in alphabetical order.
#[must_use]
pub fn of_section(section: &str) -> Vec<&'static str> {
    let names = KEYS.iter().map(|key| key.name);
    let mut all: Vec<_> = names.filter(|name| name.split('.').next() == Some(section)).collect();
    all.sort_unstable();
    all
}

/// Converts a parsed value to an owned one; `None` for a number out of range. Written by hand because
/// serde's conversion is a lot of code that process 1 would run once.
#[must_use]
pub fn value(read: &DeValue<'_>) -> Option<Value> {
    Some(match read {
        DeValue::String(text) => Value::String(text.as_ref().to_owned()),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Integer(n) => Value::Integer(i64::from_str_radix(n.as_str(), n.radix()).ok()?),
        DeValue::Float(n) => Value::Float(n.as_str().parse().ok()?),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(items) => Value::Array(items.iter().map(|item| value(item.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(table) => {
            let entry = |(name, read): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                Some((name.get_ref().as_ref().to_owned(), value(read.get_ref())?))
            };
            Value::Table(table.iter().map(entry).collect::<Option<_>>()?)
        }
    })
}

impl ValueKind {
    /// Whether a TOML value is of this kind and within its range.
    #[must_use]
    pub fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text, Value::String(_)) | (Self::Flag, Value::Boolean(_)) => true,
            (Self::Number(low, high), Value::Integer(n)) => (low..=high).contains(n),
            (Self::OneOf(words), Value::String(word)) => words.contains(&word.as_str()),
            (Self::List, Value::Array(items)) => items.iter().all(Value::is_str),
            (Self::Pairs, Value::Table(table)) => table.values().all(Value::is_str),
            _ => false,
        }
    }

    /// Parses the text of a kernel word as this kind; `None` when it is invalid. `Pairs` arrive entry by
    /// entry and are not parsed here.
    #[must_use]
    pub fn from_word(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Text | Self::OneOf(_) => Value::String(text.to_owned()),
            Self::Flag => Value::Boolean(text.parse().ok()?),
            Self::Number(..) => Value::Integer(text.parse().ok()?),
            Self::List if text.trim_start().starts_with('[') => value(DeValue::parse(text).ok()?.get_ref())?,
            Self::List if text.is_empty() => Value::Array(Vec::new()),
            Self::List => Value::Array(text.split(',').map(|item| item.trim().into()).collect()),
            Self::Pairs => return None,
        };
        self.accepts(&value).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_a_section_that_init_owns() {
        for key in KEYS {
            let section = key.name.split('.').next().unwrap();
            assert!(section::INIT.contains(&section), "{}", key.name);
            assert!(!section::VALIDATOR.contains(&section), "{}", key.name);
        }
    }

    #[test]
    fn a_list_word_is_a_toml_array_or_words_with_commas() {
        let both = [ValueKind::List.from_word("a,b"), ValueKind::List.from_word(r#"["a", "b"]"#)];
        assert_eq!(both[0], both[1]);
        assert_eq!(ValueKind::List.from_word("").unwrap(), Value::Array(vec![]));
        assert_eq!(ValueKind::List.from_word("[1]"), None);
        assert_eq!(ValueKind::List.from_word("[\"a\"]\nx = 1"), None);
    }

    #[test]
    fn numbers_and_flags_out_of_their_range_are_refused() {
        assert_eq!(ValueKind::Number(1, 5).from_word("6"), None);
        assert_eq!(ValueKind::Number(1, 5).from_word("five"), None);
        assert_eq!(ValueKind::Flag.from_word("yes"), None);
        assert_eq!(ValueKind::Flag.from_word("false"), Some(Value::Boolean(false)));
    }
}
