//! The parent's side of one worker: starts it, hears what it says, and bounds every wait. Knows
//! nothing of tests; how a worker ended is a value.

use super::protocol::Message;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// How many of a worker's last lines are kept.
const LAST_LINES: usize = 20;
/// One line is at most this long: the facts of a machine with thousands of functions are 4 MB.
const LONGEST: u64 = 64 << 20;
/// How long a worker that has closed its pipes, or was killed, may take to be gone. One that hangs
/// in the kernel never is; it is left behind.
const GRACE: Duration = Duration::from_secs(2);

/// How a worker ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// By itself, well.
    Done,
    /// By a signal or with a status.
    Died(ExitStatus),
    /// It did not say the next thing in time and was killed.
    Silent(Duration),
    /// It said something that is no message and was killed.
    Nonsense(String),
    /// It could not be started, or asked.
    NotStarted(io::Error),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => write!(f, "the worker ended without a result"),
            // ExitStatus words itself: `signal: 11 (SIGSEGV)`, `exit status: 101`.
            Self::Died(status) => write!(f, "the worker died: {status}"),
            Self::Silent(after) => {
                write!(f, "no answer within {:.1} s; the worker was killed", after.as_secs_f64())
            }
            Self::Nonsense(line) => write!(f, "the worker said what is no message: {line}"),
            Self::NotStarted(error) => write!(f, "the worker could not be started: {error}"),
        }
    }
}

enum Event {
    Said(String),
    Logged(String),
    Closed,
}

/// Runs `command`, gives it `request`, and hands each message to `hear`, which says how long the
/// next may take. The second value is the last lines of its standard error.
pub(super) fn supervise(
    mut command: Command,
    request: &[u8],
    first: Duration,
    mut hear: impl FnMut(Message) -> Duration,
) -> (Ending, Vec<String>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Ending::NotStarted(error), Vec::new()),
    };
    let events = listen(&mut child, request);
    let mut last_lines = VecDeque::new();
    let ending = converse(&events, first, &mut last_lines, &mut hear);
    let ending = match ending {
        None => finish(&mut child),
        Some(ending) => {
            kill(&mut child);
            // The worker's last words may still be on their way.
            while let Ok(event) = events.recv_timeout(Duration::from_millis(50)) {
                if let Event::Logged(line) = event {
                    keep(&mut last_lines, line);
                }
            }
            ending
        }
    };
    (ending, last_lines.into())
}

/// One thread per pipe: none of them can make the parent wait. The channel is short, so that a
/// worker that talks without end is slowed down and not remembered.
fn listen(child: &mut Child, request: &[u8]) -> Receiver<Event> {
    let (sender, events) = sync_channel(64);
    if let Some(mut input) = child.stdin.take() {
        let request = request.to_owned();
        // A worker that does not listen says so by dying or by silence.
        thread::spawn(move || drop(input.write_all(&request)));
    }
    if let Some(output) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || forward(output, &sender, Event::Said));
    }
    if let Some(log) = child.stderr.take() {
        thread::spawn(move || forward(log, &sender, Event::Logged));
    }
    events
}

fn forward(pipe: impl Read, events: &SyncSender<Event>, event: fn(String) -> Event) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match pipe.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            _ => break,
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if events.send(event(line)).is_err() {
            break;
        }
    }
    // The parent may have stopped listening; then nobody needs to know.
    let _ = events.send(Event::Closed);
}

/// `None` when both pipes were closed in time.
fn converse(
    events: &Receiver<Event>,
    first: Duration,
    last_lines: &mut VecDeque<String>,
    hear: &mut impl FnMut(Message) -> Duration,
) -> Option<Ending> {
    let mut patience = first;
    let mut due = Instant::now() + patience;
    let mut open = 2;
    while open > 0 {
        match events.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Event::Said(line)) => match serde_json::from_str(&line) {
                Ok(message) => {
                    patience = hear(message);
                    due = Instant::now() + patience;
                }
                Err(_) => return Some(Ending::Nonsense(line.chars().take(200).collect())),
            },
            Ok(Event::Logged(line)) => keep(last_lines, line),
            Ok(Event::Closed) => open -= 1,
            Err(RecvTimeoutError::Timeout) => return Some(Ending::Silent(patience)),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

fn keep(last_lines: &mut VecDeque<String>, line: String) {
    log::warn!("worker: {line}");
    if last_lines.len() == LAST_LINES {
        last_lines.pop_front();
    }
    last_lines.push_back(line);
}

fn finish(child: &mut Child) -> Ending {
    match wait(child) {
        Some(status) if status.success() => Ending::Done,
        Some(status) => Ending::Died(status),
        None => {
            kill(child);
            Ending::Silent(GRACE)
        }
    }
}

fn kill(child: &mut Child) {
    if let Err(error) = child.kill() {
        log::warn!("worker {} could not be killed: {error}", child.id());
    }
    if wait(child).is_none() {
        log::warn!("worker {} does not die; it hangs in the kernel and is left behind", child.id());
    }
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let due = Instant::now() + GRACE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < due => thread::sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
