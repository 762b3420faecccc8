//! Lays the configuration's layers over each other. Every entry is checked as it comes, so that an
//! error can name the file or word it came from; what is wrong is left out and reported.

use super::cmdline::Word;
use super::error::Wrong;
use super::keys::{self, Key, Kind};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The value, of the key's kind.
    pub value: Value,
    /// File name or kernel word.
    pub place: String,
}

/// All layers together.
#[derive(Debug, Default, PartialEq)]
pub struct Merged {
    entries: BTreeMap<&'static str, Entry>,
    /// Words for the validator's `--set`.
    pub set: Vec<String>,
    /// `validate.timeout_s`, when a layer has a usable one.
    pub validate_timeout_s: Option<u64>,
    /// What was wrong.
    pub wrong: Vec<Wrong>,
}

impl Merged {
    /// The entry of a key, if any layer has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Adds a TOML file.
    pub fn add_file(&mut self, place: &str, text: &str) {
        let table = match toml::from_str::<Table>(text) {
            Ok(table) => table,
            Err(e) => return self.wrong.push(syntax(place, text, &e)),
        };
        for (section, content) in table {
            if keys::FOREIGN.contains(&section.as_str()) {
                self.add_foreign(place, &section, &content);
            } else if keys::SECTIONS.contains(&section.as_str()) {
                self.add_section(place, &section, content);
            } else {
                let read = if content.is_table() { "a section of that name" } else { "a key of that name" };
                self.refuse(place, &section, read, &format!("sections {}", keys::SECTIONS_TEXT));
            }
        }
    }

    /// Adds a kernel word. Words that do not begin with `firstlight.` are none of ours.
    pub fn add_word(&mut self, word: &Word) {
        let Some(path) = word.name.strip_prefix("firstlight.") else { return };
        let place = format!("kernel word {}", word.name);
        let (section, rest) = path.split_once('.').unwrap_or((path, ""));
        let Some(text) = word.value.as_deref() else {
            return self.refuse(&place, path, "no value", "firstlight.SECTION.KEY=VALUE");
        };
        if keys::FOREIGN.contains(&section) && !rest.is_empty() {
            self.set.push(format!("{path}={text}"));
            self.note_timeout(path, text.parse().ok());
        } else if keys::SECTIONS.contains(&section) && !rest.is_empty() {
            self.add_own_word(&place, section, path, text);
        } else if path != super::origin::WORD {
            self.refuse(&place, path, "that name", &format!("sections {}", keys::SECTIONS_TEXT));
        }
    }

    /// Reports a value that has the right kind and is impossible all the same.
    pub fn refuse_entry(&mut self, key: &str) {
        let (Some(entry), Some(known)) = (self.entries.remove(key), keys::find(key)) else { return };
        self.refuse(&entry.place, key, &entry.value.to_string(), known.allowed);
    }

    /// Reports anything else.
    pub fn refuse(&mut self, place: &str, key: &str, read: &str, allowed: &str) {
        self.wrong.push(Wrong::Key {
            place: place.to_owned(),
            key: key.to_owned(),
            read: read.to_owned(),
            allowed: allowed.to_owned(),
        });
    }

    fn add_foreign(&mut self, place: &str, section: &str, content: &Value) {
        let Some(table) = content.as_table() else {
            return self.refuse(place, section, &content.to_string(), "a section");
        };
        if section == "validate" {
            self.note_timeout("validate.timeout_s", table.get("timeout_s").and_then(Value::as_integer));
        }
    }

    fn note_timeout(&mut self, path: &str, seconds: Option<i64>) {
        let usable = seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| (1..=86400).contains(s));
        if path == "validate.timeout_s" && usable.is_some() {
            self.validate_timeout_s = usable;
        }
    }

    fn add_section(&mut self, place: &str, section: &str, content: Value) {
        let Value::Table(table) = content else {
            return self.refuse(place, section, &content.to_string(), "a section");
        };
        for (name, value) in table {
            let path = format!("{section}.{name}");
            match keys::find(&path) {
                Some(key) if key.kind.takes(&value) => self.put(key, value, place),
                Some(key) => self.refuse(place, &path, &value.to_string(), key.allowed),
                None => self.unknown(place, section, &path, &value.to_string()),
            }
        }
    }

    fn add_own_word(&mut self, place: &str, section: &str, path: &str, text: &str) {
        if let Some(key) = keys::find(path) {
            return match key.kind.from_word(text) {
                Some(value) => self.put(key, value, place),
                None => self.refuse(place, path, &format!("\"{text}\""), key.allowed),
            };
        }
        let pair = keys::KEYS.iter().find_map(|key| {
            let name = path.strip_prefix(key.name)?.strip_prefix('.')?;
            (key.kind == Kind::Pairs && !name.is_empty()).then_some((key, name))
        });
        match pair {
            Some((key, name)) => {
                let table = Table::from_iter([(name.to_owned(), Value::String(text.to_owned()))]);
                self.put(key, Value::Table(table), place);
            }
            None => self.unknown(place, section, path, &format!("\"{text}\"")),
        }
    }

    fn unknown(&mut self, place: &str, section: &str, path: &str, read: &str) {
        let allowed = format!("keys of [{section}]: {}", keys::of_section(section));
        self.refuse(place, path, &format!("unknown key = {read}"), &allowed);
    }

    /// The later layer wins; tables are laid over each other entry by entry.
    fn put(&mut self, key: &'static Key, value: Value, place: &str) {
        let place = place.to_owned();
        if let (Value::Table(new), Some(Entry { value: Value::Table(old), place: from })) =
            (&value, self.entries.get_mut(key.name))
        {
            old.extend(new.clone());
            *from = place;
            return;
        }
        self.entries.insert(key.name, Entry { value, place });
    }
}

fn syntax(place: &str, text: &str, e: &toml::de::Error) -> Wrong {
    let until = e.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = until.matches('\n').count() + 1;
    Wrong::Syntax { place: place.to_owned(), line, why: e.message().replace('\n', ", ") }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
