//! A copy of the files that are or would be checked in, in a separate folder below `target`, so that a build there starts
//! from scratch and does not disturb other builds.

use crate::error::{Error, Result, output, run};
use crate::image::workspace;
use crate::times;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The copy; removed when dropped.
#[derive(Debug)]
pub struct Checkout(TempDir);

impl Checkout {
    /// Copies the files whose path from the top begins with one of `parts`, or all files if there are no `parts`.
    ///
    /// # Errors
    /// If git does not list them, or a file cannot be copied.
    pub fn new(parts: &[&str]) -> Result<Self> {
        times::begin();
        let target = workspace().join("target");
        fs::create_dir_all(&target).map_err(Error::file("make", &target))?;
        let copy =
            Self(tempfile::tempdir_in(&target).map_err(Error::file("make a folder in", &target))?);
        let listing = [
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ];
        let names = output(Command::new("git").args(listing).current_dir(workspace()))?;
        let wanted =
            |name: &&str| parts.is_empty() || parts.iter().any(|part| name.starts_with(part));
        let mut copying = Command::new("cp");
        copying
            .args(["--no-dereference", "--preserve=mode", "--parents", "--"])
            .current_dir(workspace());
        // files that git knows but that have been deleted are skipped
        let there = |name: &&str| workspace().join(name).symlink_metadata().is_ok();
        copying.args(
            names
                .split('\0')
                .filter(|n| !n.is_empty())
                .filter(wanted)
                .filter(there),
        );
        run(copying.arg(copy.0.path()))?;
        Ok(copy)
    }

    /// Its top folder.
    #[must_use]
    pub fn top(&self) -> &Path {
        self.0.path()
    }

    /// A file or folder in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// One of its scripts, to be run from its top.
    #[must_use]
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.path(name));
        command.current_dir(self.top());
        command
    }
}
