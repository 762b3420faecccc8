//! Merges the layers of configuration into one `Config`: later layers win, and anything unknown or invalid is
//! an error that names its file or word, the key, what was read and what is allowed.

use super::value::Raw;
use super::{Config, KEYS, TOKEN};
use contract::section;
use outcome::files;
use outcome::text::shown;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use strsim::levenshtein;

/// The largest configuration file, bytes; init does not read a larger one either.
const LARGEST: u64 = 1 << 20;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A `--config` file.
    File(PathBuf),
    /// A `--set` word.
    Word(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&shown_path(path)),
            Self::Word(word) => write!(f, "--set {}", shown(word)),
        }
    }
}

fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string())
}

/// What is wrong with the configuration; one line each.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{}: {}", shown_path(file), shown(why))]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// The system's error, or that the file is too large.
        why: String,
    },
    /// A file is not TOML.
    #[error("{}, line {}: {}", shown_path(file), .line, shown(why))]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The TOML parser's message.
        why: String,
    },
    /// A word without `=`.
    #[error("--set {}: read a word without '='; allowed: KEY=VALUE", shown(.0))]
    NoValue(String),
    /// An unknown section or key.
    #[error("{at}: {}: there is no such {what}; {hint}", shown(name))]
    Unknown {
        /// Where it was read.
        at: Source,
        /// `section` or `key`.
        what: &'static str,
        /// What was read.
        name: String,
        /// The nearest name, or all that are allowed.
        hint: String,
    },
    /// A value outside a section, or a section that is a value.
    #[error("{at}: {name}: read {}; allowed: a section [{name}]", shown(read))]
    NotASection {
        /// Where it was read.
        at: Source,
        /// The section's name.
        name: String,
        /// What was read.
        read: String,
    },
    /// A value of the wrong type, or outside the allowed range.
    #[error("{at}: {key}: read {}; allowed: {allowed}", shown(read))]
    Value {
        /// Where it was read.
        at: Source,
        /// The key with its section.
        key: String,
        /// What was read.
        read: String,
        /// What the key allows.
        allowed: String,
    },
}

impl Config {
    /// Reads the files and merges all layers. `tests`: the existing test ids.
    ///
    /// # Errors
    /// The first mistake, worded for the author of the configuration.
    pub fn load(files: &[PathBuf], words: &[String], tests: &[&str]) -> Result<Self, ConfigError> {
        let read = |file: &PathBuf| {
            files::read(file, LARGEST)
                .and_then(|bytes| String::from_utf8(bytes).map_err(|e| format!("cannot be read: {e}")))
                .map(|text| (file.clone(), text))
                .map_err(|why| ConfigError::Unreadable { file: file.clone(), why })
        };
        let layers = files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Self::merge(&layers, words, tests)
    }

    /// Merges the texts of files, in order, and then words: the later wins. Pure.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn merge(files: &[(PathBuf, String)], words: &[String], tests: &[&str]) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (file, text) in files {
            config.take_file(file, text, tests)?;
        }
        for word in words {
            config.take_word(word, tests)?;
        }
        Ok(config)
    }

    fn take_file(&mut self, file: &Path, text: &str, tests: &[&str]) -> Result<(), ConfigError> {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| ConfigError::Syntax {
            file: file.to_owned(),
            line: e.span().and_then(|s| text.get(..s.start)).map_or(1, |t| t.matches('\n').count() + 1),
            why: e.message().replace('\n', " "),
        })?;
        let at = || Source::File(file.to_owned());
        for (name, content) in &table {
            if !sections().contains(name.as_str()) {
                return Err(unknown(at(), "section", name, &sections()));
            }
            let toml::Value::Table(section) = content else {
                return Err(ConfigError::NotASection { at: at(), name: name.clone(), read: content.to_string() });
            };
            if !own_sections().contains(name.as_str()) {
                continue;
            }
            for (key, value) in section {
                self.take(at(), &format!("{name}.{key}"), Raw::Toml(value), tests)?;
            }
        }
        Ok(())
    }

    fn take_word(&mut self, word: &str, tests: &[&str]) -> Result<(), ConfigError> {
        let (key, value) = word.split_once('=').ok_or_else(|| ConfigError::NoValue(word.to_owned()))?;
        let section = key.split('.').next().unwrap_or(key);
        let at = Source::Word(word.to_owned());
        if !own_sections().contains(section) {
            return Err(unknown(at, "section", section, &own_sections()));
        }
        self.take(at, key, Raw::Word(value), tests)
    }

    fn take(&mut self, at: Source, key: &str, raw: Raw<'_>, tests: &[&str]) -> Result<(), ConfigError> {
        match self.set(key, raw, tests) {
            Some(Ok(())) => Ok(()),
            Some(Err(allowed)) => {
                // A secret is never shown, not even an invalid one.
                let (at, read) = match (key, at) {
                    (TOKEN, Source::Word(_)) => (Source::Word(format!("{TOKEN}=..")), "a secret".to_owned()),
                    (TOKEN, at) => (at, "a secret".to_owned()),
                    (_, at) => (at, raw.to_string()),
                };
                Err(ConfigError::Value { at, key: key.to_owned(), read, allowed })
            }
            None => {
                let section = key.split('.').next().unwrap_or(key);
                let keys = KEYS.iter().copied().filter(|k| k.split('.').next() == Some(section));
                Err(unknown(at, "key", key, &keys.collect()))
            }
        }
    }
}

fn own_sections() -> BTreeSet<&'static str> {
    section::VALIDATOR.iter().copied().collect()
}

fn sections() -> BTreeSet<&'static str> {
    section::VALIDATOR.iter().chain(section::INIT).copied().collect()
}

fn unknown(at: Source, what: &'static str, name: &str, known: &BTreeSet<&str>) -> ConfigError {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("allowed: {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    ConfigError::Unknown { at, what, name: name.to_owned(), hint }
}

/// The known name nearest to `name`, if it is near enough to be a typing error.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).clamp(1, 2);
    known.map(|k| (levenshtein(name, k), k)).filter(|(d, _)| *d <= most).min().map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_the_right_name() {
        let known = ["fabric.iommu", "fabric.acs", "fabric.rebar"];
        assert_eq!(nearest("fabric.iomu", known.into_iter()), Some("fabric.iommu"));
        assert_eq!(nearest("fabrik.acs", known.into_iter()), Some("fabric.acs"));
    }

    #[test]
    fn another_word_finds_nothing() {
        assert_eq!(nearest("colour", ["fabric.iommu", "fabric.acs"].into_iter()), None);
        assert_eq!(nearest("", ["acs"].into_iter()), None);
    }
}
