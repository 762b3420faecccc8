//! A finding: one thing about the machine that a person should know, with its evidence, one cause
//! and one remedy. `Code` is the list of all of them; it is what people quote and search for.

mod code;
mod table;

pub use code::Code;
pub use contract::outcome::Severity;
pub use table::markdown;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One finding, as every report and every `--json` shows it (`design: FINDING`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Short and stable, e.g. `ACS-REDIRECT`; `docs/findings.md` lists all of them.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a BDF, a pair `A -> B`, or `machine`.
    pub subject: String,
    /// One sentence in which measured and expected stand together, with units.
    pub message: String,
    /// What was read or measured; a number where there is a unit.
    pub measured: Value,
    /// What it should have been, in the same unit.
    pub expected: Value,
    /// The unit of `measured` and `expected`; `null` where they are words.
    pub unit: Option<String>,
    /// Where it was seen: file paths with what they held, register reads, kernel lines.
    pub evidence: Vec<String>,
    /// The one most likely cause.
    pub cause: String,
    /// The one next thing to do.
    pub remedy: String,
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
        }
    }
}

impl Finding {
    /// What was read and what it should have been, in `unit` where they are numbers.
    #[must_use]
    pub fn values(
        mut self,
        measured: impl Into<Value>,
        expected: impl Into<Value>,
        unit: Option<&str>,
    ) -> Self {
        self.measured = measured.into();
        self.expected = expected.into();
        self.unit = unit.map(str::to_owned);
        self
    }

    /// Where it was seen.
    #[must_use]
    pub fn seen(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Where else it was seen.
    #[must_use]
    pub fn seen_all(mut self, evidence: Vec<String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// The table's remedy names an `ADDRESS`: this one.
    #[must_use]
    pub fn at(mut self, address: &impl ToString) -> Self {
        self.remedy = self.remedy.replace("ADDRESS", &address.to_string());
        self
    }

    /// A cause that the evidence names more exactly than the table can.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.cause = cause.into();
        self
    }

    /// A remedy that the evidence names more exactly than the table can.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// True when this finding is of `code`.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.code == code.entry().code
    }
}
