//! The files of the database: private to their owner, and recognized again, because another program may remove or replace
//! them while they are open.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The database; SQLite adds the other endings.
const NAME: &str = "reports.sqlite";
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];
/// Reports name machines, and what is wrong with them.
const PRIVATE: u32 = 0o600;

/// Device and inode of the database and of the files beside it, which a database in use always has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files([(u64, u64); 3]);

impl Files {
    /// The files of these names now.
    ///
    /// # Errors
    /// One is missing, or the system's error.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let mut files = [(0, 0); 3];
        for (file, ending) in files.iter_mut().zip(ENDINGS) {
            let data = fs::symlink_metadata(dir.join(format!("{NAME}{ending}")))?;
            *file = (data.dev(), data.ino());
        }
        Ok(Self(files))
    }

    /// Removes those of these files that are still beside another database, or beside none: it would take what they contain for
    /// its own.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn remove_rest(&self, dir: &Path) -> io::Result<()> {
        let is_there = |at: usize, path: &Path| {
            fs::symlink_metadata(path)
                .is_ok_and(|data| self.0.get(at) == Some(&(data.dev(), data.ino())))
        };
        let path = |ending: &str| dir.join(format!("{NAME}{ending}"));
        if is_there(0, &path("")) {
            return Ok(());
        }
        for (at, ending) in ENDINGS.iter().enumerate().skip(1) {
            if is_there(at, &path(ending)) {
                fs::remove_file(path(ending))?;
            }
        }
        Ok(())
    }
}

/// Makes the database's file, empty, if there is none, and takes from others what they may do with it. SQLite gives the
/// permissions of this file to those that it makes beside it. Returns its path.
///
/// # Errors
/// The system's error.
pub(super) fn private(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(NAME);
    // Never opened a second time: closing a file gives up all locks that the process has on it.
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(&path)
    {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            for ending in ENDINGS {
                match restrict(&dir.join(format!("{NAME}{ending}"))) {
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    done => done?,
                }
            }
        }
        Err(e) => return Err(e),
    }
    Ok(path)
}

fn restrict(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    let less = mode & PRIVATE;
    if mode & 0o7777 == less {
        Ok(())
    } else {
        fs::set_permissions(path, Permissions::from_mode(less))
    }
}
