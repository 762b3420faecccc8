//! How a test ends, and what all tests together come to. There is no default outcome: absence of
//! evidence is never a pass.

use crate::finding::Finding;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How one test ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Proven.
    Pass,
    /// Proven, with something that makes the machine less than it could be.
    Warn(Vec<Finding>),
    /// Disproven.
    Fail(Vec<Finding>),
    /// It could not be found out.
    Error(Vec<Finding>),
    /// There is nothing of the kind on this machine; says why.
    NotApplicable(String),
}

/// What all outcomes together say about the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Every mandatory test ran and passed.
    Pass,
    /// Every mandatory test ran, none failed, at least one warned.
    Degraded,
    /// At least one test failed.
    Fail,
    /// No verdict could be reached, or a mandatory test did not run.
    Error,
}

impl Verdict {
    /// The exit status of `firstlight validate` for this verdict.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Fail => 1,
            Self::Error => 2,
            Self::Degraded => 3,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "PASS",
            Self::Degraded => "DEGRADED",
            Self::Fail => "FAIL",
            Self::Error => "ERROR",
        })
    }
}
