//! The parent's side of one worker: starts it, receives its messages, and bounds every wait. It knows nothing
//! about tests; how the worker ended is returned as a value. A worker leads its own process group, and the processes
//! that it started end with it.

use super::interrupt::{Interrupt, Interrupts};
use crate::suite::protocol::Message;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How many of a worker's last lines are kept.
const LAST_LINES: usize = 20;
/// Maximum length of one line: the facts of a machine with thousands of functions have 4 MB.
const MAX_LINE: u64 = 64 << 20;
/// How long a worker that closed its pipes, or was killed, may take to exit. A worker that hangs in the
/// kernel never exits; it is left behind.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long earlier messages are still processed after a signal or after the worker was killed.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// How often this process checks for a signal.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// How a worker ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// It exited successfully.
    Done,
    /// It died by a signal or exited with an error status.
    Died(ExitStatus),
    /// It did not send its next message in time and was killed.
    Silent(Duration),
    /// It sent an invalid message and was killed.
    InvalidMessage(String),
    /// It could not be started, or did not accept the request.
    NotStarted(io::Error),
    /// This process received SIGINT, SIGTERM or SIGHUP, and killed it.
    Interrupted(Interrupt),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => write!(f, "the worker ended without a result"),
            // ExitStatus prints `signal: 11 (SIGSEGV)` or `exit status: 101`.
            Self::Died(status) => write!(f, "the worker died: {status}"),
            Self::Silent(after) => {
                write!(
                    f,
                    "no answer within {:.1} s; the worker was killed",
                    after.as_secs_f64()
                )
            }
            Self::InvalidMessage(line) => write!(f, "the worker sent an invalid message: {line}"),
            Self::NotStarted(error) => write!(f, "the worker could not be started: {error}"),
            Self::Interrupted(by) => write!(f, "{by} ended the run"),
        }
    }
}

/// A message and its arrival time, so that a message that the parent reads late does not count as late.
struct Event {
    at: Instant,
    kind: EventKind,
}

enum EventKind {
    Output(String),
    Log(String),
    Closed,
}

/// Runs `command`, sends it the line `request`, and passes each message with its arrival time to `on_message`, which
/// returns the time limit for the next message, counted from that time. The message is then answered with an empty line.
/// The second value contains the last lines of the worker's standard error.
pub(super) fn supervise(
    mut command: Command,
    request: &[u8],
    first: Duration,
    interrupts: &Interrupts,
    mut on_message: impl FnMut(Message, Instant) -> Duration,
) -> (Ending, Vec<String>) {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Ending::NotStarted(error), Vec::new()),
    };
    let (answer, answers) = channel();
    let events = listen(&mut child, request, answers);
    let mut last_lines = VecDeque::new();
    let mut on_message = |message, at| {
        let patience = on_message(message, at);
        // A worker that does not read its answers dies or becomes silent, and that is noticed below.
        let _ = answer.send(());
        patience
    };
    let ending = receive_messages(&events, first, interrupts, &mut last_lines, &mut on_message);
    let ending = match ending {
        None => finish(&mut child),
        Some(ending) => {
            kill(&mut child);
            // The worker's last messages may still be in transit.
            let due = Instant::now() + DRAIN_TIME;
            while let Ok(event) = events.recv_timeout(Duration::from_millis(50))
                && Instant::now() < due
            {
                if let EventKind::Log(line) = event.kind {
                    keep_line(&mut last_lines, line);
                }
            }
            ending
        }
    };
    (ending, last_lines.into())
}

/// One thread per pipe, so that no pipe can block the parent. The channel is short, so that a worker that
/// sends without end is slowed down and fills no memory.
fn listen(child: &mut Child, request: &[u8], answers: Receiver<()>) -> Receiver<Event> {
    let (sender, events) = sync_channel(64);
    if let Some(mut input) = child.stdin.take() {
        let request = [request, b"\n"].concat();
        thread::spawn(move || {
            input.write_all(&request)?;
            answers
                .into_iter()
                .try_for_each(|()| input.write_all(b"\n"))
        });
    }
    if let Some(output) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || forward(output, &sender, EventKind::Output));
    }
    if let Some(log) = child.stderr.take() {
        thread::spawn(move || forward(log, &sender, EventKind::Log));
    }
    events
}

fn forward(pipe: impl Read, events: &SyncSender<Event>, kind: fn(String) -> EventKind) {
    let event = |kind| Event {
        at: Instant::now(),
        kind,
    };
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match pipe.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            _ => break,
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if events.send(event(kind(line))).is_err() {
            break;
        }
    }
    // If the parent has stopped listening, the message is not needed.
    let _ = events.send(event(EventKind::Closed));
}

/// Passes on messages until the worker closes both pipes; returns `None` then, or why the worker must be killed.
fn receive_messages(
    events: &Receiver<Event>,
    first: Duration,
    interrupts: &Interrupts,
    last_lines: &mut VecDeque<String>,
    on_message: &mut impl FnMut(Message, Instant) -> Duration,
) -> Option<Ending> {
    let mut patience = first;
    let mut due = Instant::now() + patience;
    let mut open = 2;
    let mut since = None;
    while open > 0 {
        // Earlier messages are processed first, unless they never end.
        let asked = interrupts.received();
        if let Some(by) =
            asked.filter(|_| since.get_or_insert_with(Instant::now).elapsed() > DRAIN_TIME)
        {
            return Some(Ending::Interrupted(by));
        }
        let Event { at, kind } = match events.recv_timeout(
            due.saturating_duration_since(Instant::now())
                .min(SIGNAL_POLL),
        ) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) if asked.is_none() && Instant::now() < due => continue,
            Err(RecvTimeoutError::Timeout) if asked.is_some() => {
                return asked.map(Ending::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => return Some(Ending::Silent(patience)),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        // A message that arrived too late and was only read late does not extend the deadline.
        if at > due {
            return Some(Ending::Silent(patience));
        }
        match kind {
            EventKind::Output(line) => match serde_json::from_str(&line) {
                Ok(message) => {
                    patience = on_message(message, at);
                    due = at + patience;
                }
                Err(_) => return Some(Ending::InvalidMessage(line.chars().take(200).collect())),
            },
            EventKind::Log(line) => keep_line(last_lines, line),
            EventKind::Closed => open -= 1,
        }
    }
    None
}

fn keep_line(last_lines: &mut VecDeque<String>, line: String) {
    log::warn!("worker: {line}");
    if last_lines.len() == LAST_LINES {
        last_lines.pop_front();
    }
    last_lines.push_back(line);
}

fn finish(child: &mut Child) -> Ending {
    if !has_ended(child) {
        kill(child);
        return Ending::Silent(EXIT_TIMEOUT);
    }
    // Until it is waited for, its process group id cannot be reused.
    kill_group(child);
    match child.wait() {
        Ok(status) if status.success() => Ending::Done,
        Ok(status) => Ending::Died(status),
        Err(error) => Ending::NotStarted(error),
    }
}

fn kill(child: &mut Child) {
    kill_group(child);
    if !has_ended(child) {
        log::warn!(
            "worker {} cannot be killed; it hangs in the kernel and is left behind",
            child.id()
        );
    } else if let Err(error) = child.wait() {
        log::warn!("worker {}: {error}", child.id());
    }
}

/// Kills the worker and all processes that it started.
fn kill_group(child: &Child) {
    // This fails only for an empty group.
    let _ = pid_of(child).map(|pid| kill_process_group(pid, Signal::KILL));
}

/// Whether the worker exits in time; its status can still be read afterwards.
fn has_ended(child: &Child) -> bool {
    let Some(pid) = pid_of(child) else {
        return false;
    };
    let due = Instant::now() + EXIT_TIMEOUT;
    loop {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(pid), how) {
            Ok(None) if Instant::now() < due => thread::sleep(Duration::from_millis(1)),
            ended => return matches!(ended, Ok(Some(_))),
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

#[cfg(test)]
mod tests;
