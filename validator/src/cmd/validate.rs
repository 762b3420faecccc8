//! `firstlight validate`: rows as tests end, then the report, then the verdict. The report is
//! written before the verdict is printed: a verdict that nobody can read later is none.

use super::CommandError;
use super::deliver::{Sheet, deliver};
use super::output::{same, to_stdout};
use crate::args::{Place, Validate};
use crate::config::Config;
use crate::render::text;
use crate::report::{Report, TestEntry};
use crate::root::Root;
use crate::run::{self, Audience};
use crate::shown::shown_text;

/// Runs the tests; the status is the verdict's.
pub(super) fn run(root: &Root, mut config: Config, asked: Validate) -> Result<u8, CommandError> {
    let Validate { level, only, skip, json, text } = asked;
    if let (Some(json), Some(text)) = (&json, &text) {
        let both = match (json, text) {
            (Place::Stdout, Place::Stdout) => "standard output",
            _ if same(json, text) => "a file",
            _ => "",
        };
        if !both.is_empty() {
            let why = format!("--json {json} and --text {text}: {both} can take one of them");
            return Err(CommandError::Usage(why));
        }
    }
    let text = text.or_else(|| (json != Some(Place::Stdout)).then_some(Place::Stdout));
    config.validate.level = level.unwrap_or(config.validate.level);
    for (given, place) in [(only, &mut config.validate.only), (skip, &mut config.validate.skip)] {
        if !given.is_empty() {
            *place = given;
        }
    }
    let mut console = Console::new(text == Some(Place::Stdout));
    let mut report = run::validate(root, &config, &mut console);
    let text = text.filter(|place| *place != Place::Stdout).map(Sheet::Text);
    deliver(&mut report, json.map(Sheet::Json).into_iter().chain(text).collect(), &mut console);
    Ok(report.verdict.exit_status())
}

/// Standard output, as far as anybody reads it.
pub(super) struct Console {
    on: bool,
    /// Why what was said is not all there.
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
