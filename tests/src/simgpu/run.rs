//! Lets the shipped program judge a scenario.

use super::layout::{Libraries, hide_host_cards, lay_out, program, root};
use super::scenario::Scenario;
use crate::error::{Error, Result};
use crate::report::Report;
use crate::times;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program's result.
#[derive(Debug)]
pub struct ValidatorRun {
    /// Its report.
    pub report: Report,
    /// Its exit status: 0 PASS, 1 FAIL, 2 ERROR, 3 DEGRADED.
    pub status: Option<i32>,
    /// Its output for users.
    pub text: String,
    /// The log of the program and its workers.
    pub log: String,
}

impl ValidatorRun {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> &str {
        self.report.0["verdict"].as_str().unwrap_or("no verdict")
    }

    /// Tests whose outcome is neither good nor not applicable.
    #[must_use]
    pub fn fails(&self) -> Vec<&str> {
        let tests = self.report.0["tests"].as_array().into_iter().flatten();
        let bad = tests
            .filter(|t| !["pass", "not-applicable"].contains(&t["outcome"].as_str().unwrap_or("")));
        bad.filter_map(|t| t["id"].as_str()).collect()
    }
}

/// Runs `firstlight` with `words` on a scenario and its matching machine; `{}` in a word is replaced by a temporary folder,
/// which is removed after `then` has been called with it.
///
/// # Errors
/// What cannot be built, laid out or run.
pub fn firstlight<T>(
    scenario: &Scenario,
    words: &[&str],
    then: impl FnOnce(Output, &Path) -> Result<T>,
) -> Result<T> {
    with_prepared(scenario, words, |mut command, dir| {
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|e| Error::Program {
            program: "firstlight".into(),
            why: e.to_string(),
        })?;
        then(output, dir)
    })
}

/// Prepares the same and lets `then` start it.
///
/// # Errors
/// What cannot be built or laid out.
pub fn with_prepared<T>(
    scenario: &Scenario,
    words: &[&str],
    then: impl FnOnce(Command, &Path) -> Result<T>,
) -> Result<T> {
    times::begin();
    let dir = tempfile::tempdir().map_err(Error::file("make", "a temporary folder"))?;
    let mut command = validator_command(program()?, Libraries::built()?, scenario, dir.path())?;
    let here = dir.path().display().to_string();
    command.args(words.iter().map(|word| word.replace("{}", &here)));
    then(command, dir.path())
}

/// Lays out a scenario in `dir`, and returns the command of `program` for it, without its subcommand.
///
/// # Errors
/// What cannot be laid out.
pub fn validator_command(
    program: &Path,
    libraries: &Libraries,
    scenario: &Scenario,
    dir: &Path,
) -> Result<Command> {
    let (lib, machine) = (dir.join("lib"), dir.join("root"));
    lay_out(scenario, libraries, &lib)?;
    // RDMA cards of this host do not belong to the simulated machine.
    hide_host_cards(scenario, libraries, &lib)?;
    root(scenario, &machine)?;
    let mut command = Command::new(program);
    command
        .arg("--root")
        .arg(&machine)
        .arg("--set")
        .arg(format!(
            "validate.library_path={:?}",
            [lib.display().to_string()]
        ));
    command
        .args(
            scenario
                .settings()
                .iter()
                .flat_map(|setting| ["--set", setting]),
        )
        .env_clear();
    Ok(command)
}

/// Runs `firstlight validate` with `words` on a scenario and its matching machine.
///
/// # Errors
/// What cannot be built, laid out or run, and an invalid report.
pub fn validate(scenario: &Scenario, words: &[&str]) -> Result<ValidatorRun> {
    let words: Vec<_> = ["validate"]
        .iter()
        .chain(words)
        .chain(&["--json", "{}/report.json"])
        .copied()
        .collect();
    firstlight(scenario, &words, |output, dir| {
        let json = dir.join("report.json");
        let report = fs::read(&json).map_err(Error::file("read", &json))?;
        let report = serde_json::from_slice(&report).map_err(|e| Error::Program {
            program: "firstlight".into(),
            why: format!("its report: {e}"),
        })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (text, log) = (text(&output.stdout), text(&output.stderr));
        Ok(ValidatorRun {
            report: Report(report),
            status: output.status.code(),
            text,
            log,
        })
    })
}
