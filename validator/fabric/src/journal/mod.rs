//! The journal of the fabric pass: the values of registers before and after, written before anything is
//! changed, so that `firstlight fabric restore` can restore them even after a crash.

mod checks;
mod kept;

pub use kept::KeptFinding;

use machine::pcie::model::Bdf;
use machine::root::{Root, read_regular};
use outcome::files::atomic;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The version of the file format.
pub const SCHEMA: &str = "firstlight.journal/1";

/// Where a machine keeps its own journal, below its root.
const PLACE: &str = "run/firstlight/fabric.json";

/// One write to configuration space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The function.
    pub bdf: Bdf,
    /// The register, by name.
    pub register: String,
    /// Its offset in configuration space, bytes.
    pub offset: u16,
    /// Its width, bytes.
    pub width: u8,
    /// Its value before.
    pub before: u16,
    /// The value that was written.
    pub after: u16,
    /// Its value after all writes; `null` until then.
    pub readback: Option<u16>,
    /// The code of the finding about the write, e.g. `ACS-STUCK`; `null` if there is none.
    pub finding: Option<String>,
    /// When, in seconds since 1970-01-01 00:00 UTC.
    pub when: u64,
}

/// One size that was tried for a BAR.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Try {
    /// The size.
    pub bytes: u64,
    /// Whether everything below the root port was removed and laid out again.
    pub together: bool,
    /// The result; `null` until then.
    pub outcome: Option<String>,
}

/// One BAR1 that should be enlarged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grown {
    /// The GPU.
    pub bdf: Bdf,
    /// The index of the PCI BAR that NVIDIA calls BAR1.
    pub bar: u8,
    /// The root port above.
    pub port: Option<Bdf>,
    /// Whether it had an address before.
    pub assigned: bool,
    /// Its size before.
    pub before_bytes: u64,
    /// The largest size that the GPU offers.
    pub wanted_bytes: u64,
    /// Its size after the pass; `null` until then, and if the GPU can no longer be read.
    pub after_bytes: Option<u64>,
    /// The attempts, in order; each is recorded before it is made.
    pub tries: Vec<Try>,
    /// The code of the finding about the result, e.g. `REBAR-NO-ROOM`; `null` if there is none.
    pub finding: Option<String>,
    /// When, in seconds since 1970-01-01 00:00 UTC.
    pub when: u64,
}

impl Grown {
    /// True if it has the largest size that the GPU offers and there is no finding about it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.after_bytes == Some(self.wanted_bytes) && self.finding.is_none()
    }
}

/// A function whose memory decode the pass may have switched off temporarily.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// The function.
    pub bdf: Bdf,
    /// The value of its command register before.
    pub command: u16,
}

/// The identity of a function that the journal names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// The function.
    pub bdf: Bdf,
    /// Vendor and device id as in `10de:2684`.
    pub ids: String,
}

/// Every write, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// `firstlight.journal/1`.
    pub schema: String,
    /// The root that was written to, as an absolute path.
    pub root: String,
    /// The boot in which it was written (`/proc/sys/kernel/random/boot_id`); `null` on a recorded machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Every function that the journal names: the same devices must be at these addresses now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// Every write.
    pub entries: Vec<Entry>,
    /// Every BAR1 that should be enlarged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Grown>,
    /// Functions whose memory decode may be off: recorded before the first attempt, removed once it is
    /// restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<Decode>,
    /// The findings of the passes about BAR1s, the latest about each GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<KeptFinding>,
}

/// Why a journal could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file could not be read.
    #[error("cannot read the journal {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file could not be written, so nothing was changed.
    #[error("cannot write the journal {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is not a journal.
    #[error("{} is not a journal", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is invalid.
        source: serde_json::Error,
    },
    /// The file is a journal of another version.
    #[error("{} has schema '{schema}', expected '{SCHEMA}'", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        schema: String,
    },
    /// The file is the journal of another root.
    #[error("{} was written for the root {found}, not for {expected}", path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// Its root.
        found: String,
        /// The requested root.
        expected: String,
    },
    /// The file was written in another boot, whose changes no longer exist.
    #[error("{} was written in the boot {found}, not in this one ({})", path.display(), here.as_deref().unwrap_or("unknown"))]
    Boot {
        /// The file.
        path: PathBuf,
        /// Its boot.
        found: String,
        /// This boot; `None` if it is unknown.
        here: Option<String>,
    },
    /// The file is the journal of another machine.
    #[error("{} is another machine's: its {bdf} is {found}, here it is {here}", path.display())]
    Machine {
        /// The file.
        path: PathBuf,
        /// The function.
        bdf: Bdf,
        /// The device in the journal.
        found: String,
        /// The device at this address.
        here: String,
    },
    /// The file contains entries that no pass can have written.
    #[error("{} is invalid: {why}", path.display())]
    Nonsense {
        /// The file.
        path: PathBuf,
        /// The invalid entry, and what is allowed.
        why: String,
    },
}

impl Journal {
    /// Where `root` keeps its journal. A link in a recorded machine does not lead out of it.
    ///
    /// # Errors
    /// If links on the path form a loop.
    pub fn place(root: &Root) -> Result<PathBuf, JournalError> {
        root.place(PLACE).map_err(|source| JournalError::Read {
            path: root.join(PLACE),
            source,
        })
    }

    /// Reads the journal of `root` at its default path; `None` if there is none.
    ///
    /// # Errors
    /// See [`Journal::load`].
    pub fn of(root: &Root) -> Result<Option<Self>, JournalError> {
        Self::load(&Self::place(root)?, root.path())
    }

    /// An empty journal for `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            root: checks::absolute_path(root).display().to_string(),
            boot: checks::boot(&Root::new(root)),
            functions: Vec::new(),
            entries: Vec::new(),
            bars: Vec::new(),
            decode: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Reads the journal of `root`; `None` when there is no such file.
    ///
    /// # Errors
    /// If it cannot be read, is not a journal, is invalid, or belongs to another root, boot or machine.
    pub fn load(path: &Path, root: &Path) -> Result<Option<Self>, JournalError> {
        let here = || path.to_owned();
        let bytes = match read_regular(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(JournalError::Read {
                    path: here(),
                    source,
                });
            }
        };
        let journal: Self =
            serde_json::from_slice(&bytes).map_err(|source| JournalError::Malformed {
                path: here(),
                source,
            })?;
        if journal.schema != SCHEMA {
            return Err(JournalError::Schema {
                path: here(),
                schema: journal.schema,
            });
        }
        if let Some(why) = checks::first_invalid(&journal) {
            return Err(JournalError::Nonsense { path: here(), why });
        }
        checks::belongs(&journal, path, root)?;
        Ok(Some(journal))
    }

    /// Records the identity of each function that it names and that is not recorded yet.
    pub fn identify(&mut self, root: &Root) {
        checks::identify(self, root);
    }

    /// Writes the journal atomically. A link at its path is replaced and not followed.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), JournalError> {
        let written = || {
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            atomic::write(path, &text)
        };
        written().map_err(|source| JournalError::Write {
            path: path.to_owned(),
            source,
        })
    }
}

#[cfg(test)]
mod tests;
