//! What a report says of how its run was asked for: the level, and how the machine is identified.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How thorough `validate` is; each level includes the ones before it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Seconds.
    #[value(help = "Seconds: about 15 with 8 GPUs")]
    Quick,
    /// Minutes.
    #[value(help = "Minutes: 15 at most, unless validate.timeout_s says otherwise")]
    Standard,
    /// As long as its tests need.
    #[value(help = "As long as its tests need, with the same limit of 15 minutes")]
    Full,
    #[value(
        help = "10 minutes of load (validate.acceptance_s) and all of full; needs validate.timeout_s of 900 or more"
    )]
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
