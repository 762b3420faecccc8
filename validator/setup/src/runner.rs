//! Runs the distribution's programs: on the running system with a deadline each, and for a folder not at all. Tests put their
//! own in this place.

use crate::step::{Call, line};
use crate::{SetupError, SetupResult};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where programs of the system are, whoever calls.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How often it is asked whether a program has ended.
const POLL: Duration = Duration::from_millis(50);

/// Runs programs of the system.
pub trait Runner {
    /// Runs one and waits for it. False if it is not run here, only named.
    ///
    /// # Errors
    /// One line: it could not be started, ended with another status than 0, or was killed at its deadline.
    fn run(&mut self, words: &[String], seconds: u64) -> SetupResult<bool>;
}

/// Runs a call.
///
/// # Errors
/// As [`Runner::run`].
pub fn run(runner: &mut dyn Runner, call: &Call) -> SetupResult<bool> {
    runner.run(&call.words, call.seconds)
}

/// Runs them on this system. Their output is the user's.
#[derive(Debug, Default)]
pub struct Live;

impl Runner for Live {
    fn run(&mut self, words: &[String], seconds: u64) -> SetupResult<bool> {
        let (name, rest) = words
            .split_first()
            .ok_or_else(|| SetupError("a command without a name".to_owned()))?;
        let wrong = |why: String| SetupError(format!("`{}` {why}", line(words)));
        let mut child = Command::new(name)
            .args(rest)
            .env("PATH", PATH)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| wrong(format!("could not be started: {e}")))?;
        match wait(&mut child, seconds).map_err(|e| wrong(e.to_string()))? {
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(wrong(format!("ended with {status}"))),
            None => Err(wrong(format!(
                "did not end within {seconds} s, and was killed"
            ))),
        }
    }
}

/// Waits; `None` if it had to be killed.
fn wait(child: &mut Child, seconds: u64) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // If it has ended in this moment, there is nothing to kill.
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            child.wait()?;
            return Ok(None);
        }
        sleep(POLL);
    }
}

/// Runs nothing: for a folder, whose programs are not this system's.
#[derive(Debug, Default)]
pub struct Listing;

impl Runner for Listing {
    fn run(&mut self, _: &[String], _: u64) -> SetupResult<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn a_program_that_fails_hangs_or_is_missing_is_an_error_with_its_line() {
        let mut live = Live;
        assert_eq!(live.run(&words("sh|-c|exit 0"), 60), Ok(true));
        let why = |line: &str, seconds| Live.run(&words(line), seconds).unwrap_err().0;
        assert_eq!(
            why("sh|-c|exit 3", 60),
            "`sh -c 'exit 3'` ended with exit status: 3"
        );
        assert!(why("no-such-program", 60).starts_with("`no-such-program` could not be started"));
        assert_eq!(
            why("sh|-c|sleep 300 & sleep 300", 0),
            "`sh -c 'sleep 300 & sleep 300'` did not end within 0 s, and was killed"
        );
        assert_eq!(Listing.run(&words("no-such-program"), 0), Ok(false));
    }
}
