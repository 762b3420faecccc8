//! A finding: one thing about the machine that a person should know, with its evidence, one cause
//! and one remedy. `Code` is the list of all of them; it is what people quote and search for.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How bad a finding is. The order is the order of badness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, judged harmless.
    Info,
    /// The machine works, but less well than it could.
    Warn,
    /// The machine does not do what it must.
    Fail,
    /// It could not be found out whether the machine does what it must.
    Error,
}

/// One finding, as every report and every `--json` shows it (`design: FINDING`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Short and stable, e.g. `ACS-REDIRECT`; the README lists all of them.
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
