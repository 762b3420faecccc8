//! One run of `firstlight validate --level standard` on this machine, for its report. Its rows go
//! to standard error as they come; its exit status is the verdict, which the report says too.

use super::words::Words;
use crate::error::{Error, Result};
use crate::image::workspace;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where what is measured goes.
#[derive(Debug)]
pub enum Folder {
    /// For good.
    Kept(PathBuf),
    /// Until the end.
    Passing(TempDir),
}

impl Folder {
    /// The one that was asked for, or one that goes away.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(words: &Words) -> Result<Self> {
        let Some(path) = &words.keep else {
            return tempfile::tempdir().map(Self::Passing).map_err(Error::file("make", "a temporary folder"));
        };
        fs::create_dir_all(path).map_err(Error::file("make", path))?;
        Ok(Self::Kept(path.clone()))
    }

    /// The path of a file in it that is not there: an earlier run's must not pass for this one's.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let folder = match self {
            Self::Kept(path) => path,
            Self::Passing(folder) => folder.path(),
        };
        let path = folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
            _ => Ok(path),
        }
    }
}

/// The report's text.
///
/// # Errors
/// When the program is not built, did not start, or left no report.
pub fn report(words: &Words, into: &Folder) -> Result<String> {
    if let Some(path) = &words.report {
        return read(path);
    }
    let mut command = firstlight(words)?;
    let path = into.fresh("report.json")?;
    command.args(["validate", "--level", "standard", "--json"]).arg(&path).stdout(io::stderr());
    let failed = |why: String| Error::Program { program: "firstlight validate".to_owned(), why };
    let status = command.status().map_err(|e| failed(e.to_string()))?;
    match status.code() {
        // The verdicts.
        Some(0..=3) => read(&path),
        _ => Err(failed(status.to_string())),
    }
}

/// A file's text.
///
/// # Errors
/// Its name and what came back.
pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::file("read", path))
}

/// The program with the options before its commands.
///
/// # Errors
/// When it is not built.
pub(super) fn firstlight(words: &Words) -> Result<Command> {
    let program = words.firstlight.clone().unwrap_or_else(|| workspace().join("target/release/firstlight"));
    if !program.is_file() {
        return Err(Error::NotBuilt { path: program, recipe: "binaries" });
    }
    let mut command = Command::new(program);
    if let Some(folders) = &words.library_path {
        command.arg("--set").arg(format!("validate.library_path={}", folders.replace(':', ",")));
    }
    Ok(command)
}
