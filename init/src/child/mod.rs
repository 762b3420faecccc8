//! Runs a program with a clean environment, a deadline and captured output. Everything that can hang or
//! crash runs through here: process 1 gets an [`End`] within a bounded time in every case, even when the
//! child cannot be killed.

mod lines;
pub(crate) mod monitor;
pub mod petting;

pub use lines::{LineSplitter, Tail};

use crate::sys::cgroup::ControlGroup;
use crate::sys::process::{Pid, Signals, unblock_signals};
use petting::Petting;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The environment of every child.
pub const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("TERM", "linux"),
];

/// NCCL's switch for NVLink SHARP. Where process 1 was started with it off, so is every program that it starts: multicast that
/// goes wrong can take GPUs out of service.
pub const NVLS: &str = "NCCL_NVLS_ENABLE";

/// Whether process 1 was started with [`NVLS`] off, by whoever started it or by a word of the kernel's command line.
#[must_use]
pub fn forbids_nvls() -> bool {
    std::env::var_os(NVLS).is_some_and(|value| value == "0")
}

/// Gives a program the environment of every child, and nothing else of process 1's.
pub fn set_environment(command: &mut Command) {
    command.env_clear().envs(ENVIRONMENT);
    if forbids_nvls() {
        command.env(NVLS, "0");
    }
}

/// How long a child may take between SIGTERM and SIGKILL, and after SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);

/// A program to run as a child.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    /// Absolute path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Time after which the child is ended.
    pub deadline: Duration,
    /// Its standard input; `None` is an empty one.
    pub input: Option<Rc<OwnedFd>>,
    /// Whether processes that it starts in another session keep running after it has ended.
    pub leaves_daemons: bool,
}

impl ChildSpec {
    /// A program with arguments and a deadline.
    #[must_use]
    pub fn new(program: &str, args: &[&str], deadline: Duration) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self {
            program: program.to_owned(),
            args,
            deadline,
            input: None,
            leaves_daemons: false,
        }
    }

    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        set_environment(&mut command);
        let input = self.input.as_ref().map_or(Ok(Stdio::null()), |input| {
            input.try_clone().map(Stdio::from)
        })?;
        command.current_dir("/").process_group(0).stdin(input);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        unblock_signals(&mut command);
        Ok(command)
    }
}

/// Which stream a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Passes lines of standard output to `take`, and leaves those of standard error for [`ChildResult::tail`].
pub fn on_output(mut take: impl FnMut(&str)) -> impl FnMut(Stream, &str) -> bool {
    move |stream, line| {
        if stream == Stream::Out {
            take(line);
        }
        stream == Stream::Out
    }
}

/// Leaves every line for [`ChildResult::tail`].
pub const fn no_lines(_: Stream, _: &str) -> bool {
    false
}

/// A request to the machine that arrived while init waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownRequest {
    /// Ctrl-Alt-Del (SIGINT).
    Reboot,
    /// SIGTERM, SIGUSR1 or SIGUSR2.
    PowerOff,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(i32),
    /// It was ended by a signal that init did not send.
    Signalled(i32),
    /// It exceeded its deadline and was ended.
    TimedOut(Duration),
    /// It did not end even after SIGKILL and was left behind.
    Unkillable(Duration),
    /// It could not be started; the number is the system's error number.
    NotStarted(i32),
    /// It was not started, because an earlier result forbids it.
    Vetoed,
    /// It was ended because the machine was asked to shut down.
    Interrupted(ShutdownRequest),
}

impl End {
    /// The exit status, as `firstlight` gives it; `None` when the child ended otherwise.
    #[must_use]
    pub fn status(self) -> Option<u8> {
        if let Self::Exited(status) = self {
            u8::try_from(status).ok()
        } else {
            None
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signalled(signal) => write!(f, "was killed by signal {signal}"),
            Self::TimedOut(limit) => {
                write!(f, "did not end within {} s and was killed", limit.as_secs())
            }
            Self::Unkillable(limit) => {
                write!(
                    f,
                    "did not end within {} s and cannot be killed",
                    limit.as_secs()
                )
            }
            Self::NotStarted(code) => {
                write!(
                    f,
                    "could not be started: {}",
                    io::Error::from_raw_os_error(*code)
                )
            }
            Self::Vetoed => f.write_str("was not run"),
            Self::Interrupted(_) => f.write_str("was interrupted"),
        }
    }
}

/// The result of running a child.
#[derive(Debug)]
pub struct ChildResult {
    /// How it ended.
    pub end: End,
    /// The last lines that the caller did not take while it ran.
    pub tail: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl ChildResult {
    /// The last line as the reason of a failure, or how the child ended when it printed nothing.
    #[must_use]
    pub fn reason(&self) -> String {
        let last = self.tail.iter().rev().find(|line| !line.trim().is_empty());
        last.map_or_else(|| self.end.to_string(), Clone::clone)
    }

    /// As [`ChildResult::reason`], without a prefix that the reader already knows.
    #[must_use]
    pub fn reason_after(&self, known: &str) -> String {
        let why = self.reason();
        why.strip_prefix(known)
            .map_or_else(|| why.clone(), str::to_owned)
    }
}

/// Starts children one at a time and counts the time spent waiting for them.
#[derive(Debug)]
pub struct Children {
    /// Where signals arrive.
    pub signals: Signals,
    /// Pets the watchdog while process 1 waits.
    pub watchdog: Petting,
    waited: Cell<Duration>,
}

impl Children {
    /// Takes over the signals.
    ///
    /// # Errors
    /// As [`Signals::take`].
    pub fn new() -> io::Result<Self> {
        let (watchdog, waited) = (Petting::default(), Cell::default());
        Ok(Self {
            signals: Signals::take()?,
            watchdog,
            waited,
        })
    }

    /// The time that init has waited for children so far.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited.get()
    }

    /// Runs a child to its end. `line` gets every line as it arrives and returns whether it took the line;
    /// other lines are kept for [`ChildResult::tail`].
    pub fn run(&self, spec: &ChildSpec, line: &mut dyn FnMut(Stream, &str) -> bool) -> ChildResult {
        let started = Instant::now();
        let group = if spec.leaves_daemons {
            None
        } else {
            ControlGroup::new()
        };
        let start = || {
            let mut command = spec.command()?;
            group
                .as_ref()
                .map_or(Ok(()), |group| group.confine(&mut command))?;
            command.spawn()
        };
        let (end, tail) = match start() {
            Ok(child) => monitor::Monitor::new(self, child, (spec.deadline, group.as_ref()), line)
                .until_end(),
            Err(e) => (End::NotStarted(e.raw_os_error().unwrap_or(0)), Vec::new()),
        };
        if let Some(group) = group {
            group.end();
        }
        let took = started.elapsed();
        self.waited.set(self.waited.get().saturating_add(took));
        ChildResult { end, tail, took }
    }
}

/// The process id of a child that was just started.
#[must_use]
pub fn pid_of(child: &std::process::Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline_ms: u64) -> ChildSpec {
        ChildSpec::new(
            "/bin/sh",
            &["-c", script],
            Duration::from_millis(deadline_ms),
        )
    }

    fn run(script: &str, deadline_ms: u64) -> ChildResult {
        Children::new()
            .unwrap()
            .run(&shell(script, deadline_ms), &mut no_lines)
    }

    /// The lines that a program prints on standard output.
    fn output(spec: &ChildSpec) -> Vec<String> {
        let mut lines = Vec::new();
        let done = Children::new()
            .unwrap()
            .run(spec, &mut on_output(|line| lines.push(line.to_owned())));
        assert_eq!(done.end, End::Exited(0), "{:?}", done.tail);
        lines
    }

    #[test]
    fn exit_statuses_and_signals_are_distinguished() {
        assert_eq!(run("exit 3", 5000).end, End::Exited(3));
        assert_eq!(run("kill -SEGV $$", 5000).end, End::Signalled(11));
        assert_eq!(
            Children::new()
                .unwrap()
                .run(&ChildSpec::new("/none", &[], GRACE), &mut no_lines)
                .end,
            End::NotStarted(2)
        );
    }

    #[test]
    fn lines_are_seen_as_they_come_and_the_unwanted_kept() {
        let mut seen = Vec::new();
        let spec = shell("echo a; echo b >&2; printf c", 5000);
        let done = Children::new().unwrap().run(&spec, &mut |stream, line| {
            seen.push((stream, line.to_owned()));
            stream == Stream::Out
        });
        assert!(seen.contains(&(Stream::Out, "a".to_owned())));
        assert!(seen.contains(&(Stream::Out, "c".to_owned())));
        assert_eq!(done.tail, ["b"]);
    }

    #[test]
    fn a_child_past_its_deadline_is_ended_with_its_whole_group() {
        let done = run("sleep 60 & sleep 60", 100);
        assert_eq!(done.end, End::TimedOut(Duration::from_millis(100)));
        assert!(done.took < Duration::from_secs(50), "{:?}", done.took);
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_open_does_not_hold_us_up() {
        let done = run("sleep 60 & echo done", 30_000);
        assert_eq!(
            (done.end, done.tail.as_slice()),
            (End::Exited(0), ["done".to_owned()].as_slice())
        );
        assert!(done.took < Duration::from_secs(25), "{:?}", done.took);
    }

    #[test]
    fn the_environment_is_clean() {
        let mut lines = output(&ChildSpec::new("/usr/bin/env", &[], GRACE));
        lines.sort();
        assert_eq!(
            lines,
            ["HOME=/", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TERM=linux"]
        );
    }

    #[test]
    fn a_child_without_output_is_described_by_its_end() {
        assert_eq!(run("exit 7", 5000).reason(), "exited with status 7");
    }

    #[test]
    fn no_signal_is_blocked_in_a_child() {
        let spec = ChildSpec::new("/bin/grep", &["SigBlk", "/proc/self/status"], GRACE);
        let lines = output(&spec);
        assert_eq!(lines, ["SigBlk:\t0000000000000000"]);
    }
}
