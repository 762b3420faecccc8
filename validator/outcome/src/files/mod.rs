//! Files that the user names on the command line or in the configuration.

pub mod atomic;
pub mod destination;

use crate::text::size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

/// How long a pipe or a device may be silent: one without a writer is silent for ever.
const SILENCE: Duration = Duration::from_secs(60);

/// The content of a file of at most `largest` bytes, or of a pipe: an endless device must not fill the memory, and a pipe that
/// nobody writes to must not hold the program.
///
/// # Errors
/// One line without the file's name.
pub fn read(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    read_within(path, largest, SILENCE)
}

/// The folder that a file is in: `.` for a name without a folder.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

fn read_within(path: &Path, largest: u64, silence: Duration) -> Result<Vec<u8>, String> {
    let file = opened(path).map_err(|e| unread(&e))?;
    if file.metadata().is_ok_and(|data| data.is_file()) {
        return content(file, largest);
    }
    limited(Patient { file, silence }, largest)
}

/// The content of a secret's file of at most `largest` bytes. Links to regular files are followed.
///
/// # Errors
/// One line without the file's name: it is no regular file, too.
pub fn secret(path: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let file = opened(path).map_err(|e| unread(&e))?;
    let data = file.metadata().map_err(|e| unread(&e))?;
    if !data.is_file() {
        return Err(
            "no regular file; allowed: a file, or a credential of systemd, which is one".to_owned(),
        );
    }
    content(file, largest)
}

/// Opens a file for reading, without waiting for the writer of a pipe.
fn opened(path: &Path) -> io::Result<File> {
    Ok(open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?
    .into())
}

/// A file that waits for its next bytes, but not for ever.
struct Patient {
    file: File,
    silence: Duration,
}

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let silence = Timespec {
            tv_sec: self.silence.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: self.silence.subsec_nanos().into(),
        };
        loop {
            match poll(
                &mut [PollFd::new(&self.file, PollFlags::IN)],
                Some(&silence),
            ) {
                Ok(0) => {
                    let line = format!("nothing came within {} s", self.silence.as_secs());
                    return Err(io::Error::new(ErrorKind::TimedOut, line));
                }
                Ok(_) => {}
                Err(e) if e == rustix::io::Errno::INTR => continue,
                Err(e) => return Err(e.into()),
            }
            match self.file.read(bytes) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

/// As [`read`], for an open file.
///
/// # Errors
/// As [`read`].
pub fn content(file: File, largest: u64) -> Result<Vec<u8>, String> {
    limited(file, largest)
}

/// As [`read`], for anything that can be read.
///
/// # Errors
/// As [`read`].
pub fn limited(from: impl Read, largest: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(largest + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| unread(&e))?;
    if bytes.len() as u64 > largest {
        Err(format!("larger than {}", size(largest)))
    } else {
        Ok(bytes)
    }
}

fn unread(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::process::Command;
    use std::thread;

    fn fifo(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("fifo");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        path
    }

    #[test]
    fn a_pipe_is_read_and_one_without_a_writer_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = fifo(dir.path());
        let silent = read_within(&path, 100, Duration::from_millis(50)).unwrap_err();
        assert!(
            silent == "cannot be read: nothing came within 0 s",
            "{silent}"
        );
        let to = path.clone();
        let writer = thread::spawn(move || {
            let mut to = fs::OpenOptions::new().write(true).open(to).unwrap();
            for part in ["one ", "two"] {
                to.write_all(part.as_bytes()).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
        assert_eq!(read(&path, 100), Ok(b"one two".to_vec()));
        writer.join().unwrap();
        assert_eq!(
            read(Path::new("/dev/zero"), 1024),
            Err("larger than 1 KiB".to_owned())
        );
    }

    #[test]
    fn a_name_without_a_folder_is_in_the_current_one() {
        for (path, folder) in [("r", "."), ("a/r", "a"), ("/r", "/"), ("./r", ".")] {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder));
        }
    }

    #[test]
    fn a_secret_is_a_regular_file_or_a_link_to_one() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "secret").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(
            [&file, &link].map(|path| secret(path, 100)),
            [Ok(b"secret".to_vec()), Ok(b"secret".to_vec())]
        );
        for path in [&fifo(dir.path()), Path::new("/dev/zero"), dir.path()] {
            assert!(
                secret(path, 100)
                    .unwrap_err()
                    .starts_with("no regular file; allowed: a file"),
                "{}",
                path.display()
            );
        }
    }
}
