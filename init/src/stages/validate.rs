//! The stage `validate`: runs `firstlight validate` in a child. Its lines are printed as they arrive; its
//! verdict lines are held back until `decide` has checked that its exit status and its report agree.

use crate::child::{End, Stream};
use crate::config::types::Validator;
use crate::console::CHILD;
use crate::fault::Fault;
use crate::file_io::{read_at_most, remove};
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::verdict::{Validation, Verdict};
use contract::last_line::{BEGINNING, PROGRESS};
use log::{debug, info};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::publish::forget;
use super::strays::run_alone;

/// Additional time after the validator's own deadline, to write its report.
const GRACE: Duration = Duration::from_secs(30);

/// Maximum size of a report.
const LARGEST: u64 = 64 << 20;

/// Which tests are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestSelection {
    /// Those of the configured level.
    All,
    /// Those of each GPU by itself.
    WithoutP2p,
    /// Those of the configured level, without full load on all GPUs.
    WithoutLoad,
}

impl fmt::Display for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the validator {}", self.end)
    }
}

/// Runs the validator.
///
/// # Errors
/// Only an interruption; every other result is a [`Validation`].
pub fn run_tests(
    m: &mut Machine,
    config: &Validator,
    which: TestSelection,
) -> Result<Validation, Fault> {
    forget_old_report();
    run(m, config, which, None, paths::REPORT)
}

/// Runs the validator again at another level, as requested at the screen.
///
/// # Errors
/// Only an interruption.
pub fn run_level(
    m: &mut Machine,
    config: &Validator,
    which: TestSelection,
    level: &str,
) -> Result<Validation, Fault> {
    forget_old_report();
    run(m, config, which, Some(level), paths::REPORT)
}

/// Runs the tests of each GPU by itself; the report of this boot stays.
///
/// # Errors
/// Only an interruption.
pub(super) fn run_without_p2p(m: &mut Machine, config: &Validator) -> Result<Validation, Fault> {
    let _not_there = remove(Path::new(paths::RECOVERY_REPORT));
    run(
        m,
        config,
        TestSelection::WithoutP2p,
        None,
        paths::RECOVERY_REPORT,
    )
}

fn run(
    m: &Machine,
    config: &Validator,
    which: TestSelection,
    level: Option<&str>,
    report: &str,
) -> Result<Validation, Fault> {
    let marks = m.marks.as_ref().filter(|marks| marks.is_written);
    let begin_part = marks
        .map(|marks| helper::begin_part(&marks.report))
        .unwrap_or_default();
    let mut args = vec!["validate", "--json", report, "--text", "-"];
    match which {
        TestSelection::All => {}
        TestSelection::WithoutP2p => args.push("--without-peers"),
        TestSelection::WithoutLoad => args.push("--without-load"),
    }
    args.extend(level.iter().flat_map(|level| ["--level", *level]));
    args.extend(begin_part.iter().flat_map(|word| ["--before-part", word]));
    let stages: Vec<_> = m.boot_stages().collect();
    args.extend(stages.iter().flat_map(|stage| ["--boot-stage", stage]));
    // A missing or unusable screen has no other effect.
    let on_screen = m.full_screen && m.console.lend_screen(true);
    if on_screen {
        args.extend(["--screen", paths::SCREEN]);
    }
    let spec = helper::validator(config, &args, config.timeout + GRACE);
    let mut held = Vec::new();
    let mut line = |stream: Stream, line: &str| show(stream, line, &mut held);
    let done = run_alone(m, &spec, &mut line, reached_verdict);
    if on_screen {
        m.console.lend_screen(false);
    }
    let done = done?;
    Ok(Validation {
        end: done.end,
        reason: done.reason(),
        report: read_report(report),
        lines: held,
        seconds: done.took.as_secs_f64(),
    })
}

/// The result of a validator that may not run.
#[must_use]
pub fn skipped(why: String) -> Validation {
    forget_old_report();
    Validation {
        end: End::Vetoed,
        report: Err(why.clone()),
        reason: why,
        lines: Vec::new(),
        seconds: 0.0,
    }
}

/// Whether a validator that ended like this reached a verdict.
fn reached_verdict(end: End) -> bool {
    let status = if let End::Exited(status) = end {
        Verdict::of_status(status)
    } else {
        None
    };
    status.is_some_and(|verdict| verdict != Verdict::Error)
}

/// Prints or holds back the line. Returns whether it was taken; other lines are shown only if the validator
/// ends badly.
fn show(stream: Stream, line: &str, held: &mut Vec<String>) -> bool {
    match stream {
        // Progress does not explain a bad end, but is worth seeing while the validator waits.
        Stream::Err if line.starts_with(PROGRESS) => {
            info!(target: CHILD, "{line}");
            return true;
        }
        Stream::Err => debug!("validator: {line}"),
        Stream::Out if is_verdict(line) => held.push(line.to_owned()),
        Stream::Out => info!(target: CHILD, "{line}"),
    }
    stream == Stream::Out
}

pub(super) fn is_verdict(line: &str) -> bool {
    line.starts_with("VERDICT") || line.starts_with(BEGINNING)
}

/// Removes files of earlier runs: only a report of this run counts.
fn forget_old_report() {
    forget(&[paths::REPORT, paths::VERDICT, paths::VALIDATED, paths::ENV]);
}

fn read_report(path: &str) -> Result<Vec<u8>, String> {
    read_at_most(Path::new(path), LARGEST).map_err(|e| format!("{path}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_lines_are_held_back_and_errors_kept_for_a_bad_end() {
        let mut held = Vec::new();
        assert!(show(Stream::Out, "VERDICT  PASS", &mut held));
        assert!(show(
            Stream::Out,
            "FIRSTLIGHT verdict=PASS failed=none warned=none codes=none scope=machine host=node7 seconds=1.0",
            &mut held
        ));
        assert!(show(
            Stream::Out,
            "firstlight 0.1.0   level standard",
            &mut held
        ));
        assert!(show(Stream::Err, "progress  nccl  10 s of 60 s", &mut held));
        assert!(!show(Stream::Err, "VERDICT on the wrong stream", &mut held));
        assert_eq!(held.len(), 2);
    }
}
