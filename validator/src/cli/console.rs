//! Writes the report to standard output as it is produced, and the progress to standard error.

use super::CommandError;
use super::output::to_stdout;
use super::progress::Progress;
use super::screen::RunningScreen;
use crate::cli::args::Output;
use crate::engine::ProgressListener;
use crate::suite::protocol::Activity;
use outcome::text::shown_text;
use report::render::last_line::{last_line, short_line};
use report::render::text;
use report::{Report, TestEntry};
use std::path::Path;
use std::time::Duration;

/// Standard output, until a write fails.
pub(super) struct Console {
    on: bool,
    output: Output,
    progress: Option<Progress>,
    screen: Option<RunningScreen>,
    /// Tests that do not apply for one reason, whose row is not written yet.
    waiting: Vec<TestEntry>,
    /// Why the output is incomplete.
    pub(super) failed: Option<String>,
}

impl Console {
    /// `on`: the text goes to standard output.
    ///
    /// # Errors
    /// `--quiet` or `--short` asks for the last line, but standard output is used for something else.
    pub(super) fn new(on: bool, output: Output) -> Result<Self, CommandError> {
        let quiet = output.quiet || output.short;
        if quiet && !on {
            let why = "--quiet and --short print to standard output, which is already used for other output";
            return Err(CommandError::Usage(why.to_owned()));
        }
        Ok(Self {
            on,
            output,
            progress: (!quiet).then(Progress::start),
            screen: None,
            waiting: Vec::new(),
            failed: None,
        })
    }

    /// Also shows the run full-screen on another terminal. If that terminal cannot be used, the run continues without
    /// it.
    pub(super) fn show_on(&mut self, path: &Path, ids: impl Iterator<Item = &'static str>) {
        match RunningScreen::start(path, ids) {
            Ok(screen) => self.screen = Some(screen),
            Err(e) => log::warn!("--screen {}: {e}", path.display()),
        }
    }

    /// Writes a part of the text.
    pub(super) fn say(&mut self, text: &str) {
        self.write_waiting();
        if !self.output.quiet && !self.output.short {
            self.write(text);
        }
    }

    pub(super) fn row(&mut self, test: &TestEntry) {
        if self
            .waiting
            .last()
            .is_some_and(|last| !text::are_equal(last, test))
        {
            self.write_waiting();
        }
        if text::are_equal(test, test) {
            self.waiting.push(test.clone());
        } else {
            self.say(&text::row(test));
        }
    }

    fn write_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            self.say(&text::row_of(&waiting));
        }
    }

    /// Ends the progress display and the screen, then writes the end of the text or only the last line.
    pub(super) fn end(&mut self, report: &Report, path: Option<&str>) {
        self.write_waiting();
        self.progress = None;
        if let Some(screen) = self.screen.take() {
            screen.finish(report);
        }
        match self.output {
            Output { short: true, .. } => self.write(&short_line(report)),
            Output { quiet: true, .. } => self.write(&last_line(report)),
            Output { .. } => self.write(&text::tail(report, path)),
        }
    }

    fn write(&mut self, text: &str) {
        if !self.on {
            return;
        }
        if let Some(progress) = &self.progress {
            progress.clear();
        }
        if let Err(error) = to_stdout(&shown_text(text)) {
            self.failed = Some(format!("standard output: {error}"));
            self.on = false;
        }
    }
}

impl ProgressListener for Console {
    fn machine(&mut self, report: &Report) {
        if let Some(progress) = &self.progress {
            progress.machine(report.gpus.len());
        }
        if let Some(screen) = &self.screen {
            screen.machine(report);
        }
        self.say(&text::header(report));
    }

    fn begun(&mut self, id: &str, deadline: Duration) {
        if let Some(progress) = &self.progress {
            progress.begun(id, deadline);
        }
        if let Some(screen) = &self.screen {
            screen.begun(id, deadline);
        }
    }

    fn doing(&mut self, activity: &Activity) {
        if let Some(progress) = &self.progress {
            progress.doing(activity);
        }
        if let Some(screen) = &self.screen {
            screen.doing(&activity.what, activity.pair);
        }
    }

    fn ended(&mut self, test: &TestEntry) {
        if let Some(progress) = &self.progress {
            progress.ended();
        }
        if let Some(screen) = &self.screen {
            screen.ended(test);
        }
        self.row(test);
    }
}
