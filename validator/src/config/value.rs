//! Converts one value of the configuration, from TOML or from a kernel word, to its type. The error of an
//! invalid value lists the allowed ones.

use super::{GpuName, IdentityPolicy, IommuPolicy, Leaf, Level};
use crate::net::meeting::Token;
use fabric::acs::AcsPolicy;
use fabric::rebar::RebarChoice;
use std::fmt;
use std::path::PathBuf;

/// An unparsed value of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Raw<'a> {
    /// From a file.
    Toml(&'a toml::Value),
    /// From `--set KEY=VALUE`.
    Word(&'a str),
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml(value) => write!(f, "{value}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// The text of a word without its quotes: words of the kernel command line have quotes around text with spaces.
fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').and_then(|w| w.strip_suffix('"')).unwrap_or(word)
}

impl<'a> Raw<'a> {
    fn as_text(self) -> Option<&'a str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Word(word) => Some(unquoted(word)),
        }
    }

    fn as_whole(self) -> Option<u64> {
        match self {
            Self::Toml(value) => u64::try_from(value.as_integer()?).ok(),
            Self::Word(word) => unquoted(word).parse().ok(),
        }
    }

    fn as_flag(self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Word(word) => unquoted(word).parse().ok(),
        }
    }

    fn as_number(self) -> Option<f64> {
        match self {
            Self::Toml(toml::Value::Integer(whole)) => whole.to_string().parse().ok(),
            Self::Toml(value) => value.as_float(),
            Self::Word(word) => unquoted(word).parse().ok(),
        }
    }

    fn as_words(self) -> Option<Vec<String>> {
        match self {
            Self::Toml(value) => value.as_array()?.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<_>>(),
            Self::Word(word) if word.trim_start().starts_with('[') => Raw::Toml(&array(word)?).as_words(),
            Self::Word(word) => Some(unquoted(word).split(',').filter(|w| !w.is_empty()).map(str::to_owned).collect()),
        }
    }
}

/// Parses a word as a TOML value.
fn array(word: &str) -> Option<toml::Value> {
    let mut table: toml::Table = format!("x = {word}").parse().ok()?;
    table.remove("x").filter(|_| table.is_empty())
}

impl Raw<'_> {
    /// At least one group, none empty, and no name twice.
    fn as_groups(self) -> Option<Vec<Vec<GpuName>>> {
        let gpu = |value: &toml::Value| match value {
            toml::Value::Integer(number) => usize::try_from(*number).ok().map(GpuName::Number),
            toml::Value::String(name) => name.parse().ok(),
            _ => None,
        };
        let group = |value: &toml::Value| {
            let gpus = value.as_array()?.iter().map(gpu).collect::<Option<Vec<_>>>()?;
            (!gpus.is_empty()).then_some(gpus)
        };
        let groups = match self {
            Self::Toml(value) => value.as_array()?.iter().map(group).collect::<Option<Vec<_>>>()?,
            Self::Word(word) => return Raw::Toml(&array(unquoted(word))?).as_groups(),
        };
        let mut all = groups.concat();
        let named = all.len();
        all.sort();
        all.dedup();
        (named > 0 && all.len() == named).then_some(groups)
    }
}

/// A closed list of words.
pub(super) trait Choice: Sized + Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Choice for IommuPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("pt", Self::Pt), ("firmware", Self::Firmware)];
}

impl Choice for AcsPolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("path", Self::Path), ("all", Self::All), ("off", Self::Off)];
}

impl Choice for RebarChoice {
    const WORDS: &'static [(&'static str, Self)] = &[("fix", Self::Fix), ("check", Self::Check)];
}

impl Choice for IdentityPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("hashed", Self::Hashed), ("full", Self::Full)];
}

impl Choice for Level {
    const WORDS: &'static [(&'static str, Self)] =
        &[("quick", Self::Quick), ("standard", Self::Standard), ("full", Self::Full), ("acceptance", Self::Acceptance)];
}

fn put<T>(value: Option<T>, place: &mut T, allowed: impl FnOnce() -> String) -> Result<(), String> {
    *place = value.ok_or_else(allowed)?;
    Ok(())
}

/// One word of a closed list.
pub(super) fn read<C: Choice>(raw: Raw<'_>, place: &mut C) -> Result<(), String> {
    let found = raw.as_text().and_then(|t| C::WORDS.iter().find(|(w, _)| *w == t)).map(|(_, c)| *c);
    put(found, place, || C::WORDS.iter().map(|(w, _)| *w).collect::<Vec<_>>().join(", "))
}

/// A whole number within bounds.
pub(super) fn whole(raw: Raw<'_>, least: u64, most: u64, place: &mut u64) -> Result<(), String> {
    let found = raw.as_whole().filter(|n| (least..=most).contains(n));
    put(found, place, || format!("a whole number from {least} to {most}"))
}

/// Yes or no.
pub(super) fn flag(raw: Raw<'_>, place: &mut bool) -> Result<(), String> {
    put(raw.as_flag(), place, || "true, false".to_owned())
}

/// A number above zero.
pub(super) fn positive(raw: Raw<'_>, place: &mut f64) -> Result<(), String> {
    let found = raw.as_number().filter(|n| n.is_finite() && *n > 0.0);
    put(found, place, || "a number above 0".to_owned())
}

/// A text that is not empty.
pub(super) fn text(raw: Raw<'_>, place: &mut String) -> Result<(), String> {
    let found = raw.as_text().filter(|t| !t.is_empty()).map(str::to_owned);
    put(found, place, || "a text that is not empty".to_owned())
}

/// An absolute path.
pub(super) fn path(raw: Raw<'_>, place: &mut PathBuf) -> Result<(), String> {
    let found = raw.as_text().filter(|t| t.starts_with('/')).map(PathBuf::from);
    put(found, place, || "an absolute path".to_owned())
}

/// A list of texts.
pub(super) fn words(raw: Raw<'_>, place: &mut Vec<String>) -> Result<(), String> {
    put(raw.as_words(), place, || "a list of texts".to_owned())
}

/// Leaf switches with their nodes; a node is named once for each rail.
pub(super) fn leaves(raw: Raw<'_>, place: &mut Vec<Leaf>) -> Result<(), String> {
    let parsed = |words: Vec<String>| words.iter().map(|word| word.parse().ok()).collect::<Option<Vec<Leaf>>>();
    let ports = |leaf: &Leaf| leaf.nodes.iter().map(|node| (node.clone(), leaf.rail)).collect::<Vec<_>>();
    let once = |leaves: &Vec<Leaf>| {
        let mut all: Vec<_> = leaves.iter().flat_map(ports).collect();
        let named = all.len();
        all.sort();
        all.dedup();
        all.len() == named
    };
    put(raw.as_words().and_then(parsed).filter(once), place, || {
        "leaf switches with their nodes, each node once, as ['leaf1: node1 node2', 'leaf2: node3 node4'], or for one rail as 'leaf1/0: node1 node2'".to_owned()
    })
}

/// Groups of GPUs.
pub(super) fn groups(raw: Raw<'_>, place: &mut Vec<Vec<GpuName>>) -> Result<(), String> {
    put(raw.as_groups(), place, || "groups of GPUs by number or address, each GPU once, as [[0, 1], [2, 3]]".to_owned())
}

/// A list of existing test ids.
pub(super) fn test_ids(raw: Raw<'_>, known: &[&str], place: &mut Vec<String>) -> Result<(), String> {
    let found = raw.as_words().filter(|ids| ids.iter().all(|id| known.contains(&id.as_str())));
    put(found, place, || format!("a list of: {}", known.join(", ")))
}

/// A secret.
pub(super) fn token(raw: Raw<'_>, place: &mut Option<Token>) -> Result<(), String> {
    let found = raw.as_text().and_then(|text| Token::new(text).ok());
    put(found.map(Some), place, || "a text of 16 to 256 characters".to_owned())
}

/// `HOST:PORT` or `mdns`
pub(super) fn rendezvous(raw: Raw<'_>, place: &mut Option<String>) -> Result<(), String> {
    let fits = |text: &&str| {
        if *text == "mdns" {
            return true;
        }
        let parts = text.rsplit_once(':');
        parts.is_some_and(|(host, port)| {
            let is_name = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
            is_name && port.parse::<u16>().is_ok_and(|port| port > 0)
        })
    };
    let found = raw.as_text().filter(fits).map(|text| Some(text.to_owned()));
    put(found, place, || "mdns, or HOST:PORT, such as 192.168.1.10:29517".to_owned())
}
