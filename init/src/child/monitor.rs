//! Watches one running child: its output, its end, its deadline, and signals to process 1.

use super::lines::{LineSplitter, Tail};
use super::{Children, End, GRACE, ShutdownRequest, Stream, pid_of};
use crate::sys::cgroup::ControlGroup;
use crate::sys::process::{self, Pid, Signal, Signals};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ChildStderr, ChildStdout};
use std::time::{Duration, Instant};

/// How far init has gone in ending a child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It may run.
    Running,
    /// It was sent SIGTERM.
    Terminating,
    /// It was sent SIGKILL.
    Killed,
}

/// A grandchild may keep the pipes of an ended child open; init waits this long for the rest of the output.
const LEFTOVERS: Duration = Duration::from_millis(200);

/// Maximum output of one child that is shown, in bytes: ten times the report of the largest machine. Of the rest only the
/// last lines are kept, so that no child fills the memory or the logs.
const SHOWN: usize = 1 << 20;

pub(super) struct Monitor<'a> {
    children: &'a Children,
    group: Option<&'a ControlGroup>,
    pid: Option<Pid>,
    pidfd: Option<OwnedFd>,
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    out_lines: LineSplitter,
    err_lines: LineSplitter,
    line: &'a mut dyn FnMut(Stream, &str) -> bool,
    tail: Tail,
    bytes: usize,
    hidden: usize,
    limit: Duration,
    phase: Phase,
    until: Instant,
    forced_end: Option<End>,
}

impl<'a> Monitor<'a> {
    pub(super) fn new(
        children: &'a Children,
        mut child: Child,
        (limit, group): (Duration, Option<&'a ControlGroup>),
        line: &'a mut dyn FnMut(Stream, &str) -> bool,
    ) -> Self {
        let pid = pid_of(&child);
        Self {
            children,
            group,
            pid,
            pidfd: pid.and_then(|pid| process::pidfd(pid).ok()),
            out: child.stdout.take(),
            err: child.stderr.take(),
            out_lines: LineSplitter::default(),
            err_lines: LineSplitter::default(),
            line,
            tail: Tail::default(),
            bytes: 0,
            hidden: 0,
            limit,
            phase: Phase::Running,
            until: Instant::now() + limit,
            forced_end: None,
        }
    }

    /// Returns how the child ended and its last lines. No process of its group is left running.
    pub(super) fn until_end(mut self) -> (End, Vec<String>) {
        let ended = loop {
            self.children.watchdog.pet();
            if let Some(status) = process::reap(self.pid) {
                break status
                    .exit_status()
                    .map(End::Exited)
                    .or(status.terminating_signal().map(End::Signalled));
            }
            if let Some(request) = request_of(&self.children.signals) {
                self.forced_end = Some(End::Interrupted(request));
                self.until = Instant::now();
            }
            if Instant::now() >= self.until && !self.next_phase() {
                break Some(End::Unkillable(self.limit));
            }
            self.wait_once(self.until.saturating_duration_since(Instant::now()));
        };
        let end = self.forced_end.or(ended).unwrap_or(End::NotStarted(0));
        let end = if matches!(ended, Some(End::Unkillable(_))) {
            End::Unkillable(self.limit)
        } else {
            end
        };
        self.drain();
        if let Some(pid) = self.pid {
            process::kill_group(pid, Signal::KILL);
        }
        (end, self.finish())
    }

    /// Handles the end of a phase. Returns false when nothing is left to try.
    fn next_phase(&mut self) -> bool {
        // Past its deadline, a child with thousands of processes could keep everything else waiting until it has read a signal, and
        // new ones would escape it. A request to shut down leaves it the time to write its report.
        let is_late = self.phase == Phase::Running && self.forced_end.is_none();
        let is_killed = is_late && self.group.is_some_and(ControlGroup::kill);
        let (phase, signal) = match self.phase {
            Phase::Running if is_killed => (Phase::Killed, Signal::KILL),
            Phase::Running => (Phase::Terminating, Signal::TERM),
            Phase::Terminating => (Phase::Killed, Signal::KILL),
            Phase::Killed => return false,
        };
        self.forced_end.get_or_insert(End::TimedOut(self.limit));
        self.phase = phase;
        self.until = Instant::now() + GRACE;
        if let Some(pid) = self.pid {
            process::kill_group(pid, signal);
        }
        true
    }

    /// Waits for output, the child's end, a signal or the deadline, and reads what arrived.
    fn wait_once(&mut self, limit: Duration) {
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.children.signals.as_fd()];
        let out_at = self
            .out
            .as_ref()
            .map(|out| (fds.push(out.as_fd()), fds.len() - 1).1);
        let err_at = self
            .err
            .as_ref()
            .map(|err| (fds.push(err.as_fd()), fds.len() - 1).1);
        let mut limit = limit;
        match &self.pidfd {
            Some(pidfd) => fds.push(pidfd.as_fd()),
            None => limit = limit.min(Duration::from_millis(50)),
        }
        let limit = self.children.watchdog.until_next(Some(limit));
        let ready = process::readable(&fds, limit);
        let is_ready =
            |at: Option<usize>| at.and_then(|at| ready.get(at)).copied().unwrap_or(false);
        let (out_ready, err_ready) = (is_ready(out_at), is_ready(err_at));
        if out_ready {
            self.take_out();
        }
        if err_ready {
            self.take_err();
        }
    }

    fn take_out(&mut self) {
        let (bytes, open) = read_chunk(self.out.as_mut());
        if !open {
            self.out = None;
        }
        for line in self.out_lines.feed(&bytes) {
            self.handle_line(Stream::Out, line);
        }
    }

    fn take_err(&mut self) {
        let (bytes, open) = read_chunk(self.err.as_mut());
        if !open {
            self.err = None;
        }
        for line in self.err_lines.feed(&bytes) {
            self.handle_line(Stream::Err, line);
        }
    }

    fn handle_line(&mut self, stream: Stream, line: String) {
        self.bytes = self.bytes.saturating_add(line.len() + 1);
        let is_hidden = self.bytes > SHOWN;
        self.hidden += usize::from(is_hidden);
        if is_hidden || !(self.line)(stream, &line) {
            self.tail.push(line);
        }
    }

    /// Reads what the ended child left in its pipes.
    fn drain(&mut self) {
        let until = Instant::now() + LEFTOVERS;
        while self.out.is_some() || self.err.is_some() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.pidfd = None; // the child has ended: this would always be ready
            self.wait_once(left);
        }
    }

    fn finish(mut self) -> Vec<String> {
        if let Some(line) = self.out_lines.finish() {
            self.handle_line(Stream::Out, line);
        }
        if let Some(line) = self.err_lines.finish() {
            self.handle_line(Stream::Err, line);
        }
        if self.hidden > 0 {
            let why = format!(
                "more than {SHOWN} bytes of output: {} lines are not shown",
                self.hidden
            );
            (self.line)(Stream::Err, &why);
        }
        self.tail.into_lines()
    }
}

/// Reads once; false when the stream has ended.
fn read_chunk<R: Read>(stream: Option<&mut R>) -> (Vec<u8>, bool) {
    let mut bytes = vec![0; 4096];
    match stream.map(|stream| stream.read(&mut bytes)) {
        Some(Ok(n)) if n > 0 => {
            bytes.truncate(n);
            (bytes, true)
        }
        Some(Err(e)) if e.kind() == ErrorKind::Interrupted => (Vec::new(), true),
        _ => (Vec::new(), false),
    }
}

/// The request that pending signals make; other signals are ignored.
pub(crate) fn request_of(signals: &Signals) -> Option<ShutdownRequest> {
    let mut asked = None;
    while let Some(signal) = signals.next() {
        if signal == Signal::INT {
            asked = Some(ShutdownRequest::Reboot);
        } else if [Signal::TERM, Signal::USR1, Signal::USR2].contains(&signal) {
            asked = Some(ShutdownRequest::PowerOff);
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::super::{ChildSpec, Children};
    use super::*;

    #[test]
    fn output_without_end_is_shown_up_to_a_limit_and_its_last_lines_are_kept() {
        let mut shown: Vec<String> = Vec::new();
        let script =
            "yes 0123456789012345678901234567890123456789 | head -c 4000000; echo; echo end";
        let spec = ChildSpec::new("/bin/sh", &["-c", script], Duration::from_secs(60));
        let done = Children::new().unwrap().run(&spec, &mut |_, line| {
            shown.push(line.to_owned());
            true
        });
        let bytes: usize = shown.iter().map(|line| line.len() + 1).sum();
        assert!((900_000..1_100_000).contains(&bytes), "{bytes}");
        assert_eq!(done.tail.last().map(String::as_str), Some("end"));
        assert!(
            shown.last().unwrap().ends_with(" lines are not shown"),
            "{:?}",
            shown.last()
        );
    }

    #[test]
    fn lines_that_are_not_taken_are_bounded_to_the_last() {
        let script = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done";
        let spec = ChildSpec::new("/bin/sh", &["-c", script], Duration::from_secs(20));
        let done = Children::new().unwrap().run(&spec, &mut |_, _| false);
        assert_eq!(
            (done.tail.len(), done.reason().as_str()),
            (Tail::LINES, "line 2999")
        );
    }

    #[test]
    fn a_child_that_ignores_sigterm_is_killed() {
        let script = "trap '' TERM; while :; do sleep 0.1; done";
        let spec = ChildSpec::new("/bin/sh", &["-c", script], Duration::from_millis(100));
        let done = Children::new().unwrap().run(&spec, &mut |_, _| false);
        assert_eq!(done.end, End::TimedOut(Duration::from_millis(100)));
        assert!(done.took >= GRACE, "{:?}", done.took);
    }
}
