//! Reads and writes whole files. Reads have a size limit; a write replaces the file or leaves the old one.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Reads a regular file of at most `limit` bytes. Anything else is refused without waiting: opening or reading a FIFO or
/// a device may never return.
///
/// # Errors
/// The system's error, or that the file is larger or not a regular one.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    const NONBLOCK_NOCTTY: i32 = 0o4400; // include/uapi/asm-generic/fcntl.h
    read_open(
        File::options()
            .read(true)
            .custom_flags(NONBLOCK_NOCTTY)
            .open(path)?,
        limit,
    )
}

/// As [`read_at_most`], for a file that was opened so that reading does not wait.
///
/// # Errors
/// As [`read_at_most`].
pub fn read_open(file: File, limit: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Writes a file in memory (/run, the first root) through a temporary file beside it.
///
/// # Errors
/// The system's error; the old file is then unchanged, and the temporary file is removed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, |_| Ok(()), |_| Ok(()))
}

/// As [`write_atomically`], for a file that only root may read.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_privately(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(
        path,
        bytes,
        |file| file.set_permissions(Permissions::from_mode(0o600)),
        |_| Ok(()),
    )
}

/// As [`write_atomically`], for a file on a disk: its content is on the disk before the file is renamed to `path`.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, |_| Ok(()), File::sync_all)
}

/// Removes the file or folder at this path, a folder with all its content. No link is followed.
///
/// # Errors
/// The system's error.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(|e| {
        if path.is_symlink() || !path.is_dir() {
            Err(e)
        } else {
            fs::remove_dir_all(path)
        }
    })
}

/// `before` is called when the file is empty, and `sync` when it is complete.
fn replace(
    path: &Path,
    bytes: &[u8],
    before: impl Fn(&File) -> io::Result<()>,
    sync: impl Fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    let (folder, name) = path
        .to_str()
        .and_then(|p| p.rsplit_once('/'))
        .ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = format!("{folder}/.{name}.new");
    // A file with this name is a leftover or a trap: opening a FIFO may never return, and a link leads elsewhere.
    let _not_there = remove(Path::new(&temporary));
    let written = File::create_new(&temporary).and_then(|mut file| {
        before(&file)?;
        file.write_all(bytes)?;
        sync(&file)?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _not_there = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "four").unwrap();
        assert_eq!(read_at_most(&path, 4).unwrap(), b"four");
        assert_eq!(
            read_at_most(&path, 3).unwrap_err().to_string(),
            "larger than 3 bytes"
        );
    }

    #[test]
    fn a_private_file_is_roots_alone_even_where_another_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "for everyone").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write_privately(&path, b"x").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_fifo_and_a_device_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("f");
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        for path in [fifo.as_path(), Path::new("/dev/zero"), dir.path()] {
            assert_eq!(
                read_at_most(path, 4).unwrap_err().to_string(),
                "not a regular file"
            );
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_old_one() {
        let error = write_atomically(Path::new("/dev/full/x"), b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::create_dir(&path).unwrap();
        assert!(write_atomically(&path, b"new").is_err());
        assert!(path.is_dir() && fs::read_dir(dir.path()).unwrap().count() == 1);
    }

    #[test]
    fn anything_in_the_place_of_a_new_file_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, new, other) = (
            dir.path().join("f"),
            dir.path().join(".f.new"),
            dir.path().join("other"),
        );
        fs::write(&other, "theirs").unwrap();
        std::os::unix::fs::symlink(&other, &new).unwrap();
        write_atomically(&path, b"one").unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&new)
                .status()
                .unwrap()
                .success()
        );
        write_atomically(&path, b"two").unwrap();
        fs::create_dir_all(new.join("x")).unwrap();
        write_atomically(&path, b"three").unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&other).unwrap()),
            (b"three".to_vec(), b"theirs".to_vec())
        );
        assert!(!path.is_symlink() && !new.exists());
    }
}
