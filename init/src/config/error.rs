//! What can be wrong with the configuration, each as one line that names the place, the key, what
//! was read and what is allowed.

use thiserror::Error;

/// One thing wrong with the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Wrong {
    /// A file is missing or unreadable.
    #[error("{place}: {why}")]
    Unreadable {
        /// The file.
        place: String,
        /// What the system said.
        why: String,
    },
    /// A file is no TOML.
    #[error("{place}: line {line}: {why}")]
    Syntax {
        /// The file.
        place: String,
        /// Counted from 1.
        line: usize,
        /// What the parser said.
        why: String,
    },
    /// A key is unknown or its value impossible.
    #[error("{place}: {key}: read {read}, allowed: {allowed}")]
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
