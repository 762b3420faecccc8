//! Merges the configuration's layers into one program's sections. Every value is checked when it is added, so that an error
//! can name the file or word it came from; invalid values are left out and reported. So are values in a layer that may not set
//! their key. Values of the other program's sections are noted, and not checked.

use super::LayerSource;
use super::error::ConfigError;
use super::table::{Key, Section};
use super::value::{Raw, Refused, owned};
use crate::section;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// The sections of one program.
pub trait Sections {
    /// The sections that the program owns; one with an empty name is for words that are in no section.
    fn all(&mut self) -> Vec<&mut dyn Section>;

    /// A section by name.
    fn section(&mut self, name: &str) -> Option<&mut dyn Section> {
        self.all()
            .into_iter()
            .find(|section| section.name() == name)
    }
}

/// The name and the source of the layer that is being added.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The file, or the word, for error messages.
    pub place: &'a str,
    /// The kind of layer.
    pub source: LayerSource,
}

/// Where the value in force came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The file or the word.
    pub place: String,
    /// The kind of layer.
    pub source: LayerSource,
    /// The value as it was written.
    pub read: String,
    value: Value,
}

/// A value of the other program's sections.
#[derive(Debug, Clone, PartialEq)]
pub struct Foreign {
    /// `SECTION.KEY`
    pub key: String,
    value: Option<Value>,
    place: String,
    source: LayerSource,
}

impl Foreign {
    /// The text of a word; `None` for a value of a file.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match self.raw()? {
            Raw::Word(word) => Some(word),
            Raw::Toml(_) => None,
        }
    }

    /// The value; `None` for a number out of range.
    #[must_use]
    pub fn raw(&self) -> Option<Raw<'_>> {
        match (self.source, self.value.as_ref()?) {
            (LayerSource::Word, Value::String(word)) => Some(Raw::Word(word)),
            (_, value) => Some(Raw::Toml(value)),
        }
    }
}

/// All layers together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layers<S> {
    /// The values in force.
    pub settings: S,
    /// The values of the other program's sections, in order.
    pub foreign: Vec<Foreign>,
    /// The values of the data partition that a server's layer replaced, one line for each.
    pub overridden: Vec<String>,
    /// The errors found.
    pub errors: Vec<ConfigError>,
    /// By key, the errors of values that a later layer may still replace.
    replaceable: BTreeMap<String, ConfigError>,
    origins: BTreeMap<String, Origin>,
}

impl<S: Sections> Layers<S> {
    /// Where the value of a key came from, if any layer sets it.
    #[must_use]
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// The values and all errors.
    #[must_use]
    pub fn finish(self) -> (S, Vec<ConfigError>) {
        (
            self.settings,
            self.errors
                .into_iter()
                .chain(self.replaceable.into_values())
                .collect(),
        )
    }

    /// An error, if one was found.
    #[must_use]
    pub fn error(&self) -> Option<&ConfigError> {
        self.errors
            .first()
            .or_else(|| self.replaceable.values().next())
    }

    /// The value of a word as it may be shown.
    #[must_use]
    pub fn shown<'a>(&mut self, path: &str, text: &'a str) -> &'a str {
        let (section, key) = path.split_once('.').unwrap_or(("", path));
        let is_secret = matches!(self.known(section, key), Some(Ok(known)) if known.secret);
        if is_secret { ".." } else { text }
    }

    /// Adds the text of a TOML file.
    pub fn add_file(&mut self, layer: Layer<'_>, text: &str) {
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(e) => return self.errors.push(syntax(layer.place, text, &e)),
        };
        for (name, content) in table.get_ref() {
            let (name, content) = (name.get_ref().as_ref(), content.get_ref());
            if !sections().any(|section| section == name) {
                self.unknown_section(layer.place, name);
                continue;
            }
            let Some(table) = content.as_table() else {
                self.refuse(
                    layer.place,
                    name,
                    &shown(content),
                    &format!("a section [{name}]"),
                );
                continue;
            };
            for (key, read) in table {
                let (key, value) = (key.get_ref().as_ref(), owned(read.get_ref()));
                match (self.known(name, key), value) {
                    (None, value) => self.note_foreign(layer, format!("{name}.{key}"), value),
                    (Some(Err(())), _) => {
                        self.unknown_key(layer.place, name, &format!("{name}.{key}"));
                    }
                    (Some(Ok(known)), Some(value)) => {
                        let read = value.to_string();
                        self.set(layer, known, Raw::Toml(&value), read);
                    }
                    (Some(Ok(known)), None) => {
                        let allowed = self.allowed(&known.name());
                        self.refuse(layer.place, &known.name(), OUT_OF_RANGE, &allowed);
                    }
                }
            }
        }
    }

    /// Adds a word, `SECTION.KEY=VALUE`, of one of the program's sections, or one that is in no section.
    pub fn add_word(&mut self, layer: Layer<'_>, path: &str, text: &str) {
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        if !path.contains('.')
            && let Some(Ok(known)) = self.known("", path)
        {
            return self.set(layer, known, Raw::Word(text), text.to_owned());
        }
        if section.is_empty() || self.settings.section(section).is_none() {
            return self.unknown_section(layer.place, section);
        }
        if let Some(Ok(known)) = self.known(section, rest) {
            return self.set(layer, known, Raw::Word(text), text.to_owned());
        }
        match rest
            .split_once('.')
            .map(|(key, entry)| (self.known(section, key), entry))
        {
            Some((Some(Ok(known)), entry)) if known.entries && !entry.is_empty() => {
                let value = Value::Table(Table::from_iter([(
                    entry.to_owned(),
                    Value::String(text.to_owned()),
                )]));
                self.set(layer, known, Raw::Toml(&value), text.to_owned());
            }
            _ => self.unknown_key(layer.place, section, path),
        }
    }

    /// Notes a value in one of the other program's sections, and that a server replaces one of the data partition.
    pub fn note_foreign(&mut self, layer: Layer<'_>, key: String, value: Option<Value>) {
        if layer.source == LayerSource::Server {
            let replaced = |old: &&mut Foreign| {
                old.source == LayerSource::Partition && old.key == key && old.value != value
            };
            for old in self.foreign.iter_mut().filter(replaced) {
                old.source = layer.source;
                self.overridden
                    .push(overridden_line(&old.place, &key, layer.place));
            }
        }
        self.foreign.push(Foreign {
            key,
            value,
            place: layer.place.to_owned(),
            source: layer.source,
        });
    }

    /// Reports a value that is invalid in combination with others, and what would be allowed.
    pub fn refuse_as(&mut self, key: &str, allowed: &str) {
        let Some(origin) = self.origins.remove(key) else {
            return;
        };
        self.refuse(&origin.place, key, &origin.read, allowed);
    }

    /// Reports a value that is invalid in combination with others by what the key allows at all.
    pub fn refuse_value(&mut self, key: &str) {
        let allowed = self.allowed(key);
        self.refuse_as(key, &allowed);
    }

    /// Reports that `key` is required by the value of `because`.
    pub fn missing(&mut self, key: &str, because: &str) {
        if self.replaceable.contains_key(key) {
            return; // it is there, and refused
        }
        let why = self
            .origins
            .get(because)
            .map(|origin| (origin.place.clone(), origin.read.clone()));
        let (place, why) = why.unwrap_or_else(|| ("defaults".to_owned(), String::new()));
        let allowed = format!(
            "with {because} = \"{}\" {}",
            why.trim_matches('"'),
            self.allowed(key)
        );
        self.refuse(&place, key, "nothing", &allowed);
    }

    /// Reports any other error.
    pub fn refuse(&mut self, place: &str, key: &str, read: &str, allowed: &str) {
        self.errors
            .push(error(place, key, read, allowed.to_owned()));
    }

    /// Reports an unknown section.
    pub fn unknown_section(&mut self, place: &str, name: &str) {
        let mut known: Vec<_> = sections().map(str::to_owned).collect();
        known.sort_unstable();
        self.unknown(place, "section", name, known);
    }

    fn unknown_key(&mut self, place: &str, section: &str, name: &str) {
        let keys = self
            .settings
            .section(section)
            .map_or(&[][..], |section| section.keys());
        let mut known: Vec<_> = keys.iter().map(Key::name).collect();
        known.sort_unstable();
        self.unknown(place, "key", name, known);
    }

    fn unknown(&mut self, place: &str, what: &'static str, name: &str, known: Vec<String>) {
        let (place, name) = (place.to_owned(), name.to_owned());
        self.errors.push(ConfigError::Unknown {
            place,
            what,
            name,
            known,
        });
    }

    /// A key of the program's sections; `None` if the section is the other program's.
    fn known(&mut self, section: &str, key: &str) -> Option<Result<&'static Key, ()>> {
        let keys = self.settings.section(section)?.keys();
        Some(keys.iter().find(|known| known.key == key).ok_or(()))
    }

    fn allowed(&mut self, key: &str) -> String {
        let (section, key) = key.split_once('.').unwrap_or(("", key));
        self.settings
            .section(section)
            .map_or_else(String::new, |section| section.allowed(key))
    }

    /// A later layer replaces earlier values; tables are merged entry by entry.
    fn set(&mut self, layer: Layer<'_>, key: &Key, raw: Raw<'_>, read: String) {
        let (name, place) = (key.name(), layer.place.to_owned());
        if !key.layers.allows(layer.source) {
            let allowed = key.layers.text();
            return self.errors.push(ConfigError::Misplaced {
                place,
                key: name,
                allowed,
            });
        }
        let result = self
            .settings
            .section(key.section)
            .and_then(|section| section.set(key.key, raw));
        match result {
            Some(Ok(())) => {
                self.replaceable.remove(&name);
                self.note_origin(layer, name, raw, read);
            }
            Some(Err(refusal)) => {
                let read = if key.secret {
                    "a secret".to_owned()
                } else {
                    read
                };
                let error = error(layer.place, &name, &read, refusal.allowed);
                match refusal.why {
                    Refused::Type => self.errors.push(error),
                    Refused::Content => drop(self.replaceable.insert(name, error)),
                }
            }
            None => {}
        }
    }

    fn note_origin(&mut self, layer: Layer<'_>, name: String, raw: Raw<'_>, read: String) {
        let value = match raw {
            Raw::Toml(value) => value.clone(),
            Raw::Word(word) => Value::String(word.to_owned()),
        };
        let (place, source) = (layer.place.to_owned(), layer.source);
        let Some(origin) = self.origins.get_mut(&name) else {
            self.origins.insert(
                name,
                Origin {
                    place,
                    source,
                    read,
                    value,
                },
            );
            return;
        };
        let is_server_over_disk =
            (origin.source, source) == (LayerSource::Partition, LayerSource::Server);
        if is_server_over_disk && overrides(&origin.value, &value) {
            self.overridden
                .push(overridden_line(&origin.place, &name, &place));
        }
        (origin.place, origin.source, origin.read) = (place, source, read);
        match (&mut origin.value, value) {
            (Value::Table(old), Value::Table(new)) => old.extend(new),
            (old, new) => *old = new,
        }
    }
}

/// How a number that TOML allows and no key does is shown.
const OUT_OF_RANGE: &str = "a number out of range";

/// All sections of both programs.
fn sections() -> impl Iterator<Item = &'static str> {
    section::INIT.iter().chain(&section::VALIDATOR).copied()
}

/// Whether the new value takes away something of the old one.
fn overrides(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Table(old), Value::Table(new)) => new
            .iter()
            .any(|(name, value)| old.get(name).is_some_and(|before| before != value)),
        (old, new) => old != new,
    }
}

fn overridden_line(place: &str, key: &str, by: &str) -> String {
    format!("{place}: {key} is ignored: {by} sets it, and a server overrides a disk")
}

/// The value as TOML.
fn shown(read: &DeValue<'_>) -> String {
    owned(read).map_or_else(|| OUT_OF_RANGE.to_owned(), |value| value.to_string())
}

fn error(place: &str, key: &str, read: &str, allowed: String) -> ConfigError {
    ConfigError::Key {
        place: place.to_owned(),
        key: key.to_owned(),
        read: read.to_owned(),
        allowed,
    }
}

fn syntax(place: &str, text: &str, e: &toml::de::Error) -> ConfigError {
    let until = e
        .span()
        .and_then(|span| text.get(..span.start))
        .unwrap_or("");
    let line = until.matches('\n').count() + 1;
    ConfigError::Syntax {
        place: place.to_owned(),
        line,
        why: e.message().replace('\n', " "),
    }
}
