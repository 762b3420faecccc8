//! Merges the configuration's layers. Every entry is checked when it is added, so that an error can name
//! the file or word it came from; invalid entries are left out and reported.

use crate::config::cmdline::Word;
use crate::config::error::Wrong;
use crate::config::keys::{self, Key, Kind};
use crate::config::{origin, remote};
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
    /// The value as it was written.
    read: String,
}

/// All layers together.
#[derive(Debug, Default, PartialEq)]
pub struct Merged {
    entries: Vec<Entry>,
    /// Words for the validator's `--set`.
    pub set: Vec<String>,
    /// `validate.timeout_s`, when a layer has a valid one.
    pub validate_timeout_s: Option<u64>,
    /// The errors found.
    pub wrong: Vec<Wrong>,
}

impl Merged {
    /// The entry of a key, if any layer has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Adds a TOML file.
    pub fn add_file(&mut self, place: &str, text: &str) {
        let table = match DeTable::parse(text) {
            Ok(table) => table,
            Err(e) => return self.wrong.push(syntax(place, text, &e)),
        };
        for (section, content) in table.get_ref() {
            let (section, content) = (section.get_ref().as_ref(), content.get_ref());
            if section::VALIDATOR.contains(&section) {
                self.add_foreign(place, section, content);
            } else if section::INIT.contains(&section) {
                self.add_section(place, section, content);
            } else {
                self.unknown(place, "section", section, keys::sections());
            }
        }
    }

    /// Adds a kernel word. Words that do not begin with `firstlight.` are ignored.
    pub fn add_word(&mut self, word: &Word) {
        let Some(path) = word.name.strip_prefix("firstlight.") else { return };
        let place = format!("kernel word {}", word.name);
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        let Some(text) = word.value.as_deref() else {
            return self.wrong.push(Wrong::NoValue { place, key: path.to_owned() });
        };
        let (foreign, own) = (section::VALIDATOR.contains(&section), section::INIT.contains(&section));
        if foreign && !rest.is_empty() {
            self.set.push(format!("{path}={text}"));
            self.note_timeout(path, text.parse().ok());
        } else if foreign {
            self.refuse(&place, path, text, &format!("firstlight.{section}.KEY=VALUE"));
        } else if own {
            self.add_own_word(&place, section, path, text);
        } else if ![origin::WORD, origin::RESET, remote::WORD].contains(&path) {
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
        self.wrong.push(Wrong::Key {
            place: place.to_owned(),
            key: key.to_owned(),
            read: read.to_owned(),
            allowed: allowed.to_owned(),
        });
    }

    fn add_foreign(&mut self, place: &str, section: &str, content: &DeValue<'_>) {
        let Some(table) = content.as_table() else {
            return self.refuse(place, section, &shown(content), &format!("a section [{section}]"));
        };
        if section == "validate" {
            let seconds = table.get("timeout_s").and_then(|value| keys::value(value.get_ref()));
            self.note_timeout("validate.timeout_s", seconds.and_then(|value| value.as_integer()));
        }
    }

    fn note_timeout(&mut self, path: &str, seconds: Option<i64>) {
        let usable = seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| (1..=86400).contains(s));
        if path == "validate.timeout_s" && usable.is_some() {
            self.validate_timeout_s = usable;
        }
    }

    fn add_section(&mut self, place: &str, section: &str, content: &DeValue<'_>) {
        let Some(table) = content.as_table() else {
            return self.refuse(place, section, &shown(content), &format!("a section [{section}]"));
        };
        for (name, read) in table {
            let (path, read) = (format!("{section}.{}", name.get_ref()), read.get_ref());
            match (keys::find(&path), keys::value(read)) {
                (Some(key), Some(value)) if key.kind.takes(&value) => {
                    let written = value.to_string();
                    self.put(key, value, place, written);
                }
                (Some(key), _) => self.refuse(place, &path, &shown(read), key.allowed),
                (None, _) => self.unknown(place, "key", &path, keys::of_section(section)),
            }
        }
    }

    fn add_own_word(&mut self, place: &str, section: &str, path: &str, text: &str) {
        if let Some(key) = keys::find(path) {
            return match key.kind.from_word(text) {
                Some(value) => self.put(key, value, place, text.to_owned()),
                None => self.refuse(place, path, text, key.allowed),
            };
        }
        let pair = keys::KEYS.iter().find_map(|key| {
            let name = path.strip_prefix(key.name)?.strip_prefix('.')?;
            (key.kind == Kind::Pairs && !name.is_empty()).then_some((key, name))
        });
        match pair {
            Some((key, name)) => {
                let table = Table::from_iter([(name.to_owned(), Value::String(text.to_owned()))]);
                self.put(key, Value::Table(table), place, text.to_owned());
            }
            None => self.unknown(place, "key", path, keys::of_section(section)),
        }
    }

    fn unknown(&mut self, place: &str, what: &'static str, name: &str, known: Vec<&'static str>) {
        let (place, name) = (place.to_owned(), name.to_owned());
        self.wrong.push(Wrong::Unknown { place, what, name, known });
    }

    /// A later layer replaces earlier values; tables are merged entry by entry.
    fn put(&mut self, key: &'static Key, value: Value, place: &str, read: String) {
        let place = place.to_owned();
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key.name) else {
            return self.entries.push(Entry { key: key.name, value, place, read });
        };
        (entry.place, entry.read) = (place, read);
        match (&mut entry.value, value) {
            (Value::Table(old), Value::Table(new)) => old.extend(new),
            (old, new) => *old = new,
        }
    }
}

/// The value as TOML.
fn shown(read: &DeValue<'_>) -> String {
    keys::value(read).map_or_else(|| "a number out of range".to_owned(), |value| value.to_string())
}

fn syntax(place: &str, text: &str, e: &toml::de::Error) -> Wrong {
    let until = e.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = until.matches('\n').count() + 1;
    Wrong::Syntax { place: place.to_owned(), line, why: e.message().replace('\n', " ") }
}

#[cfg(test)]
mod tests;
