//! A report from its file, strict: another schema, a missing or an unknown key, a key that comes twice and
//! what contradicts itself are errors that say so. A half-understood report must not be shown as a whole one.

use super::once::Once;
use super::sound::contradiction;
use super::{Report, SCHEMA};
use crate::text::shown::shown;
use serde_json::Value;

/// Why a file is no report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReport {
    /// Not JSON at all.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON of another kind.
    #[error("read schema {0}, allowed: \"{SCHEMA}\"")]
    Schema(String),
    /// A report with something missing, unknown or of the wrong type.
    #[error("not a whole {SCHEMA}: {0}")]
    Shape(String),
    /// A whole report that does not agree with itself.
    #[error("contradicts itself: {0}")]
    Contradiction(String),
}

/// Reads a report.
///
/// # Errors
/// See [`BadReport`].
pub fn from_json(bytes: &[u8]) -> Result<Report, BadReport> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| BadReport::NotJson(line(&e)))?;
    match value.get("schema") {
        Some(Value::String(schema)) if schema == SCHEMA => {}
        other => return Err(BadReport::Schema(other.map_or("none".to_owned(), Value::to_string))),
    }
    serde_json::from_slice::<Once>(bytes).map_err(|e| BadReport::Shape(line(&e)))?;
    let report = serde_json::from_value(value).map_err(|e| BadReport::Shape(line(&e)))?;
    contradiction(&report).map_or(Ok(report), |why| Err(BadReport::Contradiction(why)))
}

/// What the file holds must not break the line that tells of it.
fn line(error: &serde_json::Error) -> String {
    shown(&error.to_string())
}
