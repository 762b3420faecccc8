//! A copy of what is or would be checked in, in a folder of its own below `target`, so that a build there starts
//! from nothing and disturbs none.

use crate::error::{Error, Result, output, run};
use crate::image::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The copy; removed when dropped.
#[derive(Debug)]
pub struct Checkout(TempDir);

impl Checkout {
    /// Copies the files whose path from the top begins with one of `parts`; all of them without any.
    ///
    /// # Errors
    /// When git does not list them, or a file cannot be copied.
    pub fn new(parts: &[&str]) -> Result<Self> {
        let target = workspace().join("target");
        fs::create_dir_all(&target).map_err(Error::file("make", &target))?;
        let copy = Self(tempfile::tempdir_in(&target).map_err(Error::file("make a folder in", &target))?);
        let listing = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
        let names = output(Command::new("git").args(listing).current_dir(workspace()))?;
        let wanted = |name: &&str| parts.is_empty() || parts.iter().any(|part| name.starts_with(part));
        let mut copying = Command::new("cp");
        copying.args(["--no-dereference", "--preserve=mode", "--parents", "--"]).current_dir(workspace());
        // what git knows and somebody removed stays out
        let there = |name: &&str| workspace().join(name).symlink_metadata().is_ok();
        copying.args(names.split('\0').filter(|n| !n.is_empty()).filter(wanted).filter(there));
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

    /// One of its scripts, run from its top.
    #[must_use]
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.path(name));
        command.current_dir(self.top());
        command
    }
}
