//! The result of a stage whose child may fail without ending the boot: the stage's line, or trouble for the verdict.

use crate::verdict::Trouble;
use std::fmt;

/// What a stage's child did.
#[derive(Debug, PartialEq, Eq)]
pub enum StageResult {
    /// There is an account of its work, which the validator judges; the text is the stage's line.
    Done(String),
    /// It could not do its work, or not all of its account is true.
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
    /// What the result of `stage` means for the verdict.
    #[must_use]
    pub fn trouble(&self, stage: &'static str) -> Option<Trouble> {
        match self {
            Self::Failed(cause) => Some(Trouble { stage, code: None, cause: cause.clone() }),
            Self::Done(_) => None,
        }
    }
}
