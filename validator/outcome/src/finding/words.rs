//! A sentence for people. The product makes it, sends it, stores it and shows it, and never reads it: facts that decide
//! something are types beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A sentence that only people read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Words(String);

impl Words {
    /// Whether nothing is said.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> From<T> for Words {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(any(test, feature = "samples"))]
impl Words {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Tests compare what is said.
#[cfg(any(test, feature = "samples"))]
impl std::ops::Deref for Words {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(any(test, feature = "samples"))]
impl PartialEq<&str> for Words {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

#[cfg(any(test, feature = "samples"))]
impl PartialEq<str> for Words {
    fn eq(&self, text: &str) -> bool {
        self.0 == text
    }
}

#[cfg(any(test, feature = "samples"))]
impl PartialEq<String> for Words {
    fn eq(&self, text: &String) -> bool {
        self.0 == *text
    }
}
