//! JSON output of anything with a schema.

use serde::Serialize;

/// Indented JSON with a newline at its end.
///
/// # Errors
/// The JSON writer's error.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
