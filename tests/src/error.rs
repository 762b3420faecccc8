//! What can go wrong in bringing a machine up, worded once. A machine that ran to its end is never
//! an error here, however badly it ended: that is for the test to judge. And programs of the host, whose failure
//! is an error.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What the harness comes back with.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is nothing to judge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that a build step makes is not there.
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
        /// What was tried: `read`, `write`, ..
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
    /// A scenario is not what it should be.
    #[error("{path}: {why}")]
    Scenario {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A program did not start or did not do its work.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// Exit status and what it said, or why it did not start.
        why: String,
    },
    /// The machine did not end, and did not say what it was run to say, in time.
    #[error("after {after:?} the machine {missing}; its console:\n{console}")]
    Deadline {
        /// How long it ran.
        after: Duration,
        /// What was waited for.
        missing: String,
        /// Everything it said.
        console: String,
    },
    /// QEMU ended without the machine having ended.
    #[error("QEMU ended by itself: {stderr}\nconsole:\n{console}")]
    QemuDied {
        /// What QEMU said.
        stderr: String,
        /// What the machine said.
        console: String,
    },
    /// An archive is not what it should be.
    #[error("{what}: {why}")]
    Archive {
        /// Which archive.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The error and what it came from, in one line, for programs that end with it.
    #[must_use]
    pub fn told(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        text
    }

    /// A closure that tells what was tried on `path`, for `map_err`.
    pub fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }
}

/// Runs a program of the host to its end.
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
