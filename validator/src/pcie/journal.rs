//! The journal of the fabric pass: which register held what before and after, written before
//! anything is changed, so that `firstlight fabric restore` can put it back even after a crash.

use super::model::Bdf;
use crate::finding::Finding;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The version of the file format.
pub const SCHEMA: &str = "firstlight.journal/1";

/// One write to configuration space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Whose register.
    pub bdf: Bdf,
    /// Which register, as people call it.
    pub register: String,
    /// Where it stands in configuration space, bytes.
    pub offset: u16,
    /// How wide it is, bytes.
    pub width: u8,
    /// What it held before.
    pub before: u16,
    /// What was written.
    pub after: u16,
    /// What it held when all registers were written; `null` until then.
    pub readback: Option<u16>,
    /// The code of what went wrong with the write, e.g. `ACS-STUCK`; `null` when nothing did.
    pub finding: Option<String>,
    /// When, in seconds since 1970-01-01 00:00 UTC.
    pub when: u64,
}

/// One size that was tried for a BAR.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Try {
    /// Which size.
    pub bytes: u64,
    /// With everything below the root port removed and laid out anew.
    pub together: bool,
    /// What came of it; `null` until then.
    pub outcome: Option<String>,
}

/// One BAR1 that was to grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grown {
    /// Whose.
    pub bdf: Bdf,
    /// Which BAR of the PCI function NVIDIA calls BAR1.
    pub bar: u8,
    /// The root port above.
    pub port: Option<Bdf>,
    /// It had an address before.
    pub assigned: bool,
    /// Its size before.
    pub before_bytes: u64,
    /// The largest size that the GPU offers.
    pub wanted_bytes: u64,
    /// Its size after the pass; `null` until then, and when the GPU cannot be read any more.
    pub after_bytes: Option<u64>,
    /// What was tried, in order; a try stands here before it is made.
    pub tries: Vec<Try>,
    /// The code of what is wrong with the outcome, e.g. `REBAR-NO-ROOM`; `null` when nothing is.
    pub finding: Option<String>,
    /// When, in seconds since 1970-01-01 00:00 UTC.
    pub when: u64,
}

impl Grown {
    /// It has all that the GPU offers, and nothing is wrong with it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.after_bytes == Some(self.wanted_bytes) && self.finding.is_none()
    }
}

/// A function that the pass may have taken off the bus's addresses for a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// Which.
    pub bdf: Bdf,
    /// What its command register held before.
    pub command: u16,
}

/// Every write, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// `firstlight.journal/1`.
    pub schema: String,
    /// The root that was written to.
    pub root: String,
    /// Every write.
    pub entries: Vec<Entry>,
    /// Every BAR1 that was to grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Grown>,
    /// Whose memory decode may be off: noted before the first try, and taken out when it is as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<Decode>,
    /// What the passes said about BAR1s, the last word about each GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Why a journal could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file could not be read.
    #[error("cannot read the journal {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
    /// The file could not be written; nothing was changed without it.
    #[error("cannot write the journal {}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
    /// The file is no journal.
    #[error("{} is no journal", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// The file is a journal of another version.
    #[error("{} has schema '{schema}', expected '{SCHEMA}'", path.display())]
    Schema {
        /// Which file.
        path: PathBuf,
        /// What it says.
        schema: String,
    },
    /// The file is another machine's journal.
    #[error("{} was written for the root {found}, not for {expected}", path.display())]
    Root {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What was asked for.
        expected: String,
    },
}

impl Journal {
    /// An empty journal for `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            root: root.display().to_string(),
            entries: Vec::new(),
            bars: Vec::new(),
            decode: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Reads the journal of `root`; `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, is no journal, or belongs to another root.
    pub fn load(path: &Path, root: &Path) -> Result<Option<Self>, JournalError> {
        let here = || path.to_owned();
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(JournalError::Read { path: here(), source }),
        };
        let journal: Self = serde_json::from_slice(&bytes)
            .map_err(|source| JournalError::Malformed { path: here(), source })?;
        if journal.schema != SCHEMA {
            return Err(JournalError::Schema { path: here(), schema: journal.schema });
        }
        let expected = root.display().to_string();
        if journal.root != expected {
            return Err(JournalError::Root { path: here(), found: journal.root, expected });
        }
        Ok(Some(journal))
    }

    /// Writes the journal whole or not at all: to a file beside it, then renamed.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), JournalError> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from);
        text.and_then(|text| replace(path, &text))
            .map_err(|source| JournalError::Write { path: path.to_owned(), source })
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(ErrorKind::InvalidFilename)?.to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let bdf = "0000:00:01.1".parse().unwrap();
        let register = "ACS control".to_owned();
        let entry = Entry {
            bdf,
            register,
            offset: 0x2a6,
            width: 2,
            before: 0x1d,
            after: 0,
            readback: Some(0x1d),
            finding: Some("ACS-STUCK".to_owned()),
            when: 7,
        };
        Journal { entries: vec![entry], ..Journal::new(Path::new("/")) }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/for/it/fabric.json");
        journal().save(&path).unwrap();
        assert_eq!(Journal::load(&path, Path::new("/")).unwrap(), Some(journal()));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no file is left beside it");
    }

    #[test]
    fn no_journal_is_told_from_a_broken_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fabric.json");
        assert_eq!(Journal::load(&path, Path::new("/")).unwrap(), None);
        for broken in ["", "{}", "[1]", r#"{"schema":"firstlight.journal/1","root":"/","entries":[{}]}"#] {
            fs::write(&path, broken).unwrap();
            let error = Journal::load(&path, Path::new("/")).unwrap_err();
            assert!(matches!(error, JournalError::Malformed { .. }), "{broken}: {error}");
        }
    }

    #[test]
    fn another_version_or_another_root_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fabric.json");
        journal().save(&path).unwrap();
        let error = Journal::load(&path, Path::new("/elsewhere")).unwrap_err();
        assert!(error.to_string().ends_with("was written for the root /, not for /elsewhere"), "{error}");
        Journal { schema: "firstlight.journal/2".into(), ..journal() }.save(&path).unwrap();
        assert!(matches!(Journal::load(&path, Path::new("/")), Err(JournalError::Schema { .. })));
    }

    #[test]
    fn a_journal_that_cannot_be_written_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(journal().save(&file.join("fabric.json")), Err(JournalError::Write { .. })));
    }
}
