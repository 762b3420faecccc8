//! Errors in the configuration. Each is one line that names the place, the key, the value and the allowed
//! values.

use thiserror::Error;

/// Escapes control characters, so that the content of a file or kernel word cannot break the line of an
/// error message.
fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

/// One error in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Wrong {
    /// A file is missing or unreadable.
    #[error("{}: {}", shown(place), shown(why))]
    Unreadable {
        /// The file.
        place: String,
        /// The system's error text.
        why: String,
    },
    /// A file is not valid TOML.
    #[error("{}: line {}: {}", shown(place), .line, shown(why))]
    Syntax {
        /// The file.
        place: String,
        /// Line number, starting at 1.
        line: usize,
        /// The parser's error text.
        why: String,
    },
    /// A key is unknown or its value is invalid.
    #[error("{}: {}: read {}, allowed: {}", shown(place), shown(key), shown(read), shown(allowed))]
    Key {
        /// The file or the kernel word.
        place: String,
        /// `SECTION.KEY`
        key: String,
        /// The value as TOML, or a description of the key.
        read: String,
        /// What is allowed.
        allowed: String,
    },
}

impl Wrong {
    /// Whether the error is about the actions after a verdict.
    #[must_use]
    pub fn concerns_policy(&self) -> bool {
        matches!(self, Self::Key { key, .. } if key == "policy" || key.starts_with("policy."))
    }
}
