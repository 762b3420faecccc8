//! The validator's configuration: sections `fabric`, `validate`, `expect` and `nodes`, merged from layers
//! (`--config` files in order, then `--set` words), strict. The names of init's sections are
//! accepted; init checks their content.

mod group;
mod keys;
mod limit;
mod value;

pub use contract::config_format::error::ConfigError;
pub use group::{GpuName, Leaf, numbered};
pub use keys::{Expect, Fabric, IommuPolicy, Nodes, Validate};
pub use limit::Limit;
pub use report::{IdentityPolicy, Level};
pub use value::{RENDEZVOUS, rendezvous};

use contract::config_format::layers::{Layer, Layers, Sections};
use contract::config_format::table::Section;
use contract::config_format::{LARGEST, LayerSource};
use contract::section;
use outcome::files;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The whole configuration of the validator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What the fabric pass may do.
    pub fabric: Fabric,
    /// What `validate` runs.
    pub validate: Validate,
    /// What the machine should be.
    pub expect: Expect,
    /// Which nodes it is tested with.
    pub nodes: Nodes,
}

impl Sections for Config {
    fn all(&mut self) -> Vec<&mut dyn Section> {
        vec![
            &mut self.fabric,
            &mut self.validate,
            &mut self.expect,
            &mut self.nodes,
        ]
    }
}

impl Config {
    /// Reads the files and merges all layers.
    ///
    /// # Errors
    /// The first mistake, worded for the author of the configuration.
    pub fn load(files: &[PathBuf], words: &[String]) -> Result<Self, ConfigError> {
        let read = |file: &PathBuf| {
            files::read(file, LARGEST)
                .and_then(|bytes| {
                    String::from_utf8(bytes).map_err(|e| format!("cannot be read: {e}"))
                })
                .map(|text| (file.clone(), text))
                .map_err(|why| ConfigError::Unreadable {
                    place: file.display().to_string(),
                    why,
                })
        };
        let layers = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Self::merge(&layers, words)
    }

    /// Merges the texts of files, in order, and then words: the later wins. Pure.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn merge(files: &[(PathBuf, String)], words: &[String]) -> Result<Self, ConfigError> {
        let mut layers = Layers::<Self>::default();
        for (file, text) in files {
            let place = file.display().to_string();
            layers.add_file(
                Layer {
                    place: &place,
                    source: LayerSource::Image,
                },
                text,
            );
            layers.error().map_or(Ok(()), |error| Err(error.clone()))?;
        }
        for word in words {
            add_word(&mut layers, word)?;
        }
        Ok(layers.settings)
    }
}

fn add_word(layers: &mut Layers<Config>, word: &str) -> Result<(), ConfigError> {
    let (key, value) = word.split_once('=').ok_or_else(|| ConfigError::NoValue {
        place: format!("--set {word}"),
        key: word.to_owned(),
        allowed: "KEY=VALUE",
    })?;
    let place = format!("--set {key}={}", layers.shown(key, value));
    let section = key.split('.').next().unwrap_or(key);
    if section::INIT.contains(&section) {
        return Err(ConfigError::Misplaced {
            place,
            key: key.to_owned(),
            allowed: "the settings of the appliance: the section belongs to init",
        });
    }
    if !section::VALIDATOR.contains(&section) {
        let mut known = section::VALIDATOR.map(str::to_owned).to_vec();
        known.sort_unstable();
        return Err(ConfigError::Unknown {
            place,
            what: "section",
            name: section.to_owned(),
            known,
        });
    }
    // Words of the kernel's command line have quotes around text with spaces.
    let value = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value);
    layers.add_word(
        Layer {
            place: &place,
            source: LayerSource::Word,
        },
        key,
        value,
    );
    layers.error().map_or(Ok(()), |error| Err(error.clone()))
}

#[cfg(test)]
mod tests;
