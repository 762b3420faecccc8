//! What can be wrong with the configuration, each as one line that names the place, the key, what
//! was read and what is allowed.

use thiserror::Error;

/// What files and kernel words hold must not break the line that tells of it: control characters
/// are shown escaped.
fn shown(text: &str) -> String {
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(one).collect()
}

/// One thing wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Wrong {
    /// A file is missing or unreadable.
    #[error("{}: {}", shown(place), shown(why))]
    Unreadable {
        /// The file.
        place: String,
        /// What the system said.
        why: String,
    },
    /// A file is no TOML.
    #[error("{}: line {}: {}", shown(place), .line, shown(why))]
    Syntax {
        /// The file.
        place: String,
        /// Counted from 1.
        line: usize,
        /// What the parser said.
        why: String,
    },
    /// A key is unknown or its value impossible.
    #[error("{}: {}: read {}, allowed: {}", shown(place), shown(key), shown(read), shown(allowed))]
    Key {
        /// The file or the kernel word.
        place: String,
        /// `SECTION.KEY`
        key: String,
        /// The value, as TOML, or what the key itself is.
        read: String,
        /// What could stand there.
        allowed: String,
    },
}

impl Wrong {
    /// Whether this is about what to do after a verdict.
    #[must_use]
    pub fn concerns_policy(&self) -> bool {
        matches!(self, Self::Key { key, .. } if key == "policy" || key.starts_with("policy."))
    }
}
