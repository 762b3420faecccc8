//! Where a command writes: standard output or a file.

use crate::files::destination;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `-`, and `/dev/stdout`
    Stdout,
    /// A file, replaced atomically.
    File(PathBuf),
}

impl From<OsString> for Place {
    fn from(word: OsString) -> Self {
        let stdout = word == "-" || destination::is_stdout(Path::new(&word));
        if stdout { Self::Stdout } else { Self::File(word.into()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}
