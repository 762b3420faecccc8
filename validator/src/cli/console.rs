//! Writes the report to standard output as it is produced, and what is under way to standard error.

use super::CommandError;
use super::output::to_stdout;
use super::progress::Progress;
use crate::cli::args::Output;
use crate::engine::Audience;
use crate::render::last_line::{last_line, short_line};
use crate::render::text;
use crate::report::{Report, TestEntry};
use crate::text::shown::shown_text;
use std::time::Duration;

/// Standard output, until a write fails.
pub(super) struct Console {
    on: bool,
    output: Output,
    progress: Option<Progress>,
    /// Why the output is incomplete.
    pub(super) failed: Option<String>,
}

impl Console {
    /// `on`: standard output is for the text.
    ///
    /// # Errors
    /// The last line is asked for, and standard output is for something else.
    pub(super) fn new(on: bool, output: Output) -> Result<Self, CommandError> {
        let quiet = output.quiet || output.short;
        if quiet && !on {
            let why = "--quiet and --short print to standard output, which something else is written to";
            return Err(CommandError::Usage(why.to_owned()));
        }
        Ok(Self { on, output, progress: (!quiet).then(Progress::start), failed: None })
    }

    /// Part of the text.
    pub(super) fn say(&mut self, text: &str) {
        if !self.output.quiet && !self.output.short {
            self.write(text);
        }
    }

    pub(super) fn row(&mut self, test: &TestEntry) {
        self.say(&text::row(test));
    }

    /// The end of the text, or the last line alone; nothing is under way any more.
    pub(super) fn end(&mut self, report: &Report, path: Option<&str>) {
        self.progress = None;
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

impl Audience for Console {
    fn machine(&mut self, report: &Report) {
        if let Some(progress) = &self.progress {
            progress.machine(report.gpus.len());
        }
        self.say(&text::header(report));
    }

    fn begun(&mut self, id: &str, deadline: Duration) {
        if let Some(progress) = &self.progress {
            progress.begun(id, deadline);
        }
    }

    fn doing(&mut self, what: &str) {
        if let Some(progress) = &self.progress {
            progress.doing(what);
        }
    }

    fn ended(&mut self, test: &TestEntry) {
        if let Some(progress) = &self.progress {
            progress.ended();
        }
        self.row(test);
    }
}
