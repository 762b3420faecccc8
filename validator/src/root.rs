//! The one door to the machine's files. Every read of /sys, /proc and /dev goes through a `Root`,
//! so that a recorded machine can be examined anywhere and a report can say what it was made from.

use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A folder that stands for `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The machine (`/`) or a recorded one.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// The folder as it was given, for reports.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// True when this is the running machine itself.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Where `rel` (e.g. `sys/bus/pci/devices`) lies.
    #[must_use]
    pub fn join(&self, rel: impl AsRef<Path>) -> PathBuf {
        let rel = rel.as_ref();
        self.0.join(rel.strip_prefix("/").unwrap_or(rel))
    }

    /// The whole file as bytes.
    ///
    /// # Errors
    /// Whatever the read came back with; a missing file is `NotFound`.
    pub fn read(&self, rel: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        fs::read(self.join(rel))
    }

    /// The whole file as text, without the white space around it.
    ///
    /// # Errors
    /// As [`Root::read`]; `InvalidData` when it is not UTF-8.
    pub fn text(&self, rel: impl AsRef<Path>) -> io::Result<String> {
        Ok(fs::read_to_string(self.join(rel))?.trim().to_owned())
    }

    /// The names in a folder, sorted. Hidden names are left out: sysfs has none, and a recorded
    /// machine kept in git needs one to keep an empty folder.
    ///
    /// # Errors
    /// Whatever the read came back with; a missing folder is `NotFound`, never an empty list.
    pub fn names(&self, rel: impl AsRef<Path>) -> io::Result<Vec<OsString>> {
        let mut names =
            fs::read_dir(self.join(rel))?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
        names.sort();
        Ok(names)
    }

    /// What a symbolic link says, unresolved.
    ///
    /// # Errors
    /// As the kernel says; `InvalidInput` when it is not a link.
    pub fn link(&self, rel: impl AsRef<Path>) -> io::Result<PathBuf> {
        fs::read_link(self.join(rel))
    }

    /// Opens a file for reads that never wait: /dev/kmsg ends where the log ends at this moment,
    /// and a pipe in a recorded machine cannot block.
    ///
    /// # Errors
    /// Whatever the open came back with.
    pub fn open_nonblocking(&self, rel: impl AsRef<Path>) -> io::Result<File> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
        OpenOptions::new().read(true).custom_flags(flags).open(self.join(rel))
    }

    /// Writes `bytes` at `offset` of an existing file in one system call: to a `config` file in
    /// sysfs this is one configuration write of that width.
    ///
    /// # Errors
    /// As the kernel says; a short write is `WriteZero`.
    pub fn write_at(&self, rel: impl AsRef<Path>, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.join(rel))?;
        let n = file.write_at(bytes, offset)?;
        if n == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }
}
