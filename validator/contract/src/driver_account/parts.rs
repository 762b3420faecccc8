//! What the account of the driver lists: the image, its modules, their parameters, device nodes.

use super::not_needed;
use serde::{Deserialize, Serialize};

/// The image's description from `driver.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Version of modules, userspace and firmware.
    pub version: String,
    /// `debian` or `files`.
    #[serde(default, deserialize_with = "not_needed")]
    pub source: String,
    /// Patch level; empty for an unpatched driver.
    pub patch: String,
    /// The kernel release that the modules are for.
    pub kernel: String,
    /// NCCL's version.
    pub nccl: String,
}

/// One module. Values that its file does not have, or that could not be read, are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name as configured.
    pub name: String,
    /// Its file; empty when there is none (built in, or not found).
    #[serde(default, deserialize_with = "not_needed")]
    pub file: String,
    /// `version` of its modinfo.
    pub version: Option<String>,
    /// `vermagic` of its modinfo.
    pub vermagic: Option<String>,
    /// `firstlight.patch` of its modinfo.
    pub patch: Option<String>,
    /// `srcversion` of its modinfo.
    pub srcversion: Option<String>,
    /// The parameters that were passed to it.
    #[serde(default, deserialize_with = "not_needed")]
    pub parameters: String,
    /// The result of loading it.
    pub outcome: Outcome,
    /// The kernel's error number.
    #[serde(default, deserialize_with = "not_needed")]
    pub errno: Option<i32>,
    /// The name of that error.
    pub error: Option<String>,
}

/// The result of loading a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The kernel accepted it.
    Loaded,
    /// It was already loaded.
    Already,
    /// The kernel refused it.
    Failed,
    /// It was not passed to the kernel.
    NotTried,
}

impl Outcome {
    /// Whether the module is in the kernel.
    #[must_use]
    pub const fn is_in(self) -> bool {
        matches!(self, Self::Loaded | Self::Already)
    }
}

/// One parameter of a loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The module.
    pub module: String,
    /// Its name in the module.
    pub name: String,
    /// The requested value.
    pub wanted: String,
    /// The value that the driver reports; null when it reports none.
    pub found: Option<String>,
}

/// One device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its path.
    pub path: String,
    /// Major device number.
    pub major: u32,
    /// Minor device number.
    pub minor: u32,
}

/// True when two values of a module parameter mean the same: numbers in any notation, compared as 32 bits because the driver
/// stores and prints them so; the kernel's `Y` and `N`; lists with or without quotes and a last `;`.
#[must_use]
pub fn same_value(wanted: &str, found: &str) -> bool {
    let plain = |text: &str| {
        text.trim()
            .trim_matches('"')
            .trim_end_matches(';')
            .to_owned()
    };
    let (wanted, found) = (plain(wanted), plain(found));
    wanted == found || number(&wanted).is_some_and(|n| number(&found) == Some(n))
}

fn number(text: &str) -> Option<i64> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None if text.eq_ignore_ascii_case("y") => Some(1),
        None if text.eq_ignore_ascii_case("n") => Some(0),
        None => text.parse().ok(),
    };
    number.map(|n: i64| n & 0xffff_ffff)
}
