//! A finding: one fact about the machine that the user should know, with its evidence, one cause and one
//! remedy. `Code` lists all findings by the codes that users quote and search for.

mod code;

pub use code::Code;
pub use contract::outcome::Severity;
pub use contract::recovery::Recovery;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

/// One finding, as every report and every `--json` shows it (`design: FINDING`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Short and stable, e.g. `ACS-REDIRECT`; `docs/findings.md` lists all of them.
    pub code: String,
    /// How bad it is.
    #[schemars(schema_with = "crate::outcome::schema::severity")]
    pub severity: Severity,
    /// The subject: a BDF, a pair `A -> B`, or `machine`.
    pub subject: String,
    /// One sentence with the measured and the expected value, with units.
    pub message: String,
    /// What was read or measured; a number if there is a unit.
    pub measured: Value,
    /// The expected value, in the same unit.
    pub expected: Value,
    /// The unit of `measured` and `expected`; `null` if they are words.
    pub unit: Option<String>,
    /// The sources: file paths with their content, register reads, kernel log lines.
    pub evidence: Vec<String>,
    /// The most likely cause.
    pub cause: String,
    /// The next thing to do.
    pub remedy: String,
    /// The next action as a word for programs, where NVIDIA's driver or its documents give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::outcome::schema::recovery")]
    pub recovery: Option<Recovery>,
}

impl Code {
    /// A finding of this code with the table's cause and remedy, and nothing measured yet.
    pub fn finding(
        self,
        severity: Severity,
        subject: &(impl ToString + ?Sized),
        message: impl Into<String>,
    ) -> Finding {
        let entry = self.entry();
        Finding {
            code: entry.code.to_owned(),
            severity,
            subject: subject.to_string(),
            message: message.into(),
            measured: Value::Null,
            expected: Value::Null,
            unit: None,
            evidence: Vec::new(),
            cause: entry.cause.to_owned(),
            remedy: entry.remedy.to_owned(),
            recovery: self.recovery(),
        }
    }

    /// The action for a code that always requires one.
    const fn recovery(self) -> Option<Recovery> {
        match self {
            // The action in NVIDIA's catalogue for Xid 79, which is the same fault.
            Self::GpuGone => Some(Recovery::RebootNode),
            // Work that hangs on a GPU does not end by itself.
            Self::DriverTimeout | Self::NvmlTimeout | Self::P2pHang | Self::NcclHang => Some(Recovery::ResetGpu),
            _ => None,
        }
    }
}

impl Finding {
    /// The measured and the expected value; `unit` if they are numbers.
    #[must_use]
    pub fn values(mut self, measured: impl Into<Value>, expected: impl Into<Value>, unit: Option<&str>) -> Self {
        self.measured = measured.into();
        self.expected = expected.into();
        self.unit = unit.map(str::to_owned);
        self
    }

    /// Adds a line of evidence.
    #[must_use]
    pub fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds lines of evidence.
    #[must_use]
    pub fn seen_all(mut self, evidence: Vec<String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// Replaces the placeholder `ADDRESS` in the table's remedy.
    #[must_use]
    pub fn at(mut self, address: &impl ToString) -> Self {
        self.remedy = self.remedy.replace("ADDRESS", &address.to_string());
        self
    }

    /// Replaces the table's cause with a more exact one.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    /// Replaces the table's remedy with a more exact one.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Sets the action.
    #[must_use]
    pub const fn recovery(mut self, action: Option<Recovery>) -> Self {
        self.recovery = action;
        self
    }

    /// True if this finding has `code`.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.code == code.entry().code
    }
}

/// The table of findings, as Markdown, with a newline at the end.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from("| code | what it says | usual cause | what to do |\n|---|---|---|---|\n");
    for entry in Code::ALL.iter().map(|c| c.entry()) {
        // Writing into a String cannot fail.
        let _ = writeln!(out, "| `{}` | {} | {} | {} |", entry.code, entry.means, entry.cause, entry.remedy);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_process_one_are_in_the_table() {
        for code in contract::outcome::code::ALL {
            assert_eq!(Code::named(code).map(|known| known.entry().code), Some(*code));
        }
    }

    #[test]
    fn the_table_has_one_row_per_code() {
        let text = markdown();
        assert_eq!(text.lines().count(), Code::ALL.len() + 2);
        assert!(text.lines().all(|l| l.matches(" | ").count() == 3 || l.starts_with("|---")), "{text}");
    }
}
