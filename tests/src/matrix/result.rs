//! What the program said of a case, and whether that is right.

use super::case::{Case, Subject};
use super::class::Claim;

/// Whether it is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// As it must be.
    Right,
    /// A fault that the level claims to find passed.
    FalsePass,
    /// A healthy machine did not get the verdict that it deserves.
    FalseFail,
    /// A fault was found, with another verdict than it must have.
    Verdict,
    /// A fault was found, and none of the tests that find it is blamed.
    Blame,
    /// A fault that the level does not look for passed.
    Unlooked,
    /// A fault that the level does not look for was found all the same.
    Surplus,
    /// There was no report.
    Broken,
}

/// What was said.
#[derive(Debug, Clone)]
pub struct Said {
    /// Of what.
    pub case: Case,
    /// The verdict, or why there is none.
    pub verdict: String,
    /// Tests that ended neither well nor as not applicable.
    pub blamed: Vec<String>,
    /// What people saw.
    pub text: String,
    /// How long it took.
    pub seconds: f64,
    /// Whether it is right.
    pub mark: Mark,
}

impl Claim {
    /// Whether the level finds it.
    #[must_use]
    pub const fn is_found(&self) -> bool {
        matches!(self, Self::Found(_))
    }
}

impl Mark {
    /// The mark of a verdict, with the tests that were blamed.
    #[must_use]
    pub fn of(case: &Case, verdict: &str, blamed: &[String]) -> Self {
        let class = match &case.subject {
            Subject::Healthy(healthy) if healthy.expect == verdict => return Self::Right,
            Subject::Healthy(_) => return Self::FalseFail,
            Subject::Fault(class, ..) => class,
        };
        match &class.claims[case.level] {
            Claim::Not(_) if verdict == "PASS" => Self::Unlooked,
            Claim::Not(_) => Self::Surplus,
            Claim::Found(_) if verdict == "PASS" => Self::FalsePass,
            Claim::Found(verdicts) if !verdicts.iter().any(|v| v == verdict) => Self::Verdict,
            Claim::Found(_) if !class.blamed.iter().any(|id| blamed.contains(id)) => Self::Blame,
            Claim::Found(_) => Self::Right,
        }
    }

    /// Whether it is as it should be.
    #[must_use]
    pub const fn is_right(self) -> bool {
        matches!(self, Self::Right | Self::Unlooked | Self::Surplus)
    }

    /// The words for it beside a case.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::FalsePass => "false PASS",
            Self::FalseFail => "false FAIL",
            Self::Verdict => "another verdict",
            Self::Blame => "another test is blamed",
            Self::Unlooked => "not looked for",
            Self::Surplus => "found, though not claimed",
            Self::Broken => "no report",
        }
    }
}
