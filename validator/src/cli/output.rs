//! Writes results: a file atomically, through links, or standard output. Devices, pipes and open descriptors
//! are written in place. A reader that stops reading (`| head`) is not an error.

use super::terminal;
use crate::cli::CommandError;
use crate::cli::args::Place;
use outcome::files::atomic::AtomicFile;
use outcome::files::destination;
use outcome::text::shown_text;
use report::render::pretty;
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

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
/// If it could not be written completely.
pub(super) fn write(place: &Place, text: &str) -> Result<(), OutputError> {
    match write_beside(place, text)? {
        Some(beside) => beside.replace().map_err(|e| unwritten(place, &e)),
        None => write_in_place(place, text),
    }
}

/// Writes `text` next to the file that it will replace; `None` if there is no file to replace.
///
/// # Errors
/// If it could not be written completely.
pub(super) fn write_beside(place: &Place, text: &str) -> Result<Option<AtomicFile>, OutputError> {
    let Some(path) = file_to_replace(place) else {
        return Ok(None);
    };
    let written = AtomicFile::through_links(path).and_then(|beside| filled(beside, text));
    written.map(Some).map_err(|e| unwritten(place, &e))
}

/// Writes to a place that is not a file to replace: standard output, a device, a pipe, an open descriptor.
///
/// # Errors
/// If it could not be written completely.
pub(super) fn write_in_place(place: &Place, text: &str) -> Result<(), OutputError> {
    let written = match place {
        Place::Stdout => to_stdout(text),
        // If it is a regular file, its existing content is kept.
        Place::File(path) => OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes())),
    };
    written.map_err(|e| unwritten(place, &e))
}

/// Whether both places are the same file to replace; places that are written in place never conflict.
pub(super) fn same_file(one: &Place, other: &Place) -> bool {
    let ends = [one, other]
        .map(|place| file_to_replace(place).and_then(|path| destination::resolve(path).ok()));
    matches!(ends, [Some(one), Some(other)] if one == other)
}

/// The file to replace. A folder counts as one: replacing it fails with the system's error.
fn file_to_replace(place: &Place) -> Option<&Path> {
    let Place::File(path) = place else {
        return None;
    };
    let held = destination::resolve(path).is_ok_and(|end| destination::is_descriptor(&end));
    let other = fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir());
    (!held && !other).then_some(path)
}

fn unwritten(place: &Place, why: &dyn Display) -> OutputError {
    OutputError {
        place: place.to_string(),
        why: why.to_string(),
    }
}

/// Writes JSON if requested, otherwise the text to standard output.
///
/// # Errors
/// As [`write`].
pub(super) fn write_json_or_text(
    place: Option<&Place>,
    value: &impl Serialize,
    text: &str,
) -> Result<(), OutputError> {
    let Some(place) = place else {
        return write(&Place::Stdout, &shown_text(text));
    };
    let json = pretty(value).map_err(|e| unwritten(place, &e))?;
    write(place, &json)
}

/// Writes and flushes output that the user is waiting for.
///
/// # Errors
/// The system's error; a closed reader is not an error.
pub(super) fn to_stdout(text: &str) -> io::Result<()> {
    let text = terminal::colored(text);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// A place for a result, made ready before the work whose result it gets: a new file lies beside the old one, which
/// stays until the result is complete.
#[derive(Debug)]
pub(super) struct Reserved {
    place: Place,
    file: Option<AtomicFile>,
}

impl Reserved {
    /// # Errors
    /// Wrong use: `option` names a file that cannot be written.
    pub(super) fn new(option: &str, place: Place) -> Result<Self, CommandError> {
        let Place::File(path) = &place else {
            return Ok(Self { place, file: None });
        };
        let tried = match fs::metadata(path) {
            Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // Devices and pipes are opened when the result is written.
            Ok(there) if !there.is_file() => Ok(None),
            _ if file_to_replace(&place).is_none() => Ok(None),
            // Dropping the new file removes it.
            Ok(_) | Err(_) => AtomicFile::through_links(path).map(Some),
        };
        let why = |e: io::Error| {
            CommandError::Usage(format!("{option} '{place}': cannot be written: {e}"))
        };
        let file = tried.map_err(why)?;
        Ok(Self { place, file })
    }

    /// Where it is.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// As [`write_beside`]; after the first time with another new file.
    pub(super) fn write_beside(&mut self, text: &str) -> Result<Option<AtomicFile>, OutputError> {
        match self.file.take() {
            Some(file) => filled(file, text)
                .map(Some)
                .map_err(|e| unwritten(&self.place, &e)),
            None => write_beside(&self.place, text),
        }
    }

    /// As [`write`].
    pub(super) fn write(mut self, text: &str) -> Result<(), OutputError> {
        match self.write_beside(text)? {
            Some(beside) => beside.replace().map_err(|e| unwritten(&self.place, &e)),
            None => write_in_place(&self.place, text),
        }
    }
}

fn filled(mut file: AtomicFile, text: &str) -> io::Result<AtomicFile> {
    file.write_all(text.as_bytes())?;
    file.sync()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_unwritable_place_is_reported_before_the_measurement() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "".into(),
            dir.path().into(),
            dir.path().join("none/x.json"),
            "..".into(),
        ] {
            let error = Reserved::new("-J", Place::File(path)).unwrap_err();
            let why = error.to_string();
            assert_eq!(error.exit_status(), 64);
            assert!(
                why.starts_with("-J ") && why.contains(": cannot be written: "),
                "{why}"
            );
        }
        let file = dir.path().join("x.json");
        assert!(
            Reserved::new("-J", Place::Stdout).is_ok()
                && Reserved::new("-J", Place::File("/dev/null".into())).is_ok()
        );
        drop(Reserved::new("-J", Place::File(file.clone())).unwrap());
        assert!(!file.exists());
        fs::write(&file, "old").unwrap();
        let mut reserved = Reserved::new("-J", Place::File(file.clone())).unwrap();
        drop(reserved.write_beside("unfinished").unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        reserved.write("new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_replaced_without_leftovers() {
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
        let error = write(&Place::File("/dev/full".into()), "text")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("/dev/full: cannot be written: No space left"),
            "{error}"
        );
        let error = write(&Place::File("/nowhere/r.json".into()), "")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("/nowhere/r.json: cannot be written: No such file"),
            "{error}"
        );
    }

    #[test]
    fn a_link_stays_a_link_and_its_target_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        for (there, name) in [(true, "old"), (false, "new")] {
            let (file, link) = (dir.path().join(name), dir.path().join(format!("to-{name}")));
            if there {
                fs::write(&file, "before").unwrap();
            }
            symlink(name, &link).unwrap();
            write(&Place::File(link.clone()), "text").unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "text");
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(name));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    }

    #[test]
    fn an_incomplete_file_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        fs::write(&path, "old").unwrap();
        drop(
            write_beside(&Place::File(path.clone()), "new")
                .unwrap()
                .unwrap(),
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_open_descriptor_is_written_in_place_and_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("log"), dir.path().join("held"));
        fs::write(&path, "before ").unwrap();
        let file = File::open(&path).unwrap();
        symlink(format!("/proc/self/fd/{}", file.as_raw_fd()), &link).unwrap();
        write(&Place::File(link.clone()), "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before text");
        assert!(fs::read_link(&link).unwrap().starts_with("/proc/self/fd"));
        assert!(
            write(&Place::File(dir.path().to_owned()), "")
                .unwrap_err()
                .to_string()
                .contains("cannot be written")
        );
    }

    #[test]
    fn one_file_by_two_names_is_the_same_place_and_a_device_is_not() {
        let dir = tempfile::tempdir().unwrap();
        symlink("r.json", dir.path().join("link")).unwrap();
        let place = |name: &str| Place::File(dir.path().join(name));
        assert!(same_file(&place("r.json"), &place("./link")));
        assert!(!same_file(&place("r.json"), &place("r.txt")));
        assert!(!same_file(
            &Place::File("/dev/null".into()),
            &Place::File("/dev/null".into())
        ));
    }
}
