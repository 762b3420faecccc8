//! The pure part of reading the configuration: builds one typed [`Config`] from layers and kernel words, or
//! lists every error in them. `stages::config` finds and reads the files.

pub mod cmdline;
pub mod error;
pub mod keys;
pub mod layers;
pub mod mac;
mod network;
pub mod node;
mod origin;
pub mod remote;
mod sections;
pub mod signature;
pub mod types;
pub mod values;

use cmdline::Word;
use error::Wrong;
use layers::Merged;
use std::time::Duration;
use types::{Action, Card, Config, Origin, Validator};

/// Maximum size of a configuration file in bytes.
pub const LARGEST: u64 = 1 << 20;

/// The kinds of layers, by who decides their content; a later one wins (but see [`types::Trust`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A file of the image.
    Image,
    /// A file of the data partition.
    Partition,
    /// A file of the server that the kernel word `firstlight.config=` names.
    Server,
    /// A kernel word.
    Word,
}

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The kind of layer that it is.
    pub source: Source,
    /// Its path, for messages and for `--config`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The errors of an invalid configuration, and the action that may follow.
#[derive(Debug, PartialEq)]
pub struct Refused {
    /// All errors.
    pub wrong: Vec<Wrong>,
    /// `policy.on_error` as far as the valid layers define it; `Hold` when the policy itself is invalid, or
    /// when it names the workload, which an invalid configuration cannot be trusted to describe.
    pub on_error: Action,
}

/// Builds the configuration from files in any order of their kinds; files of one kind stay in theirs.
///
/// # Errors
/// All errors, not only the first.
pub fn build(files: &[File], words: &[Word]) -> Result<Config, Refused> {
    let files = in_order(files);
    let mut m = merged(&files, words);
    let config = typed(&mut m, &files, words);
    if m.wrong.is_empty() { Ok(config) } else { Err(refused(m)) }
}

fn merged(files: &[&File], words: &[Word]) -> Merged {
    let mut m = Merged::default();
    files.iter().for_each(|file| m.add_file(file));
    words.iter().for_each(|word| m.add_word(word));
    m
}

/// The files in the order of the layers: a server's come after those of a disk, unless the image or the server
/// reverses this (`config.disk_overrides_server`).
fn in_order(files: &[File]) -> Vec<&File> {
    let decide: Vec<_> = files.iter().filter(|f| f.source != Source::Partition).collect();
    let disk_last = sections::trust(&mut merged(&decide, &[])).disk_overrides_server;
    let order = match disk_last {
        true => [Source::Image, Source::Server, Source::Partition],
        false => [Source::Image, Source::Partition, Source::Server],
    };
    order.into_iter().flat_map(|source| files.iter().filter(move |file| file.source == source)).collect()
}

/// Builds the refusal for errors that were found outside of the layers.
#[must_use]
pub fn refuse(files: &[File], words: &[Word], wrong: Vec<Wrong>) -> Refused {
    let mut m = merged(&in_order(files), words);
    m.wrong.extend(wrong);
    refused(m)
}

fn refused(mut m: Merged) -> Refused {
    let on_error = match sections::policy(&mut m).on_error {
        _ if m.wrong.iter().any(Wrong::concerns_policy) => Action::Hold,
        Action::Workload | Action::WorkloadWithoutP2p => Action::Hold,
        other => other,
    };
    Refused { wrong: m.wrong, on_error }
}

fn typed(m: &mut Merged, files: &[&File], words: &[Word]) -> Config {
    let booted_from = Origin::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", origin::WORD);
        m.refuse(&place, origin::WORD, &read, "stick, network");
        Origin::Stick
    });
    let remote = remote::Remote::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", remote::WORD);
        m.refuse(&place, remote::WORD, &read, remote::ALLOWED);
        None
    });
    let forget_reset = origin::forgets_reset(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", origin::RESET);
        m.refuse(&place, origin::RESET, &read, "clear");
        false
    });
    let hostname = words.iter().rev().find(|w| w.name == "hostname").and_then(|w| w.value.as_deref());
    Config {
        trust: sections::trust(m),
        driver: sections::driver(m),
        network: network::network(m, hostname, Card::booted_from(words), remote.is_some()),
        remote,
        forget_reset,
        policy: sections::policy(m),
        workload: sections::workload(m),
        report: sections::report(m),
        console: sections::console(m, booted_from),
        watchdog: sections::watchdog(m),
        validator: Validator {
            files: files.iter().map(|file| file.path.clone()).collect(),
            set: m.set.clone(),
            timeout: Duration::from_secs(m.validate_timeout_s.unwrap_or(900)),
            meeting: m.has_nodes_size.then(|| Duration::from_secs(m.nodes_timeout_s.unwrap_or(60))),
        },
        lost: std::mem::take(&mut m.lost),
        layers: files.len() + usize::from(words.iter().any(|w| w.name.starts_with("firstlight."))),
    }
}

#[cfg(test)]
mod tests;
