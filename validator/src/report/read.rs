//! Reads a report from its file, strictly: another schema, a missing, unknown or duplicate key, and
//! contradictions are errors. An incomplete report must not be shown as a complete one. Also the JSON Schema of a
//! report, made from the types that are written.

use super::once::Once;
use super::sound::contradiction;
use super::{Report, SCHEMA};
use crate::text::shown::shown;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Why a file is not a report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReport {
    /// Not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// JSON with another schema.
    #[error("schema is {0}, allowed: \"{SCHEMA}\"")]
    Schema(String),
    /// A report with something missing, unknown or of the wrong type.
    #[error("not a valid {SCHEMA}: {0}")]
    Shape(String),
    /// A complete report that contradicts itself.
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
    let mut report: Report = serde_json::from_value(value).map_err(|e| BadReport::Shape(line(&e)))?;
    // They follow from the findings: what the file says about them is not believed.
    report.explain();
    contradiction(&report).map_or(Ok(report), |why| Err(BadReport::Contradiction(why)))
}

/// The schema, draft 2020-12. Keys that it does not name are allowed: later versions of the same format add some.
#[must_use]
pub fn schema() -> Value {
    // As it is written: then a key that is always there is required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), SCHEMA.into());
    schema.to_value()
}

/// The file's content must not break the line of the error.
fn line(error: &serde_json::Error) -> String {
    shown(&error.to_string())
}
