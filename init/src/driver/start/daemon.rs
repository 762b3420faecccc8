//! A program that keeps running beside the boot, such as the fabric manager: started in its own session, and watched until it is
//! ready or has ended. It runs until the machine goes down, or until a validator dies: then everything is killed and the verdict
//! is ERROR.

use crate::sys::process::{Terminal, own_session, unblock_signals};
use crate::sys::terminal::printable;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many of its last log lines are evidence.
const LINES: usize = 12;

/// How to start such a program.
#[derive(Debug)]
pub(super) struct Program<'a> {
    /// Its file.
    pub(super) file: &'a Path,
    /// Its arguments.
    pub(super) arguments: &'a [&'a str],
    /// The file for its output; may be its log too.
    pub(super) log: &'a Path,
    /// Folders of libraries that it needs, besides the usual ones.
    pub(super) libraries: &'a [PathBuf],
    /// Whether it may continue in the background, so that the end of the started process with success is no end.
    pub(super) may_fork: bool,
}

/// One that runs.
#[derive(Debug)]
pub(super) struct Daemon {
    child: Child,
    log: PathBuf,
    may_fork: bool,
}

impl Program<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// As creating its log, and as execve(2).
    pub(super) fn start(&self) -> io::Result<Daemon> {
        let output = File::options().create(true).append(true).open(self.log)?;
        let mut command = Command::new(self.file);
        command.args(self.arguments).env_clear().current_dir("/");
        let folders: Vec<_> = self
            .libraries
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        if !folders.is_empty() {
            command.env("LD_LIBRARY_PATH", folders.join(":"));
        }
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        unblock_signals(&mut command);
        own_session(&mut command, Terminal::Plain);
        Ok(Daemon {
            child: command.spawn()?,
            log: self.log.to_owned(),
            may_fork: self.may_fork,
        })
    }
}

impl Daemon {
    /// Waits until `is_ready` says so about its log.
    ///
    /// # Errors
    /// What happened instead: `ended: ..`, `was not ready within N s`.
    pub(super) fn wait(
        &mut self,
        limit: Duration,
        mut is_ready: impl FnMut(&str) -> bool,
    ) -> Result<(), String> {
        let until = Instant::now() + limit;
        loop {
            if fs::read(&self.log).is_ok_and(|text| is_ready(&String::from_utf8_lossy(&text))) {
                return Ok(());
            }
            if let Some(why) = self.end() {
                return Err(why);
            }
            if Instant::now() >= until {
                return Err(format!("was not ready within {} s", limit.as_secs()));
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// How it ended, if it has.
    pub(super) fn end(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() && self.may_fork => None,
            Ok(Some(status)) => Some(format!("ended: {status}")),
            Ok(None) => None,
            Err(e) => Some(format!("cannot be watched: {e}")),
        }
    }
}

/// The last lines of a log.
pub(super) fn last_lines(log: &Path) -> Vec<String> {
    let text = fs::read(log).unwrap_or_else(|_| Vec::new());
    let lines: Vec<_> = text
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(printable)
        .collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(LINES))
        .cloned()
        .collect()
}
