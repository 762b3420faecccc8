//! The journal of setup: what is about to be done is on the disk before it is done, so that `undo` finds it after a crash too.

use crate::files;
use crate::step::{Call, Change, Expected, paths};
use crate::{SetupError, SetupResult};
use machine::root::Root;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// The version of the file format.
pub const SCHEMA: &str = "firstlight.setup/1";

/// The journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// `firstlight.setup/1`
    pub schema: String,
    /// What is in force after the last run.
    pub expected: Expected,
    /// Everything that was done or begun, in order.
    pub entries: Vec<Entry>,
}

/// One action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What it is.
    pub record: Record,
    /// Whether it ended well; false if it was begun alone.
    pub done: bool,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "action", deny_unknown_fields)]
pub enum Record {
    /// A file was written.
    Write {
        /// Its path, and its text before and after.
        change: Change,
        /// Folders that were made for it.
        folders: Vec<String>,
    },
    /// A program was run.
    Run {
        /// The program.
        call: Call,
    },
    /// A folder was made.
    Tree {
        /// Its path.
        path: String,
        /// The SHA-256 of each file in it; empty until it was complete.
        files: BTreeMap<String, String>,
    },
}

impl Journal {
    /// The machine's journal; `None` if nothing was set up.
    ///
    /// # Errors
    /// One line: it cannot be read, or is not one.
    pub fn read(root: &Root) -> SetupResult<Option<Self>> {
        let bytes = match root.read(paths::JOURNAL) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound || e.kind() == ErrorKind::NotADirectory => {
                return Ok(None);
            }
            Err(e) => return Err(SetupError::at(paths::JOURNAL, &e)),
        };
        let journal: Self =
            serde_json::from_slice(&bytes).map_err(|e| SetupError::at(paths::JOURNAL, &e))?;
        if journal.schema != SCHEMA {
            let why = format!("its schema is '{}'; expected {SCHEMA}", journal.schema);
            return Err(SetupError::at(paths::JOURNAL, &why));
        }
        Ok(Some(journal))
    }

    /// The journal of an earlier run, to be continued, or an empty one.
    ///
    /// # Errors
    /// As [`Journal::read`].
    pub fn opened(root: &Root) -> SetupResult<Self> {
        let empty = || Self {
            schema: SCHEMA.to_owned(),
            expected: Expected::default(),
            entries: Vec::new(),
        };
        Ok(Self::read(root)?.unwrap_or_else(empty))
    }

    /// Writes it. Only root may read it, because it has the texts of other files.
    ///
    /// # Errors
    /// One line.
    pub fn write(&self, root: &Root) -> SetupResult<()> {
        let mut text =
            serde_json::to_string_pretty(self).map_err(|e| SetupError::at(paths::JOURNAL, &e))?;
        text.push('\n');
        files::write(root, paths::JOURNAL, &text, 0o600)
    }

    /// Removes it, and its folder if that is empty.
    ///
    /// # Errors
    /// One line.
    pub fn remove(root: &Root) -> SetupResult<()> {
        files::remove(root, paths::JOURNAL, &["var/lib/firstlight".to_owned()])
    }
}
