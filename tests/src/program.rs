//! Runs a program of the host to its end.

use crate::error::{Error, Result};
use std::process::Command;

/// Runs it.
///
/// # Errors
/// When it does not start or does not end well, with what it said.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(|_| ())
}

/// Runs it, for what it prints.
///
/// # Errors
/// As [`run`].
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| Error::Program { program: program.clone(), why };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
