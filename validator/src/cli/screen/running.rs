//! The screen while `validate` runs. A separate thread draws it, so that the seconds advance while a test reports
//! nothing, and so that a stopped terminal does not block the run.

use super::device::ScreenDevice;
use crate::render::screen::{ProgressScreen, ResultScreen, RunningTest};
use crate::schedule::Pair;
use report::{Report, TestEntry};
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two drawings, and the number of drawings after which all cells are written again.
const EVERY: Duration = Duration::from_millis(500);
const AGAIN: u32 = 10;

/// How long the last drawing may take.
const LAST: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct RunningState {
    live: ProgressScreen,
    since: Instant,
    ended: Option<ResultScreen>,
}

/// The handle of the drawing thread.
pub(in crate::cli) struct RunningScreen {
    state: Arc<Mutex<RunningState>>,
    /// Dropping it ends the thread.
    stop: Option<Sender<()>>,
    done: std::sync::mpsc::Receiver<()>,
}

impl RunningScreen {
    /// Starts to draw the tests of these ids on the terminal at `path`.
    ///
    /// # Errors
    /// The terminal cannot be opened, or the thread cannot be started.
    pub(in crate::cli) fn start(
        path: &Path,
        ids: impl Iterator<Item = &'static str>,
    ) -> io::Result<Self> {
        let mut device = ScreenDevice::open(path)?;
        let state = RunningState {
            live: ProgressScreen::new(ids),
            since: Instant::now(),
            ended: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let ((stop, stopped), (last, done)) = (channel::<()>(), channel());
        let draw = move || {
            let (mut drawn, mut failed) = (0_u32, false);
            loop {
                let ends = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                drawn = drawn.wrapping_add(1);
                // The kernel may have written over the screen, and a terminal whose write failed shows old cells.
                let all = ends || failed || drawn.is_multiple_of(AGAIN);
                let cleared = if all { device.forget() } else { Ok(()) };
                failed = cleared.and_then(|()| show(&mut device, &shared)).is_err();
                if ends {
                    break;
                }
            }
            let _receiver_gone = last.send(());
        };
        thread::Builder::new()
            .name("screen".to_owned())
            .spawn(draw)?;
        Ok(Self {
            state,
            stop: Some(stop),
            done,
        })
    }

    /// Updates the state of the run.
    pub(in crate::cli) fn with(&self, change: impl FnOnce(&mut ProgressScreen)) {
        change(
            &mut self
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .live,
        );
    }

    /// The machine has been read.
    pub(in crate::cli) fn machine(&self, report: &Report) {
        self.with(|live| live.machine(report));
    }

    /// A test has begun.
    pub(in crate::cli) fn begun(&self, id: &str, deadline: Duration) {
        let now = RunningTest {
            id: id.to_owned(),
            spent_s: 0,
            deadline_s: deadline.as_secs(),
            what: String::new(),
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.live.now, state.since) = (Some(now), Instant::now());
    }

    /// The running test has started another step, with this pair if the step names one.
    pub(in crate::cli) fn doing(&self, what: &str, pair: Option<Pair>) {
        self.with(|live| {
            if let Some(now) = &mut live.now {
                what.clone_into(&mut now.what);
            }
            if let Some(pair) = pair {
                live.pair(pair);
            }
        });
    }

    /// A test has ended.
    pub(in crate::cli) fn ended(&self, test: &TestEntry) {
        self.with(|live| {
            live.now = None;
            live.ended(test);
        });
    }

    /// All tests have ended: the verdict is shown and stays.
    pub(in crate::cli) fn finish(mut self, report: &Report) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ended = Some(ResultScreen::of_report(report, None));
        self.stop = None;
        // A stopped terminal must not delay the verdict.
        let _late = self.done.recv_timeout(LAST);
    }
}

fn show(device: &mut ScreenDevice, state: &Mutex<RunningState>) -> io::Result<()> {
    let (live, ended) = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = state.since.elapsed().as_secs();
        if let Some(now) = &mut state.live.now {
            now.spent_s = spent;
        }
        (state.live.clone(), state.ended.clone())
    };
    match &ended {
        Some(ended) => device.draw(ended),
        None => device.draw(&live),
    }
}
