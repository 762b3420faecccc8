//! Unpacks a recorded machine into a temporary folder, which is removed when nothing uses it any more.

use super::text::ParseError;
use super::{Node, Recording};
use crate::root::Root;
use outcome::files;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The largest file that is read; recordings have some hundred KiB.
const LARGEST: u64 = 64 << 20;

/// Why a root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("{}: {why}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file is not a recorded machine.
    #[error("{}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Its folder cannot be written.
    #[error("a folder for {}", path.display())]
    Folder {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The root at `path`: a folder is used directly; a recorded machine's file is unpacked into a temporary
/// folder, which exists as long as the second value.
///
/// # Errors
/// When a file is not a recorded machine, or its folder cannot be written.
pub fn open(path: &Path) -> Result<(Root, Option<TempDir>), OpenError> {
    if !path.is_file() {
        return Ok((Root::new(path), None));
    }
    let here = || path.to_owned();
    let unread = |why| OpenError::Read { path: here(), why };
    let text = files::read(path, LARGEST).map_err(unread)?;
    let text = String::from_utf8(text).map_err(|e| unread(e.to_string()))?;
    let recording = Recording::parse(&text).map_err(|source| OpenError::Malformed {
        path: here(),
        source,
    })?;
    let laid_out = || -> io::Result<(Root, TempDir)> {
        let folder = tempfile::Builder::new().prefix("firstlight-").tempdir()?;
        let root = folder.path().join(path.file_name().unwrap_or_default());
        recording.write(&root)?;
        Ok((Root::new(root), folder))
    };
    let (root, folder) = laid_out().map_err(|source| OpenError::Folder {
        path: here(),
        source,
    })?;
    Ok((root.named(Some(path.display().to_string())), Some(folder)))
}

impl Recording {
    /// Writes all of it into the new folder `to`. No entry is below a link, so that none is written elsewhere.
    fn write(&self, to: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        for (path, node) in &self.0 {
            let path = to.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            match node {
                Node::Folder => fs::create_dir_all(path)?,
                Node::Link(target) => symlink(target, path)?,
                Node::File(content) => fs::write(path, content)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_root_that_vanishes_with_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("node7.txt");
        fs::write(
            &file,
            "firstlight machine 1\ntext proc/cmdline\n\tquiet\nlink a\n\tproc\n",
        )
        .unwrap();
        let (root, folder) = open(&file).unwrap();
        assert!(root.path().ends_with("node7.txt"));
        assert_eq!(root.text("a/cmdline").unwrap(), "quiet");
        let shown = format!("{}/proc/cmdline", file.display());
        assert_eq!(root.shown("/proc/cmdline"), shown);
        let path = root.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_is_a_root_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (root, folder) = open(dir.path()).unwrap();
        assert!(root.path() == dir.path() && folder.is_none());
    }

    #[test]
    fn a_file_that_is_no_recorded_machine_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        fs::write(&file, "hello\n").unwrap();
        assert!(matches!(
            open(&file),
            Err(OpenError::Malformed {
                source: ParseError { line: 1, .. },
                ..
            })
        ));
        fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(matches!(open(&file), Err(OpenError::Read { .. })));
    }
}
