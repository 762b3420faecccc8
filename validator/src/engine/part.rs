//! Reports each part of the tests to process 1 before it begins, so that the next boot knows it if this boot ends there: runs
//! the command of `validate --before-part`. The tests do not depend on the command: if it fails, that is a warning.

use contract::mark::Step;
use std::io;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The command needs at most the time to mount a disk and write to it.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two checks whether the command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Reports each part once, when its first test begins.
pub(super) struct PartReporter<'a> {
    command: &'a [String],
    last: Option<Step>,
}

impl<'a> PartReporter<'a> {
    /// No part has begun. If `command` is empty, nothing is reported.
    pub(super) const fn new(command: &'a [String]) -> Self {
        Self {
            command,
            last: None,
        }
    }

    /// The next test belongs to this part, or to none.
    pub(super) fn begin(&mut self, part: Option<Step>) {
        let Some(part) = part.filter(|part| self.last != Some(*part)) else {
            return;
        };
        self.last = Some(part);
        let Some((program, words)) = self.command.split_first() else {
            return;
        };
        if let Err(why) = run(program, words, part, COMMAND_TIMEOUT) {
            log::warn!("no mark of {part}: {program}: {why}");
        }
    }
}

/// Runs the command without standard output, which carries the worker's messages.
fn run(program: &str, words: &[String], part: Step, limit: Duration) -> io::Result<()> {
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(part.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let (mut child, start) = (command.spawn()?, Instant::now());
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(status.to_string())),
            None if start.elapsed() > limit => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other(format!(
                    "not ended after {} s",
                    limit.as_secs()
                )));
            }
            None => sleep(POLL_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    #[test]
    fn each_part_is_said_once_and_before_its_tests() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("said").display().to_string();
        let command = ["sh", "-c", "echo $1 >> $0", &file].map(str::to_owned);
        let mut parts = PartReporter::new(&command);
        parts.begin(None);
        assert!(!dir.path().join("said").exists());
        for part in [
            Step::FullLoad,
            Step::FullLoad,
            Step::PeerWrite,
            Step::PeerWrite,
        ] {
            parts.begin(Some(part));
            parts.begin(None);
        }
        assert_eq!(read_to_string(&file).unwrap(), "full-load\npeer-write\n");
    }

    #[test]
    fn a_command_that_fails_hangs_or_does_not_exist_is_left() {
        let said = |words: &[&str], limit_ms| {
            let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
            run(
                &words[0],
                &words[1..],
                Step::PeerWrite,
                Duration::from_millis(limit_ms),
            )
            .unwrap_err()
            .to_string()
        };
        assert_eq!(said(&["false"], 5000), "exit status: 1");
        assert_eq!(said(&["sh", "-c", "sleep 100"], 50), "not ended after 0 s");
        assert!(said(&["/does/not/exist"], 5000).starts_with("No such file"));
        PartReporter::new(&["/does/not/exist".to_owned()]).begin(Some(Step::PeerWrite));
    }
}
