//! What a report says of how its run was asked for: the level, and how the machine is identified.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How thorough `validate` is; each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Seconds.
    Quick,
    /// Minutes.
    Standard,
    /// As long as its tests need.
    Full,
    /// `validate.acceptance_s` in addition to the time of `full`.
    Acceptance,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Full => "full",
            Self::Acceptance => "acceptance",
        })
    }
}

/// How a report identifies its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum IdentityPolicy {
    /// Nothing.
    Off,
    /// The host name and a hash of the machine id.
    Hashed,
    /// The host name, the machine id and the serial number.
    Full,
}
