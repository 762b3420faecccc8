//! `firstlight validate`: rows as tests end, then the report, then the verdict. The report is
//! written before the verdict is printed: a verdict that nobody can read later is none.

use super::CommandError;
use super::deliver::{Sheet, deliver};
use super::output::{same, to_stdout};
use crate::args::{Place, ScopeChoice, Validate};
use crate::config::Config;
use crate::finding::Code;
use crate::render::text;
use crate::report::{Report, TestEntry};
use crate::root::Root;
use crate::run::{self, Audience, Interrupt, Interrupts};
use crate::scope::Scope;
use crate::shown::shown_text;

/// Runs the tests; the status is the verdict's.
pub(super) fn run(root: &Root, mut config: Config, asked: Validate) -> Result<u8, CommandError> {
    let Validate { level, scope, only, skip, json, text } = asked;
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
    config.validate.scope = match scope {
        _ if !only.is_empty() => Scope::Only(only.clone()),
        ScopeChoice::Machine => Scope::Machine,
        ScopeChoice::Fabric => Scope::Fabric,
    };
    for (given, place) in [(only, &mut config.validate.only), (skip, &mut config.validate.skip)] {
        if !given.is_empty() {
            *place = given;
        }
    }
    let mut console = Console::new(text == Some(Place::Stdout));
    let interrupts = Interrupts::catch().map_err(|e| CommandError::undone(&e))?;
    let mut report = run::planned(root, &config, &run::plan(&config), &interrupts, &mut console);
    let text = text.filter(|place| *place != Place::Stdout).map(Sheet::Text);
    deliver(&mut report, json.map(Sheet::Json).into_iter().chain(text).collect(), &mut console);
    Ok(status(&report, &interrupts))
}

/// The verdict's, unless a signal cut the run short.
pub(super) fn status(report: &Report, interrupts: &Interrupts) -> u8 {
    let mut found = report.tests.iter().flat_map(|t| &t.findings);
    let cut_short = found.any(|finding| finding.is(Code::Interrupted));
    let by = interrupts.come().filter(|_| cut_short);
    by.map_or(report.verdict.exit_status(), Interrupt::exit_status)
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
