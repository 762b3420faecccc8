//! Merges the configuration's layers. Every entry is checked when it is added, so that an error can name
//! the file or word it came from; invalid entries are left out and reported. So are entries in a layer that
//! may not set their key.

use crate::config::cmdline::KernelWord;
use crate::config::error::ConfigError;
use crate::config::keys::{self, Key, ValueKind};
use crate::config::{ConfigFile, LayerSource, boot_words, remote};
use contract::section;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    key: &'static str,
    /// The value, of the key's kind.
    pub value: Value,
    /// File name or kernel word.
    pub place: String,
    /// The kind of layer.
    pub source: LayerSource,
    /// The value as it was written.
    read: String,
}

/// The name and the source of the layer that is being added.
#[derive(Debug, Clone, Copy)]
struct Layer<'a> {
    place: &'a str,
    source: LayerSource,
}

/// All layers together.
#[derive(Debug, Default, PartialEq)]
pub struct MergedLayers {
    entries: Vec<Entry>,
    /// Words for the validator's `--set`.
    pub set: Vec<String>,
    /// `validate.timeout_s`, when a layer has a valid one.
    pub validate_timeout_s: Option<u64>,
    /// Whether a layer has a key of `[nodes]`.
    pub has_nodes: bool,
    /// Whether a layer has `nodes.size`.
    pub has_nodes_size: bool,
    /// `nodes.timeout_s`, when a layer has a valid one.
    pub nodes_timeout_s: Option<u64>,
    /// The errors found.
    pub errors: Vec<ConfigError>,
    /// The values of the data partition that a server's layer replaced, one line for each.
    pub overridden: Vec<String>,
    /// What files of the data partition say in the validator's sections: key, file, value.
    from_disk: Vec<(String, String, Option<Value>)>,
}

impl MergedLayers {
    /// The entry of a key, if any layer has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Adds a TOML file.
    pub fn add_file(&mut self, file: &ConfigFile) {
        let layer = Layer { place: &file.path, source: file.source };
        let table = match DeTable::parse(&file.text) {
            Ok(table) => table,
            Err(e) => return self.errors.push(syntax(&file.path, &file.text, &e)),
        };
        for (section, content) in table.get_ref() {
            let (section, content) = (section.get_ref().as_ref(), content.get_ref());
            if section::VALIDATOR.contains(&section) {
                self.add_validator_section(layer, section, content);
            } else if section::INIT.contains(&section) {
                self.add_init_section(layer, section, content);
            } else {
                self.unknown(layer.place, "section", section, keys::sections());
            }
        }
    }

    /// Adds a kernel word. Words that do not begin with `firstlight.` are ignored.
    pub fn add_word(&mut self, word: &KernelWord) {
        let Some(path) = word.name.strip_prefix("firstlight.") else { return };
        let place = format!("kernel word {}", word.name);
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        let Some(text) = word.value.as_deref() else {
            return self.errors.push(ConfigError::NoValue { place, key: path.to_owned() });
        };
        if [boot_words::BOOTED_FROM, boot_words::RESET, remote::WORD].contains(&path) {
            return;
        }
        let (foreign, own) = (section::VALIDATOR.contains(&section), section::INIT.contains(&section));
        if foreign && !rest.is_empty() {
            self.set.push(format!("{path}={text}"));
            self.has_nodes |= section == "nodes";
            self.has_nodes_size |= path == "nodes.size";
            self.note_timeout(path, text.parse().ok());
        } else if foreign {
            self.refuse(&place, path, text, &format!("firstlight.{section}.KEY=VALUE"));
        } else if own {
            self.add_init_word(Layer { place: &place, source: LayerSource::KernelWord }, section, path, text);
        } else {
            self.unknown(&place, "section", section, keys::sections());
        }
    }

    /// Reports a value of the right kind that is invalid.
    pub fn refuse_entry(&mut self, key: &str) {
        let at = self.entries.iter().position(|entry| entry.key == key);
        let (Some(at), Some(known)) = (at, keys::find(key)) else { return };
        let entry = self.entries.swap_remove(at);
        self.refuse(&entry.place, key, &entry.read, known.allowed);
    }

    /// Reports a value that is invalid in combination with others, and what would be allowed.
    pub fn refuse_as(&mut self, key: &str, allowed: &str) {
        let Some(at) = self.entries.iter().position(|entry| entry.key == key) else { return };
        let entry = self.entries.swap_remove(at);
        self.refuse(&entry.place, key, &entry.read, allowed);
    }

    /// Reports any other error.
    pub fn refuse(&mut self, place: &str, key: &str, read: &str, allowed: &str) {
        self.errors.push(ConfigError::Key {
            place: place.to_owned(),
            key: key.to_owned(),
            read: read.to_owned(),
            allowed: allowed.to_owned(),
        });
    }

    fn add_validator_section(&mut self, layer: Layer<'_>, section: &str, content: &DeValue<'_>) {
        let Some(table) = content.as_table() else {
            return self.refuse(layer.place, section, &shown(content), &format!("a section [{section}]"));
        };
        let seconds = table.get("timeout_s").and_then(|value| keys::value(value.get_ref()));
        self.note_timeout(&format!("{section}.timeout_s"), seconds.and_then(|value| value.as_integer()));
        self.has_nodes_size |= section == "nodes" && table.contains_key("size");
        self.has_nodes |= section == "nodes" && !table.is_empty();
        for (name, read) in table {
            self.note_override(layer, format!("{section}.{}", name.get_ref()), keys::value(read.get_ref()));
        }
    }

    /// Notes a value of the data partition in one of the validator's sections, and that a server replaces it.
    fn note_override(&mut self, layer: Layer<'_>, key: String, value: Option<Value>) {
        match layer.source {
            LayerSource::Partition => self.from_disk.push((key, layer.place.to_owned(), value)),
            LayerSource::Server => {
                let other = |(k, _, old): &mut (String, String, Option<Value>)| *k == key && *old != value;
                for (key, place, _) in self.from_disk.extract_if(.., other) {
                    self.overridden.push(overridden_line(&place, &key, layer.place));
                }
            }
            LayerSource::Image | LayerSource::KernelWord => {}
        }
    }

    fn note_timeout(&mut self, path: &str, seconds: Option<i64>) {
        let usable = seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| (1..=86400).contains(s));
        let place = match path {
            "validate.timeout_s" => &mut self.validate_timeout_s,
            "nodes.timeout_s" => &mut self.nodes_timeout_s,
            _ => return,
        };
        *place = usable.or(*place);
    }

    fn add_init_section(&mut self, layer: Layer<'_>, section: &str, content: &DeValue<'_>) {
        let Some(table) = content.as_table() else {
            return self.refuse(layer.place, section, &shown(content), &format!("a section [{section}]"));
        };
        for (name, read) in table {
            let (path, read) = (format!("{section}.{}", name.get_ref()), read.get_ref());
            match (keys::find(&path), keys::value(read)) {
                (Some(key), Some(value)) if key.kind.accepts(&value) => {
                    let written = value.to_string();
                    self.set_value(key, value, layer, written);
                }
                (Some(key), _) => self.refuse(layer.place, &path, &shown(read), key.allowed),
                (None, _) => self.unknown(layer.place, "key", &path, keys::of_section(section)),
            }
        }
    }

    fn add_init_word(&mut self, layer: Layer<'_>, section: &str, path: &str, text: &str) {
        if let Some(key) = keys::find(path) {
            return match key.kind.from_word(text) {
                Some(value) => self.set_value(key, value, layer, text.to_owned()),
                None => self.refuse(layer.place, path, text, key.allowed),
            };
        }
        let pair = keys::KEYS.iter().find_map(|key| {
            let name = path.strip_prefix(key.name)?.strip_prefix('.')?;
            (key.kind == ValueKind::Pairs && !name.is_empty()).then_some((key, name))
        });
        match pair {
            Some((key, name)) => {
                let table = Table::from_iter([(name.to_owned(), Value::String(text.to_owned()))]);
                self.set_value(key, Value::Table(table), layer, text.to_owned());
            }
            None => self.unknown(layer.place, "key", path, keys::of_section(section)),
        }
    }

    fn unknown(&mut self, place: &str, what: &'static str, name: &str, known: Vec<&'static str>) {
        let (place, name) = (place.to_owned(), name.to_owned());
        self.errors.push(ConfigError::Unknown { place, what, name, known });
    }

    /// A later layer replaces earlier values; tables are merged entry by entry.
    fn set_value(&mut self, key: &'static Key, value: Value, layer: Layer<'_>, read: String) {
        let (place, source) = (layer.place.to_owned(), layer.source);
        if !key.layers.allows(source) {
            let (key, allowed) = (key.name.to_owned(), key.layers.text());
            return self.errors.push(ConfigError::Misplaced { place, key, allowed });
        }
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key.name) else {
            return self.entries.push(Entry { key: key.name, value, place, source, read });
        };
        let is_server_over_disk = (entry.source, source) == (LayerSource::Partition, LayerSource::Server);
        if is_server_over_disk && overrides(&entry.value, &value) {
            self.overridden.push(overridden_line(&entry.place, key.name, &place));
        }
        (entry.place, entry.source, entry.read) = (place, source, read);
        match (&mut entry.value, value) {
            (Value::Table(old), Value::Table(new)) => old.extend(new),
            (old, new) => *old = new,
        }
    }
}

/// Whether the new value takes away something of the old one.
fn overrides(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Table(old), Value::Table(new)) => {
            new.iter().any(|(name, value)| old.get(name).is_some_and(|before| before != value))
        }
        (old, new) => old != new,
    }
}

fn overridden_line(place: &str, key: &str, by: &str) -> String {
    format!("{place}: {key} is ignored: {by} sets it, and a server overrides a disk")
}

/// The value as TOML.
fn shown(read: &DeValue<'_>) -> String {
    keys::value(read).map_or_else(|| "a number out of range".to_owned(), |value| value.to_string())
}

fn syntax(place: &str, text: &str, e: &toml::de::Error) -> ConfigError {
    let until = e.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = until.matches('\n').count() + 1;
    ConfigError::Syntax { place: place.to_owned(), line, why: e.message().replace('\n', " ") }
}

#[cfg(test)]
mod tests;
