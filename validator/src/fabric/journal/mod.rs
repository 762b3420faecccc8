//! The journal of the fabric pass: which register held what before and after, written before
//! anything is changed, so that `firstlight fabric restore` can put it back even after a crash.

mod owner;
mod place;
mod sense;

use crate::files::whole;
use crate::machine::pcie::model::Bdf;
use crate::machine::root::{Root, read_regular};
use crate::outcome::finding::Finding;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
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

/// A function that the journal names, and what stood there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Which.
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
    /// The root that was written to, spelled from the top.
    pub root: String,
    /// The boot that it was written in (`/proc/sys/kernel/random/boot_id`); a recorded machine has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Every function that is named here: what stands there now must be the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
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
    /// The file is another root's journal.
    #[error("{} was written for the root {found}, not for {expected}", path.display())]
    Root {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// What was written in another boot is not there any more.
    #[error("{} was written in the boot {found}, not in this one ({})", path.display(), here.as_deref().unwrap_or("unknown"))]
    Boot {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: String,
        /// This boot; none where it is not known.
        here: Option<String>,
    },
    /// The file is another machine's journal.
    #[error("{} is another machine's: it names {bdf} as {found}, here that is {here}", path.display())]
    Machine {
        /// Which file.
        path: PathBuf,
        /// Which function.
        bdf: Bdf,
        /// What it says.
        found: String,
        /// What stands there.
        here: String,
    },
    /// The file asks for what no pass has ever done.
    #[error("{} makes no sense: {why}", path.display())]
    Nonsense {
        /// Which file.
        path: PathBuf,
        /// What, and what is allowed.
        why: String,
    },
}

impl Journal {
    /// An empty journal for `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            root: owner::whole(root).display().to_string(),
            boot: owner::boot(&Root::new(root)),
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
    /// When it cannot be read, is no journal, makes no sense, or belongs to another root, another
    /// boot or another machine.
    pub fn load(path: &Path, root: &Path) -> Result<Option<Self>, JournalError> {
        let here = || path.to_owned();
        let bytes = match read_regular(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(JournalError::Read { path: here(), source }),
        };
        let journal: Self = serde_json::from_slice(&bytes)
            .map_err(|source| JournalError::Malformed { path: here(), source })?;
        if journal.schema != SCHEMA {
            return Err(JournalError::Schema { path: here(), schema: journal.schema });
        }
        if let Some(why) = sense::fault(&journal) {
            return Err(JournalError::Nonsense { path: here(), why });
        }
        owner::check(&journal, path, root)?;
        Ok(Some(journal))
    }

    /// Notes what stands at each function that it names and that it has not noted yet.
    pub(crate) fn identify(&mut self, root: &Root) {
        owner::identify(self, root);
    }

    /// Writes the journal as a whole or not at all. A link in its place is replaced and not followed.
    ///
    /// # Errors
    /// When the folder or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), JournalError> {
        let written = || {
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            whole::write(path, &text)
        };
        written().map_err(|source| JournalError::Write { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests;
