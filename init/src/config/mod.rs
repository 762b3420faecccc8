//! The pure part of reading the configuration: builds one typed [`Config`] from layers and kernel words, or
//! lists every error in them. `stages::config` finds and reads the files.

mod boot_words;
pub mod cmdline;
pub mod error;
pub mod keys;
pub mod layers;
pub mod mac;
mod network;
pub mod node;
pub mod remote;
mod sections;
pub mod signature;
pub mod types;
pub mod values;

use cmdline::KernelWord;
use error::ConfigError;
use layers::MergedLayers;
use std::time::Duration;
use types::{Action, BootSource, CardSelector, Config, Validator};

/// Maximum size of a configuration file in bytes.
pub const LARGEST: u64 = 1 << 20;

/// The kinds of layers, by who decides their content; a later one wins (but see [`types::Trust`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerSource {
    /// A file of the image.
    Image,
    /// A file of the data partition.
    Partition,
    /// A file of the server that the kernel word `firstlight.config=` names.
    Server,
    /// A kernel word.
    KernelWord,
}

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The kind of layer that it is.
    pub source: LayerSource,
    /// Its path, for messages and for `--config`.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The errors of an invalid configuration, and the action that may follow.
#[derive(Debug, PartialEq)]
pub struct InvalidConfig {
    /// All errors.
    pub errors: Vec<ConfigError>,
    /// `policy.on_error` as far as the valid layers define it; `Hold` when the policy itself is invalid, or
    /// when it names the workload, which an invalid configuration cannot be trusted to describe.
    pub on_error: Action,
}

/// Builds the configuration from files in any order of their kinds; files of one kind stay in theirs.
///
/// # Errors
/// All errors, not only the first.
pub fn build(files: &[ConfigFile], words: &[KernelWord]) -> Result<Config, InvalidConfig> {
    let files = in_layer_order(files);
    let mut m = merged(&files, words);
    let config = build_config(&mut m, &files, words);
    if m.errors.is_empty() { Ok(config) } else { Err(refused(m)) }
}

fn merged(files: &[&ConfigFile], words: &[KernelWord]) -> MergedLayers {
    let mut m = MergedLayers::default();
    files.iter().for_each(|file| m.add_file(file));
    words.iter().for_each(|word| m.add_word(word));
    m
}

/// The files in the order of the layers: a server's come after those of a disk, unless the image or the server
/// reverses this (`config.disk_overrides_server`).
fn in_layer_order(files: &[ConfigFile]) -> Vec<&ConfigFile> {
    let decide: Vec<_> = files.iter().filter(|f| f.source != LayerSource::Partition).collect();
    let disk_last = sections::trust(&mut merged(&decide, &[])).disk_overrides_server;
    let order = match disk_last {
        true => [LayerSource::Image, LayerSource::Server, LayerSource::Partition],
        false => [LayerSource::Image, LayerSource::Partition, LayerSource::Server],
    };
    order.into_iter().flat_map(|source| files.iter().filter(move |file| file.source == source)).collect()
}

/// Builds the refusal for errors that were found outside of the layers.
#[must_use]
pub fn refuse(files: &[ConfigFile], words: &[KernelWord], errors: Vec<ConfigError>) -> InvalidConfig {
    let mut m = merged(&in_layer_order(files), words);
    m.errors.extend(errors);
    refused(m)
}

fn refused(mut m: MergedLayers) -> InvalidConfig {
    let on_error = match sections::policy(&mut m).on_error {
        _ if m.errors.iter().any(ConfigError::concerns_policy) => Action::Hold,
        Action::Workload | Action::WorkloadWithoutP2p => Action::Hold,
        other => other,
    };
    InvalidConfig { errors: m.errors, on_error }
}

fn build_config(m: &mut MergedLayers, files: &[&ConfigFile], words: &[KernelWord]) -> Config {
    let booted_from = BootSource::of(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", boot_words::BOOTED_FROM);
        m.refuse(&place, boot_words::BOOTED_FROM, &read, "stick, network");
        BootSource::Stick
    });
    let remote = remote::RemoteSource::from_words(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", remote::WORD);
        m.refuse(&place, remote::WORD, &read, remote::ALLOWED);
        None
    });
    let clear_reset = boot_words::clears_reset(words).unwrap_or_else(|read| {
        let place = format!("kernel word firstlight.{}", boot_words::RESET);
        m.refuse(&place, boot_words::RESET, &read, "clear");
        false
    });
    let hostname = words.iter().rev().find(|w| w.name == "hostname").and_then(|w| w.value.as_deref());
    Config {
        trust: sections::trust(m),
        driver: sections::driver(m),
        network: network::network(m, hostname, CardSelector::booted_from(words), remote.is_some()),
        remote,
        clear_reset,
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
        overridden: std::mem::take(&mut m.overridden),
        layers: files.len() + usize::from(words.iter().any(|w| w.name.starts_with("firstlight."))),
    }
}

#[cfg(test)]
mod tests;
