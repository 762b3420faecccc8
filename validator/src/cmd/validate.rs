//! `firstlight validate`: rows as tests end, then the report, then the verdict. The JSON is
//! written before the verdict is printed: a verdict that nobody can read later is none.

use super::CommandError;
use super::output::{to_stdout, write};
use crate::args::{Place, Validate};
use crate::config::Config;
use crate::finding::{Code, Severity};
use crate::outcome::Outcome;
use crate::render::{json, text};
use crate::report::{Report, TestEntry};
use crate::root::Root;
use crate::run::{self, Audience};

/// Runs the tests; the status is the verdict's.
pub(super) fn run(root: &Root, mut config: Config, asked: Validate) -> Result<u8, CommandError> {
    let Validate { level, only, skip, json, text } = asked;
    if json == Some(Place::Stdout) && text == Some(Place::Stdout) {
        return Err(CommandError::Usage(
            "--json - and --text -: standard output can take one of them".to_owned(),
        ));
    }
    let text = text.or_else(|| (json != Some(Place::Stdout)).then_some(Place::Stdout));
    config.validate.level = level.unwrap_or(config.validate.level);
    for (given, place) in [(only, &mut config.validate.only), (skip, &mut config.validate.skip)] {
        if !given.is_empty() {
            *place = given;
        }
    }
    let mut console = Console { on: text == Some(Place::Stdout) };
    let mut report = run::validate(root, &config, &mut console);
    if let Some(place) = &json {
        deliver(&mut report, place, &mut console);
    }
    let path = json.as_ref().filter(|p| **p != Place::Stdout).map(ToString::to_string);
    console.say(&text::tail(&report, path.as_deref()));
    if let Some(place @ Place::File(_)) = &text {
        write(place, &text::whole(&report, path.as_deref()))?;
    }
    Ok(report.verdict.exit_status())
}

pub(super) fn deliver(report: &mut Report, place: &Place, console: &mut Console) {
    let written = json::pretty(report).map_err(|e| e.to_string());
    let written = written.and_then(|text| write(place, &text).map_err(|e| e.to_string()));
    if let Err(why) = written {
        log::error!("{why}");
        let entry = undelivered(report, &why);
        console.ended(&entry);
        report.push(entry);
    }
}

fn undelivered(report: &Report, why: &str) -> TestEntry {
    let finding = Code::ReportUnwritable.finding(Severity::Error, "report", why);
    TestEntry {
        id: "report".to_owned(),
        title: "Report".to_owned(),
        proves: "the report is where it was asked for".to_owned(),
        level: report.level,
        outcome: Outcome::Error,
        seconds: 0.0,
        summary: why.to_owned(),
        findings: vec![finding],
        matrices: Vec::new(),
        tables: Vec::new(),
        log_tail: Vec::new(),
    }
}

/// Standard output, as far as anybody reads it.
pub(super) struct Console {
    pub(super) on: bool,
}

impl Console {
    pub(super) fn say(&mut self, text: &str) {
        if !self.on {
            return;
        }
        if let Err(error) = to_stdout(text) {
            log::warn!("standard output: {error}; going on without it");
            self.on = false;
        }
    }
}

impl Audience for Console {
    fn machine(&mut self, report: &Report) {
        self.say(&text::header(report));
    }

    fn ended(&mut self, test: &TestEntry) {
        self.say(&text::row(test));
    }
}
