//! Writes the report to standard output as it is produced.

use super::output::to_stdout;
use crate::engine::Audience;
use crate::render::text;
use crate::report::{Report, TestEntry};
use crate::text::shown::shown_text;

/// Standard output, until a write fails.
pub(super) struct Console {
    on: bool,
    /// Why the output is incomplete.
    pub(super) failed: Option<String>,
}

impl Console {
    pub(super) const fn new(on: bool) -> Self {
        Self { on, failed: None }
    }

    pub(super) fn say(&mut self, text: &str) {
        if !self.on {
            return;
        }
        if let Err(error) = to_stdout(&shown_text(text)) {
            self.failed = Some(format!("standard output: {error}"));
            self.on = false;
        }
    }

    pub(super) fn row(&mut self, test: &TestEntry) {
        self.say(&text::row(test));
    }
}

impl Audience for Console {
    fn machine(&mut self, report: &Report) {
        self.say(&text::header(report));
    }

    fn ended(&mut self, test: &TestEntry) {
        self.row(test);
    }
}
