//! A FAT data partition as a technician's stick has it: made, filled and read without mounting it.

use crate::error::Result;
use crate::program::{output, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A FAT file system in a file.
#[derive(Debug, Clone)]
pub struct Fat {
    file: PathBuf,
}

impl Fat {
    /// An empty one of `kib` KiB in `dir`, labelled `FIRSTLIGHT`.
    ///
    /// # Errors
    /// When mkfs.vfat does not make it.
    pub fn new(dir: &Path, kib: u32) -> Result<Self> {
        let file = dir.join("stick.img");
        let kib = kib.to_string();
        run(Command::new("mkfs.vfat").args(["-n", "FIRSTLIGHT", "-C"]).arg(&file).arg(kib))?;
        Ok(Self { file })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// When mmd does not make it.
    pub fn folder(&self, name: &str) -> Result<()> {
        run(Command::new("mmd").arg("-i").arg(&self.file).arg(format!("::{name}")))
    }

    /// Copies a file of the host onto it.
    ///
    /// # Errors
    /// When mcopy does not, as when it is full.
    pub fn put(&self, from: &Path, name: &str) -> Result<()> {
        run(Command::new("mcopy").arg("-i").arg(&self.file).arg(from).arg(format!("::{name}")))
    }

    /// The names in a folder, sorted; none where it is not there.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let mut list = Command::new("mdir");
        list.arg("-i").arg(&self.file).args(["-b", "-a"]).arg(format!("::{folder}"));
        let text = output(&mut list).unwrap_or_default();
        let mut names: Vec<_> =
            text.lines().filter_map(|line| line.trim_end_matches('/').rsplit('/').next()).collect();
        names.retain(|name| !name.is_empty() && *name != "." && *name != "..");
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect()
    }

    /// A file's content.
    ///
    /// # Errors
    /// When it is not there.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        output(Command::new("mtype").arg("-i").arg(&self.file).arg(format!("::{name}")))
            .map(String::into_bytes)
    }
}
