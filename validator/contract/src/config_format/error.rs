//! Errors in the configuration. Each is one line that names the place, the key, the value and the allowed values.

use crate::text::is_invisible;
use strsim::osa_distance;
use thiserror::Error;

/// The text with its control characters, and all others that nobody sees, escaped, so that the content of a file or a word cannot
/// break the line of a message.
#[must_use]
pub fn shown(text: &str) -> String {
    let one = |c: char| {
        if is_invisible(c) {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    text.chars().map(one).collect()
}

/// One error in the configuration. `place` is the file, the kernel word or the option that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A file is missing or unreadable.
    #[error("{}: {}", shown(place), shown(why))]
    Unreadable {
        /// The file.
        place: String,
        /// The system's error text.
        why: String,
    },
    /// A file is not valid TOML.
    #[error("{}, line {}: {}", shown(place), .line, shown(why))]
    Syntax {
        /// The file.
        place: String,
        /// Line number, starting at 1.
        line: usize,
        /// The parser's error text.
        why: String,
    },
    /// A word without `=`.
    #[error("{}: read a word without '='; allowed: {allowed}", shown(place))]
    NoValue {
        /// The word.
        place: String,
        /// The key that it names, `SECTION.KEY`.
        key: String,
        /// The form of such words.
        allowed: &'static str,
    },
    /// A section or key is unknown.
    #[error(
        "{}: {}: there is no such {what}; {}",
        shown(place),
        shown(name),
        hint(name, known)
    )]
    Unknown {
        /// Where it was read.
        place: String,
        /// `section` or `key`.
        what: &'static str,
        /// The name as it was read.
        name: String,
        /// The names that are allowed.
        known: Vec<String>,
    },
    /// A key in a layer that may not set it.
    #[error(
        "{}: {}: may not be set here; allowed in {allowed}",
        shown(place),
        shown(key)
    )]
    Misplaced {
        /// Where it was read.
        place: String,
        /// `SECTION.KEY`
        key: String,
        /// The layers that may set it.
        allowed: &'static str,
    },
    /// A file without a valid signature, in an image that accepts signed files only.
    #[error("{}: {}", shown(place), shown(why))]
    Signature {
        /// The file.
        place: String,
        /// What is wrong with its signature.
        why: String,
    },
    /// The value of a key is invalid.
    #[error(
        "{}: {}: read {}; allowed: {}",
        shown(place),
        shown(key),
        shown(read),
        shown(allowed)
    )]
    Key {
        /// Where it was read.
        place: String,
        /// `SECTION.KEY`
        key: String,
        /// The value as it was written, or a description of it.
        read: String,
        /// What is allowed.
        allowed: String,
    },
}

impl ConfigError {
    /// Whether the error is about the actions after a verdict, or about who may decide them.
    #[must_use]
    pub fn concerns_policy(&self) -> bool {
        match self {
            Self::NoValue { key, .. } | Self::Unknown { name: key, .. } | Self::Key { key, .. } => {
                key == "policy" || key.starts_with("policy.")
            }
            Self::Misplaced { .. } | Self::Signature { .. } => true,
            Self::Unreadable { .. } | Self::Syntax { .. } => false,
        }
    }
}

/// The nearest known name, or all of them when none is near.
fn hint(name: &str, known: &[String]) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("allowed: {}", known.join(", ")),
    }
}

/// The known name of which `name` is probably a misspelling: at most a third of its characters are wrong, and at most two; two
/// that changed places count once.
#[must_use]
pub fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let most = (name.chars().count() / 3).clamp(1, 2);
    let near = known
        .iter()
        .map(|k| (osa_distance(name, k), k.as_str()))
        .filter(|(distance, _)| *distance <= most);
    near.min().map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_another_word_finds_nothing() {
        let known = ["driver.load", "driver.modules"].map(str::to_owned);
        assert_eq!(hint("driver.laod", &known), "did you mean driver.load?");
        assert_eq!(hint("drivel.load", &known), "did you mean driver.load?");
        assert_eq!(
            hint("driver.colour", &known),
            "allowed: driver.load, driver.modules"
        );
        assert_eq!(nearest("", &["acs".to_owned()]), None);
        assert_eq!(nearest("levle", &["level".to_owned()]), Some("level"));
    }
}
