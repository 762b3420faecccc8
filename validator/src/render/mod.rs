//! Views of a report. Each is a pure function of the report.

pub(crate) mod alike;
pub mod causes;
pub mod element;
#[cfg(test)]
mod fixture;
pub mod fleet;
pub mod html;
pub mod junit;
pub mod last_line;
pub mod list;
pub mod nccl;
pub mod p2p;
pub mod prometheus;
pub mod screen;
pub mod text;
mod words;

use serde::Serialize;

/// Indented JSON with a newline at its end.
///
/// # Errors
/// The JSON writer's error.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
