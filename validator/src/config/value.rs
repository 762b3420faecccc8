//! What the texts in the validator's settings mean: ids of tests, groups of GPUs, leaf switches, where nodes meet; and words
//! that the command line has too.

use super::{GpuName, Leaf};
use clap::ValueEnum;
use contract::config_format::value::{List, Raw, Refused, Rule, Text};
use outcome::test;
use std::marker::PhantomData;
use std::path::PathBuf;

/// One of the words that the command line knows for this type.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneOf<T>(PhantomData<T>);

impl<T: ValueEnum> OneOf<T> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }

    fn words() -> Vec<String> {
        T::value_variants().iter().filter_map(word).collect()
    }
}

fn word<T: ValueEnum>(value: &T) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}

impl<T: ValueEnum> Rule<T> for OneOf<T> {
    fn read(&self, raw: Raw<'_>) -> Result<T, Refused> {
        raw.text()
            .and_then(|text| T::from_str(text, false).ok())
            .ok_or(Refused::Type)
    }

    fn allowed(&self) -> String {
        Self::words().join(", ")
    }

    fn hint(&self) -> String {
        Self::words().join(" | ")
    }

    fn toml(&self, value: &T) -> Option<String> {
        word(value).map(|word| format!("\"{word}\""))
    }
}

/// A list of existing test ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestIds;

impl TestIds {
    fn list() -> List<String> {
        List::new(
            |ids| {
                ids.iter()
                    .all(|id| test::Properties::of(id).is_some())
                    .then(|| ids.to_vec())
            },
            "",
        )
        .without_empty()
    }
}

impl Rule<Vec<String>> for TestIds {
    fn read(&self, raw: Raw<'_>) -> Result<Vec<String>, Refused> {
        Self::list().read(raw)
    }

    fn allowed(&self) -> String {
        let ids: Vec<_> = test::ALL.iter().map(|test| test.id).collect();
        format!("a list of: {}", ids.join(", "))
    }

    fn toml(&self, value: &Vec<String>) -> Option<String> {
        Self::list().toml(value)
    }
}

/// A text that is not empty.
pub(super) const fn text() -> Text<String> {
    Text::new(
        |text| (!text.is_empty()).then(|| text.to_owned()),
        "a text that is not empty",
    )
}

/// An absolute path.
pub(super) fn absolute(text: &str) -> Option<PathBuf> {
    text.starts_with('/').then(|| PathBuf::from(text))
}

/// Any texts.
#[expect(
    clippy::unnecessary_wraps,
    reason = "other lists of the same form can be refused"
)]
pub(super) fn words(items: &[String]) -> Option<Vec<String>> {
    Some(items.to_vec())
}

/// A number above zero.
pub(super) fn positive(raw: Raw<'_>) -> Option<f64> {
    raw.number().filter(|n| n.is_finite() && *n > 0.0)
}

/// At least one group, none empty, and no name twice.
pub(super) fn groups(raw: Raw<'_>) -> Option<Vec<Vec<GpuName>>> {
    let gpu = |value: &toml::Value| match value {
        toml::Value::Integer(number) => usize::try_from(*number).ok().map(GpuName::Number),
        toml::Value::String(name) => name.parse().ok(),
        _ => None,
    };
    let group = |value: &toml::Value| {
        let gpus = value
            .as_array()?
            .iter()
            .map(gpu)
            .collect::<Option<Vec<_>>>()?;
        (!gpus.is_empty()).then_some(gpus)
    };
    let groups = raw
        .value()?
        .as_array()?
        .iter()
        .map(group)
        .collect::<Option<Vec<_>>>()?;
    let mut all = groups.concat();
    let named = all.len();
    all.sort();
    all.dedup();
    (named > 0 && all.len() == named).then_some(groups)
}

/// Leaf switches with their nodes; a node is named once for each rail.
pub(super) fn leaves(items: &[String]) -> Option<Vec<Leaf>> {
    let leaves = items
        .iter()
        .map(|item| item.parse().ok())
        .collect::<Option<Vec<Leaf>>>()?;
    let ports = |leaf: &Leaf| {
        leaf.nodes
            .iter()
            .map(|node| (node.clone(), leaf.rail))
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = leaves.iter().flat_map(ports).collect();
    let named = all.len();
    all.sort();
    all.dedup();
    (all.len() == named).then_some(leaves)
}

/// What [`rendezvous`] reads.
pub const RENDEZVOUS: &str = "mdns, or HOST:PORT, such as 192.168.1.10:29517";

/// `HOST:PORT` or `mdns`
#[must_use]
pub fn rendezvous(text: &str) -> Option<String> {
    let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_name =
            !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
        is_name && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    (text == "mdns" || is_address).then(|| text.to_owned())
}
