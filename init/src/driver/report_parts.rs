//! What the driver's report lists: the image, its modules, their parameters, device nodes.

use serde::{Deserialize, Serialize};

/// What `driver.toml` says of the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Of modules, userspace and firmware alike.
    pub version: String,
    /// `debian` or `files`.
    pub source: String,
    /// Patch level; empty for stock.
    pub patch: String,
    /// The kernel release that the modules are for.
    pub kernel: String,
    /// NCCL's version.
    pub nccl: String,
}

/// One module. What a file does not say, or could not be asked, is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name as configured.
    pub name: String,
    /// Its file; empty when there is none (built in, or not found).
    pub file: String,
    /// `version` of its modinfo.
    pub version: Option<String>,
    /// `vermagic` of its modinfo.
    pub vermagic: Option<String>,
    /// `firstlight.patch` of its modinfo.
    pub patch: Option<String>,
    /// `srcversion` of its modinfo.
    pub srcversion: Option<String>,
    /// What it was given.
    pub parameters: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The kernel's error number.
    pub errno: Option<i32>,
    /// Its name.
    pub error: Option<String>,
}

/// What became of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The kernel took it.
    Loaded,
    /// It was there before.
    Already,
    /// The kernel refused it.
    Failed,
    /// It was not given to the kernel.
    NotTried,
}

impl Outcome {
    /// Whether the module is in the kernel.
    #[must_use]
    pub const fn is_in(self) -> bool {
        matches!(self, Self::Loaded | Self::Already)
    }
}

/// One parameter of a module that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The module.
    pub module: String,
    /// The parameter as the module calls it.
    pub name: String,
    /// What it was to be.
    pub wanted: String,
    /// What the driver says that it is; null when it does not say.
    pub found: Option<String>,
}

/// One device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its path.
    pub path: String,
    /// Device number.
    pub major: u32,
    /// Device number.
    pub minor: u32,
}
