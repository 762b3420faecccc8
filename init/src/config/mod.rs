//! The pure part of reading the configuration: builds one typed [`Config`] from layers and kernel words, or
//! lists every error in them. `stages::config` finds and reads the files.

pub mod cmdline;
mod combined;
pub mod keys;
pub mod mac;
pub mod node;
mod output;
pub mod remote;
pub mod signature;
pub mod types;
pub mod values;

pub use contract::config_format::{LARGEST, LayerSource, error};

use cmdline::KernelWord;
use contract::config_format::layers::{Layer, Layers};
use contract::config_format::value::Rule;
use contract::config_format::{Deadline, NODES_SIZE, NODES_TIMEOUT, VALIDATE_TIMEOUT};
use contract::section;
use error::ConfigError;
use keys::Settings;
use std::time::Duration;
use types::{Action, Config, Validator};

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
    combined::combine(&mut m, words);
    if m.error().is_none() {
        Ok(config(m, &files, words))
    } else {
        Err(refused(m))
    }
}

fn merged(files: &[&ConfigFile], words: &[KernelWord]) -> Layers<Settings> {
    let mut m = Layers::default();
    files.iter().for_each(|file| {
        m.add_file(
            Layer {
                place: &file.path,
                source: file.source,
            },
            &file.text,
        );
    });
    words.iter().for_each(|word| add_word(&mut m, word));
    m
}

/// Adds a kernel word. Words that do not begin with `firstlight.` are ignored; those for the validator's sections are passed on.
fn add_word(m: &mut Layers<Settings>, word: &KernelWord) {
    let Some(path) = word.name.strip_prefix("firstlight.") else {
        return;
    };
    let place = format!("kernel word {}", word.name);
    let Some(text) = word.value.as_deref() else {
        let (key, allowed) = (path.to_owned(), "firstlight.SECTION.KEY=VALUE");
        return m.errors.push(ConfigError::NoValue {
            place,
            key,
            allowed,
        });
    };
    let layer = Layer {
        place: &place,
        source: LayerSource::Word,
    };
    let (section, key) = path.split_once('.').unwrap_or((path, ""));
    match section::VALIDATOR.contains(&section) {
        true if key.is_empty() => m.refuse(
            &place,
            path,
            text,
            &format!("firstlight.{section}.KEY=VALUE"),
        ),
        true => m.note_foreign(layer, path.to_owned(), Some(text.into())),
        false => m.add_word(layer, path, text),
    }
}

/// The files in the order of the layers: a server's come after those of a disk, unless the image or the server
/// reverses this (`config.disk_overrides_server`).
fn in_layer_order(files: &[ConfigFile]) -> Vec<&ConfigFile> {
    let decide: Vec<_> = files
        .iter()
        .filter(|f| f.source != LayerSource::Partition)
        .collect();
    let order = match merged(&decide, &[]).settings.trust.disk_overrides_server {
        true => [
            LayerSource::Image,
            LayerSource::Server,
            LayerSource::Partition,
        ],
        false => [
            LayerSource::Image,
            LayerSource::Partition,
            LayerSource::Server,
        ],
    };
    order
        .into_iter()
        .flat_map(|source| files.iter().filter(move |file| file.source == source))
        .collect()
}

/// Builds the refusal for errors that were found outside of the layers.
#[must_use]
pub fn refuse(
    files: &[ConfigFile],
    words: &[KernelWord],
    errors: Vec<ConfigError>,
) -> InvalidConfig {
    let mut m = merged(&in_layer_order(files), words);
    m.errors.extend(errors);
    refused(m)
}

fn refused(mut m: Layers<Settings>) -> InvalidConfig {
    combined::policy(&mut m);
    let (settings, errors) = m.finish();
    let on_error = match settings.policy.on_error {
        _ if errors.iter().any(ConfigError::concerns_policy) => Action::Hold,
        Action::Workload | Action::WorkloadWithoutP2p => Action::Hold,
        other => other,
    };
    InvalidConfig { errors, on_error }
}

fn config(m: Layers<Settings>, files: &[&ConfigFile], words: &[KernelWord]) -> Config {
    let has_size = m.foreign.iter().any(|value| value.key == NODES_SIZE);
    let validator = Validator {
        files: files.iter().map(|file| file.path.clone()).collect(),
        set: m
            .foreign
            .iter()
            .filter_map(|value| Some(format!("{}={}", value.key, value.word()?)))
            .collect(),
        timeout: deadline(&m, &VALIDATE_TIMEOUT),
        meeting: has_size.then(|| deadline(&m, &NODES_TIMEOUT)),
    };
    let Settings {
        trust,
        driver,
        network,
        policy,
        workload,
        report,
        console,
        watchdog,
        words: own,
    } = m.settings;
    Config {
        trust,
        driver,
        network,
        remote: own.config,
        clear_reset: own.reset,
        policy,
        workload,
        report,
        console,
        watchdog,
        validator,
        overridden: m.overridden,
        layers: files.len() + usize::from(words.iter().any(|w| w.name.starts_with("firstlight."))),
    }
}

/// A deadline of the validator's that init enforces: the last usable value, because the validator reports the others.
fn deadline(m: &Layers<Settings>, deadline: &Deadline) -> Duration {
    let mut seconds = deadline.default;
    for raw in m
        .foreign
        .iter()
        .filter(|value| value.key == deadline.key)
        .filter_map(|value| value.raw())
    {
        let _unusable = deadline.rule.set(raw, &mut seconds).is_err();
    }
    seconds
}

#[cfg(test)]
mod tests;
