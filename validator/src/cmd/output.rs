//! Where results go: a file as a whole or not at all, or standard output. A reader that stops
//! reading (`| head`) is no fault.

use crate::args::Place;
use crate::render::json;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A result could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{place}: cannot be written: {why}")]
pub struct OutputError {
    place: String,
    why: String,
}

/// Writes `text`.
///
/// # Errors
/// When it could not be written as a whole.
pub(super) fn write(place: &Place, text: &str) -> Result<(), OutputError> {
    let written = match place {
        Place::Stdout => to_stdout(text),
        Place::File(path) => replace(path, text.as_bytes()),
    };
    written.map_err(|e| OutputError { place: place.to_string(), why: e.to_string() })
}

/// JSON where it was asked for, else the text to standard output.
///
/// # Errors
/// As [`write`].
pub(super) fn either(place: Option<&Place>, value: &impl Serialize, text: &str) -> Result<(), OutputError> {
    let Some(place) = place else { return write(&Place::Stdout, text) };
    let json =
        json::pretty(value).map_err(|e| OutputError { place: place.to_string(), why: e.to_string() })?;
    write(place, &json)
}

/// Writes at once what a person is waiting for.
///
/// # Errors
/// As the system says; a reader that is gone is no error.
pub(super) fn to_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A reader of `path` sees the old file or the new one. Devices and pipes are written in place.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let mut beside = Beside::create(path)?;
    beside.write_all(bytes)?;
    beside.replace()
}

/// A file that takes another one's place once it is whole. Dropped before that, it is gone.
pub(super) struct Beside<'a> {
    file: File,
    name: PathBuf,
    path: &'a Path,
    whole: bool,
}

impl<'a> Beside<'a> {
    /// Creates it.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn create(path: &'a Path) -> io::Result<Self> {
        let mut name = path.file_name().ok_or(ErrorKind::InvalidFilename)?.to_owned();
        name.push(".new");
        let name = path.with_file_name(name);
        Ok(Self { file: File::create(&name)?, name, path, whole: false })
    }

    /// Puts it in the other one's place.
    ///
    /// # Errors
    /// As the system says.
    pub(super) fn replace(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.name, self.path)?;
        self.whole = true;
        Ok(())
    }
}

impl Write for Beside<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.whole {
            // What is left of a file that did not fit is in nobody's way when it cannot be removed either.
            let _ = fs::remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        for text in ["old", "new"] {
            write(&Place::File(path.clone()), text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let error = write(&Place::File("/dev/full".into()), "text").unwrap_err().to_string();
        assert!(error.starts_with("/dev/full: cannot be written: No space left"), "{error}");
        let error = write(&Place::File("/nowhere/r.json".into()), "").unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/r.json: cannot be written: No such file"), "{error}");
    }
}
