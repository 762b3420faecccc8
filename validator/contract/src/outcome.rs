//! The words that rate a finding, a test and the whole machine.

use crate::status;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The severity of a finding, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, but harmless.
    Info,
    /// The machine works, but less well than it could.
    Warn,
    /// The machine does not do what it must.
    Fail,
    /// It could not be determined whether the machine does what it must.
    Error,
}

/// How one test ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Proven.
    Pass,
    /// Proven, but the machine works less well than it could.
    Warn,
    /// Disproven.
    Fail,
    /// It could not be determined.
    Error,
    /// The machine has nothing of the kind to test.
    NotApplicable,
}

/// The verdict about the machine from all outcomes, in order from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
            Self::Pass => status::SUCCESS,
            Self::Fail => status::FAILURE,
            Self::Error => status::NOT_DONE,
            Self::Degraded => status::DEGRADED,
        }
    }

    /// The verdict for an exit status of `firstlight validate`.
    #[must_use]
    pub fn of_status(status: i32) -> Option<Self> {
        let all = [Self::Pass, Self::Degraded, Self::Fail, Self::Error];
        all.into_iter()
            .find(|verdict| i32::from(verdict.exit_status()) == status)
    }

    /// Whether the machine may be used.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Self::Pass | Self::Degraded)
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

/// The codes of findings that init makes itself, outside of the driver's account. The validator's table gives their meaning.
pub mod code {
    /// The configuration demands a watchdog and none can be used.
    pub const WATCHDOG_NONE: &str = "WATCHDOG-NONE";
    /// An earlier boot was reset during a step, which has been vetoed since then.
    pub const RESET_DURING: &str = "RESET-DURING";
    /// The machine was rebooted to recover its GPUs, and continues without peer-to-peer.
    pub const RECOVERED: &str = "RECOVERED";
    /// GPUs that no longer work could not be recovered.
    pub const RECOVERY_FAILED: &str = "RECOVERY-FAILED";

    /// All of them.
    pub const ALL: &[&str] = &[WATCHDOG_NONE, RESET_DURING, RECOVERED, RECOVERY_FAILED];
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_verdict_has_one_word_and_one_exit_status() {
        for (verdict, word, status) in [
            (Verdict::Pass, "PASS", 0),
            (Verdict::Fail, "FAIL", 1),
            (Verdict::Error, "ERROR", 2),
            (Verdict::Degraded, "DEGRADED", 3),
        ] {
            assert_eq!(
                (verdict.to_string().as_str(), json!(verdict)),
                (word, json!(word))
            );
            assert_eq!(
                (verdict.exit_status(), Verdict::of_status(status.into())),
                (status, Some(verdict))
            );
        }
        for status in [-1, 4, 64, 101, 256] {
            assert_eq!(Verdict::of_status(status), None, "{status}");
        }
    }

    #[test]
    fn outcomes_and_severities_are_lower_case_words() {
        assert_eq!(
            json!([Outcome::NotApplicable, Outcome::Warn]),
            json!(["not-applicable", "warn"])
        );
        assert_eq!(
            json!([Severity::Info, Severity::Error]),
            json!(["info", "error"])
        );
        assert!(Severity::Info < Severity::Warn && Severity::Fail < Severity::Error);
    }
}
