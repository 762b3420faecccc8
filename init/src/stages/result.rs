//! The result of a stage whose child may fail without ending the boot: the stage's line, or an error for the verdict.
//! Also the last finding in the documents of such stages.

use crate::driver::report::Severity;
use crate::file_io::read_at_most;
use crate::paths;
use crate::verdict::StageError;
use serde::Deserialize;
use std::fmt;
use std::path::Path;

/// What a stage's child did.
#[derive(Debug, PartialEq, Eq)]
pub enum StageResult {
    /// It left a report on its work, which the validator judges; the text is the stage's line.
    Done(String),
    /// It could not do its work, or its report is not entirely true.
    Failed(String),
}

impl fmt::Display for StageResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(line) => f.write_str(line),
            Self::Failed(cause) => write!(f, "ERROR: {cause}"),
        }
    }
}

impl StageResult {
    /// The error that the verdict must include for the result of `stage`, if any.
    #[must_use]
    pub fn stage_error(&self, stage: &'static str) -> Option<StageError> {
        match self {
            Self::Failed(cause) => Some(StageError {
                stage,
                code: None,
                cause: cause.clone(),
            }),
            Self::Done(_) => None,
        }
    }
}

/// The common part of the documents of the steps.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Findings {
    findings: Vec<Finding>,
    rebar: Option<Box<Findings>>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    code: String,
    severity: Severity,
}

impl Findings {
    /// The last finding that is more than a note.
    fn last(self) -> Option<String> {
        let mut found = self
            .findings
            .into_iter()
            .filter(|finding| finding.severity > Severity::Info);
        found
            .next_back()
            .map(|finding| finding.code)
            .or_else(|| self.rebar.and_then(|rebar| rebar.last()))
    }
}

/// The last finding so far: of the driver's start, else of the fabric pass.
pub(super) fn last_finding() -> Option<String> {
    const LARGEST: u64 = 16 << 20;
    let last = |path: &str| -> Option<String> {
        serde_json::from_slice::<Findings>(&read_at_most(Path::new(path), LARGEST).ok()?)
            .ok()?
            .last()
    };
    last(paths::DRIVER).or_else(|| last(paths::FABRIC_FIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_finding_is_the_latest_that_is_more_than_a_note() {
        let last = |text: &str| serde_json::from_str::<Findings>(text).unwrap().last();
        let one =
            |code: &str, severity: &str| format!(r#"{{"code":"{code}","severity":"{severity}"}}"#);
        let (warn, info) = (one("A", "warn"), one("B", "info"));
        assert_eq!(
            last(&format!(r#"{{"findings":[{warn},{info}]}}"#)).as_deref(),
            Some("A")
        );
        let nested = format!(r#"{{"findings":[{info}],"rebar":{{"findings":[{warn}]}}}}"#);
        assert_eq!(last(&nested).as_deref(), Some("A"));
        assert_eq!(last("{}"), None);
    }
}
