//! Progress on standard error: the running test, the seconds spent and allowed, the number of the pair. On a terminal
//! it is one live row, which is removed before anything else is written; elsewhere a line every ten seconds. A
//! separate thread writes it, so that the seconds advance while a test reports nothing.

use super::terminal;
use crate::schedule::Pair;
use crate::suite::protocol::Activity;
use contract::last_line::PROGRESS;
use outcome::text::shown;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two updates of the live row, and between two lines elsewhere.
const ROW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(10);

/// The running test.
#[derive(Debug, Clone)]
struct RunningTest {
    id: String,
    since: Instant,
    deadline: Duration,
    what: String,
    pairs: BTreeSet<Pair>,
}

#[derive(Debug, Default)]
struct ProgressState {
    gpus: usize,
    doing: Option<RunningTest>,
    /// Whether a live row is on the terminal.
    shown: bool,
}

/// The progress display and its thread, which ends when this is dropped.
pub(super) struct Progress {
    state: Arc<Mutex<ProgressState>>,
    /// Dropping it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    live: bool,
}

impl Progress {
    /// Starts to show the progress. If no thread can be started, nothing is shown and the run continues.
    pub(super) fn start() -> Self {
        let state = Arc::new(Mutex::new(ProgressState::default()));
        let live = terminal::is_live(&io::stderr());
        let color = live && terminal::has_color(&io::stderr());
        let (stop, stopped) = channel();
        let shared = Arc::clone(&state);
        let show = move || {
            let every = if live { ROW } else { LINE };
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(line) = line(&state, Instant::now()) else {
                    continue;
                };
                let text = if live {
                    row(&line, terminal::columns(&io::stderr()), color)
                } else {
                    format!("{PROGRESS}{line}\n")
                };
                state.shown = live;
                // A failed write to standard error must not stop the run.
                let _ = io::stderr().write_all(text.as_bytes());
            }
        };
        let thread = thread::Builder::new()
            .name("progress".to_owned())
            .spawn(show)
            .ok();
        Self {
            state,
            stop: Some(stop),
            thread,
            live,
        }
    }

    fn with(&self, change: impl FnOnce(&mut ProgressState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets the number of GPUs.
    pub(super) fn machine(&self, gpus: usize) {
        self.with(|state| state.gpus = gpus);
    }

    /// A test has begun.
    pub(super) fn begun(&self, id: &str, deadline: Duration) {
        let (id, what, pairs) = (id.to_owned(), String::new(), BTreeSet::new());
        self.with(|state| {
            state.doing = Some(RunningTest {
                id,
                since: Instant::now(),
                deadline,
                what,
                pairs,
            });
        });
    }

    /// The running test has started another step.
    pub(super) fn doing(&self, activity: &Activity) {
        self.with(|state| {
            if let Some(doing) = &mut state.doing {
                activity.what.clone_into(&mut doing.what);
                // A GPU with itself is not one of the pairs.
                doing
                    .pairs
                    .extend(activity.pair.filter(|pair| pair.from != pair.to));
            }
        });
    }

    /// The running test has ended.
    pub(super) fn ended(&self) {
        self.with(|state| state.doing = None);
        self.clear();
    }

    /// Removes the live row.
    pub(super) fn clear(&self) {
        self.with(|state| {
            if self.live && std::mem::take(&mut state.shown) {
                let _ = io::stderr().write_all(b"\r\x1b[K");
            }
        });
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop = None;
        // The thread has ended or ends within a moment.
        let _ = self.thread.take().map(JoinHandle::join);
        self.clear();
    }
}

/// `p2p-integrity  12 s of 60 s  pair 5 of 12  GPU 0 -> 1: ..`; `None` if no test is running.
fn line(state: &ProgressState, now: Instant) -> Option<String> {
    let doing = state.doing.as_ref()?;
    let spent = now.saturating_duration_since(doing.since).as_secs();
    let all = state.gpus * state.gpus.saturating_sub(1);
    let pairs = match doing.pairs.len() {
        0 => String::new(),
        // More than there are: the number of GPUs is not known yet, or is not that of CUDA.
        tried if tried > all => format!("  pair {tried}"),
        tried => format!("  pair {tried} of {all}"),
    };
    let what = if doing.what.is_empty() {
        String::new()
    } else {
        format!("  {}", shown(&doing.what))
    };
    Some(format!(
        "{}  {spent} s of {} s{pairs}{what}",
        doing.id,
        doing.deadline.as_secs()
    ))
}

/// The live row: overwrites the previous one, cut to the terminal's width.
fn row(line: &str, columns: usize, color: bool) -> String {
    let text: String = line.chars().take(columns.saturating_sub(3)).collect();
    let (dim, plain) = if color {
        ("\x1b[2m", "\x1b[0m")
    } else {
        ("", "")
    };
    format!("\r  {dim}{text}{plain}\x1b[K")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(pair: Option<(usize, usize)>, what: &str) -> Activity {
        Activity {
            what: what.to_owned(),
            pair: pair.map(|(from, to)| Pair::of(from, to)),
        }
    }

    fn state(steps: &[Activity]) -> (ProgressState, Instant) {
        let progress = Progress {
            state: Arc::default(),
            stop: None,
            thread: None,
            live: false,
        };
        progress.machine(4);
        progress.begun("p2p-integrity", Duration::from_secs(60));
        steps.iter().for_each(|step| progress.doing(step));
        let state = std::mem::take(&mut *progress.state.lock().unwrap());
        let since = state.doing.as_ref().unwrap().since;
        (state, since)
    }

    #[test]
    fn a_row_says_the_test_its_time_and_the_pair() {
        let (state, since) = state(&[
            step(None, "preparing"),
            step(Some((0, 1)), "GPU 0 -> 1: copy of 4 B"),
            step(Some((0, 1)), "GPU 0 -> 1: copy of 8 B"),
            step(Some((0, 2)), "GPU 0 -> 2: \x1b[2J"),
        ]);
        let said = line(&state, since + Duration::from_millis(12_700)).unwrap();
        assert!(
            said.starts_with("p2p-integrity  12 s of 60 s  pair 2 of 12  GPU 0 -> 2: "),
            "{said}"
        );
        assert!(!said.contains('\x1b'), "{said}");
        assert_eq!(line(&ProgressState::default(), since), None);
    }

    /// The sample program also copies within each GPU.
    #[test]
    fn no_more_pairs_are_counted_than_there_are() {
        let step = |pair: Pair| Activity {
            what: format!("{pair}: copying"),
            pair: Some(pair),
        };
        let (mut state, since) = state(&Pair::all(4).map(step).collect::<Vec<_>>());
        assert!(line(&state, since).unwrap().contains("  pair 12 of 12  "));
        state.gpus = 0;
        assert!(line(&state, since).unwrap().contains("  pair 12  "));
    }

    #[test]
    fn a_test_without_pairs_has_none() {
        let (state, since) = state(&[
            step(None, "GPU 1: testing the checker"),
            step(None, "GPU x -> 1: no number"),
        ]);
        let said = line(&state, since).unwrap();
        assert_eq!(said, "p2p-integrity  0 s of 60 s  GPU x -> 1: no number");
    }

    #[test]
    fn the_live_row_fits_its_terminal_and_has_color_only_where_it_may() {
        let text = row(&"x".repeat(200), 80, false);
        assert_eq!(text.chars().filter(|c| *c == 'x').count(), 77);
        assert!(
            text.starts_with('\r')
                && !text.contains("\x1b[2m")
                && row("x", 80, true).contains("\x1b[2m")
        );
    }
}
