//! Errors in running machines and programs of the host. A machine that ran to its end is never an error here, however badly
//! it ended: that is for the test to judge. A program of the host that fails is an error.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The result of the test harness.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is nothing to judge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that a build step makes is missing.
    #[error("{path} is not there; build it with `./run {recipe}`")]
    NotBuilt {
        /// The file.
        path: PathBuf,
        /// The recipe that makes it.
        recipe: &'static str,
    },
    /// A file could not be read or written.
    #[error("{what} {path}")]
    File {
        /// What was attempted: `read`, `write`, ..
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// A scenario is invalid.
    #[error("{path}: {why}")]
    Scenario {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A program did not start or failed.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// Exit status and its output, or why it did not start.
        why: String,
    },
    /// The machine did not end, and did not print the expected text, in time.
    #[error("after {after:?} the machine {missing}; its console:\n{console}")]
    Deadline {
        /// How long it ran.
        after: Duration,
        /// What was missing.
        missing: String,
        /// All of its console output.
        console: String,
    },
    /// QEMU ended although the machine had not.
    #[error("QEMU ended by itself: {stderr}\nconsole:\n{console}")]
    QemuDied {
        /// QEMU's stderr.
        stderr: String,
        /// The machine's console output.
        console: String,
    },
    /// An archive is invalid.
    #[error("{what}: {why}")]
    Archive {
        /// Which archive.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The error and its causes in one line, for programs that exit with it.
    #[must_use]
    pub fn one_line(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        text
    }

    /// A closure that adds what was attempted on `path` to an I/O error, for `map_err`.
    pub fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}

/// Runs a program of the host to its end.
///
/// # Errors
/// If it does not start or fails, with its error output.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(|_| ())
}

/// Runs it, for what it prints.
///
/// # Errors
/// As [`run`].
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| Error::Program {
        program: program.clone(),
        why,
    };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
