//! The stage `fabric`: runs the fabric pass, `firstlight fabric fix`, in a child before the driver is
//! loaded. The validator reports the pass's findings again; a pass that could not do its work makes the verdict ERROR.

use crate::child::on_output;
use crate::config::types::Validator;
use crate::fault::Fault;
use crate::file_io::{read_at_most, remove};
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::stages::result::StageResult;
use crate::sys::terminal::printable;
use contract::{schema, status};
use log::debug;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// The pass accesses a few hundred registers; a hung device makes each access slow.
const DEADLINE: Duration = Duration::from_secs(60);

/// What this stage reads of `firstlight fabric fix --json`.
#[derive(Debug, Deserialize)]
struct Document {
    schema: String,
    summary: String,
}

/// Size limit of the document: some hundred bytes for each register of the largest machines.
const LARGEST: u64 = 16 << 20;

/// Runs the pass.
///
/// # Errors
/// [`Fault::Config`] when the validator refuses its sections (status 64), or an interruption.
pub fn fix(m: &mut Machine, config: &Validator) -> Result<StageResult, Fault> {
    let args = [
        "fabric",
        "fix",
        "--journal",
        paths::JOURNAL,
        "--json",
        paths::FABRIC_FIX,
    ];
    let spec = helper::validator(config, &args, DEADLINE);
    // The document of an earlier pass must not be mistaken for that of this one.
    let _not_there = remove(Path::new(paths::FABRIC_FIX));
    let mut line = on_output(|line| debug!("fabric: {line}"));
    let done = m.run(&spec, &mut line, |end| {
        matches!(
            end.status(),
            Some(status::SUCCESS | status::FAILURE | status::USAGE_ERROR)
        )
    })?;
    Ok(match done.end.status() {
        Some(status::USAGE_ERROR) => return Err(Fault::Config(refusal(&done.tail))),
        Some(status::SUCCESS | status::FAILURE) => match summary() {
            Ok(summary) => StageResult::Done(summary),
            Err(why) => StageResult::Failed(format!(
                "firstlight fabric fix: {}: {why}",
                paths::FABRIC_FIX
            )),
        },
        _ => StageResult::Failed(format!("firstlight fabric fix {}", done.end)),
    })
}

fn summary() -> Result<String, String> {
    let bytes = read_at_most(Path::new(paths::FABRIC_FIX), LARGEST).map_err(|e| e.to_string())?;
    summary_of(&bytes)
}

/// The pass's summary, in one line.
fn summary_of(bytes: &[u8]) -> Result<String, String> {
    let document: Document = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let (schema, summary) = (
        printable(document.schema.as_bytes()),
        printable(document.summary.as_bytes()),
    );
    match (schema.as_str(), summary.trim()) {
        (schema::FIX, "") => Err("summary: read an empty text; allowed: one line".to_owned()),
        (schema::FIX, summary) => Ok(summary.to_owned()),
        (other, _) => Err(format!("schema: read {other}; allowed: {}", schema::FIX)),
    }
}

fn refusal(tail: &[String]) -> Vec<String> {
    if tail.is_empty() {
        vec!["the validator refused its configuration".to_owned()]
    } else {
        tail.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_the_stages_line() {
        let read = |text: &str| summary_of(text.as_bytes());
        let good =
            r#"{"schema":"firstlight.fix/1","summary":"ACS path: none to clear","entries":[]}"#;
        assert_eq!(read(good).as_deref(), Ok("ACS path: none to clear"));
        let broken = r#"{"schema":"firstlight.fix/1","summary":"a\nFIRSTLIGHT verdict=PASS"}"#;
        assert!(!read(broken).unwrap().contains('\n'));
    }

    #[test]
    fn a_document_that_is_not_of_the_pass_is_an_error() {
        for (text, why) in [
            ("", "EOF"),
            ("{", "EOF"),
            ("[]", "invalid length"),
            (
                r#"{"schema":"firstlight.fix/1"}"#,
                "missing field `summary`",
            ),
            (
                r#"{"schema":"firstlight.fix/1","summary":7}"#,
                "invalid type",
            ),
            (
                r#"{"schema":"firstlight.fix/1","summary":" "}"#,
                "summary: read an empty text",
            ),
            (
                r#"{"schema":"firstlight.plan/1","summary":"x"}"#,
                "schema: read firstlight.plan/1",
            ),
        ] {
            let error = summary_of(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
