//! One run of `firstlight validate --level standard` on this machine, for its report. Its rows go
//! to standard error as they come; its exit status is the verdict, which the report says too.

use super::words::Words;
use crate::error::{Error, Result};
use crate::image::workspace;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// The report's text.
///
/// # Errors
/// When the program is not built, did not start, or left no report.
pub fn report(words: &Words) -> Result<String> {
    if let Some(path) = &words.report {
        return fs::read_to_string(path).map_err(Error::file("read", path));
    }
    let program = words.firstlight.clone().unwrap_or_else(|| workspace().join("target/release/firstlight"));
    if !program.is_file() {
        return Err(Error::NotBuilt { path: program, recipe: "binaries" });
    }
    let folder = tempfile::tempdir().map_err(Error::file("make", "a temporary folder"))?;
    let path = folder.path().join("report.json");
    validate(&program, words, &path)?;
    fs::read_to_string(&path).map_err(Error::file("read", path))
}

fn validate(program: &PathBuf, words: &Words, report: &PathBuf) -> Result<()> {
    let mut command = Command::new(program);
    if let Some(folders) = &words.library_path {
        command.arg("--set").arg(format!("validate.library_path={}", folders.replace(':', ",")));
    }
    command.args(["validate", "--level", "standard", "--json"]).arg(report).stdout(io::stderr());
    let failed = |why: String| Error::Program { program: program.display().to_string(), why };
    let status = command.status().map_err(|e| failed(e.to_string()))?;
    match status.code() {
        // The verdicts.
        Some(0..=3) => Ok(()),
        _ => Err(failed(status.to_string())),
    }
}
