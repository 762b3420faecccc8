//! Anything that has a schema, as JSON for files and pipes.

use serde::Serialize;

/// Indented JSON with a newline at its end.
///
/// # Errors
/// What the JSON writer says.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
