//! The only writer of files that must be complete or absent: the content goes to a file without a name, or
//! with a temporary one, next to the target, and takes the target's name once it is on the disk.

use crate::files::{destination, folder_of};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Permissions of a new file, before the umask.
const MODE: Mode = Mode::from_raw_mode(0o666);
/// Prefix and suffix of temporary names; process id and number are between them.
const NAME: (&str, &str) = (".firstlight-", ".new");

/// A file that replaces another one once it is complete: a reader sees the old content or the new one.
/// Dropped before that, it is removed. If the file system supports `O_TMPFILE`, it has no name until it is
/// complete, so that not even SIGKILL leaves anything behind.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    /// Its temporary name, if it has one.
    name: Option<PathBuf>,
    path: PathBuf,
}

impl AtomicFile {
    /// A new file next to `path`. A link at `path` itself is replaced and not followed.
    ///
    /// # Errors
    /// The system's error.
    pub fn at(path: &Path) -> io::Result<Self> {
        let folder = folder_of(path);
        let path = folder.join(path.file_name().ok_or(ErrorKind::InvalidFilename)?);
        let unnamed = openat(
            CWD,
            folder,
            OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
            MODE,
        );
        let (file, name) = match unnamed {
            Ok(file) => (file.into(), None),
            // Not every file system supports it, and the error codes differ; the next call reports the real cause.
            Err(_) => unused(&path, |name| {
                OpenOptions::new().write(true).create_new(true).open(name)
            })
            .map(|(file, name)| (file, Some(name)))?,
        };
        Ok(Self { file, name, path })
    }

    /// A new file next to the file that `path` leads to, through links.
    ///
    /// # Errors
    /// The system's error.
    pub fn through_links(path: &Path) -> io::Result<Self> {
        Self::at(&destination::resolve(path)?)
    }

    /// Waits until its content is on the disk.
    ///
    /// # Errors
    /// The system's error, for example that the disk is full.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Replaces the old file, once the content is on the disk.
    ///
    /// # Errors
    /// The system's error; the old file is then unchanged.
    pub fn replace(mut self) -> io::Result<()> {
        self.sync()?;
        if self.name.is_none() {
            let held = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link = |name: &Path| Ok(linkat(CWD, &held, CWD, name, AtFlags::SYMLINK_FOLLOW)?);
            self.name = Some(unused(&self.path, link)?.1);
        }
        if let Some(name) = &self.name {
            fs::rename(name, &self.path)?;
        }
        self.name = None;
        Ok(())
    }
}

/// Writes `bytes` to the file at `path` atomically. A link at `path` is replaced and not followed.
///
/// # Errors
/// The system's error; the old file is then unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::at(path)?;
    file.write_all(bytes)?;
    file.replace()
}

/// Whether a file of this name is a temporary file, which a power cut can leave where `O_TMPFILE` is not supported.
pub fn is_temporary(name: &str) -> bool {
    let inner = name
        .strip_prefix(NAME.0)
        .and_then(|name| name.strip_suffix(NAME.1));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    inner
        .and_then(|inner| inner.split_once('-'))
        .is_some_and(|(process, n)| digits(process) && digits(n))
}

/// Calls `make` with an unused name next to `path`; returns the result and that name.
fn unused<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let mut n = 0;
    loop {
        let name = path.with_file_name(format!("{}{}-{n}{}", NAME.0, std::process::id(), NAME.1));
        match make(&name) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && n < 1000 => n += 1,
            made => return made.map(|made| (made, name)),
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // If it cannot be removed either, nothing more can be done.
            let _ = fs::remove_file(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::thread;

    #[test]
    fn an_existing_temporary_name_is_neither_followed_nor_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("r.json"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        for n in 0..3 {
            symlink(
                &precious,
                dir.path()
                    .join(format!(".firstlight-{}-{n}.new", std::process::id())),
            )
            .unwrap();
        }
        write(&path, b"text").unwrap();
        assert_eq!(
            [&path, &precious].map(|p| fs::read_to_string(p).unwrap()),
            ["text", "precious"]
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
    }

    #[test]
    fn concurrent_writers_do_not_mix_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.json");
        let texts = ["a", "b", "c"].map(|letter| letter.repeat(100_000));
        write(&path, texts[0].as_bytes()).unwrap();
        thread::scope(|scope| {
            for text in &texts {
                scope.spawn(|| (0..20).for_each(|_| write(&path, text.as_bytes()).unwrap()));
            }
            for _ in 0..60 {
                assert!(texts.contains(&fs::read_to_string(&path).unwrap()));
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, precious) = (dir.path().join("journal"), dir.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &path).unwrap();
        write(&path, b"text").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(
            [&path, &precious].map(|p| fs::read_to_string(p).unwrap()),
            ["text", "precious"]
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn only_temporary_names_are_recognized() {
        assert!(is_temporary(".firstlight-123-0.new"));
        for other in [
            ".firstlight-.new",
            ".firstlight-a-1.new",
            "firstlight-1-1.new",
            ".firstlight-1-1.newer",
        ] {
            assert!(!is_temporary(other), "{other}");
        }
    }
}
