//! `firstlight.driver/1`: what became of the driver, as `driver.json` tells it to the validator. It
//! says what happened; cause and remedy of each code stand in the validator's table.

use serde::{Deserialize, Serialize};

/// The schema's name.
pub const SCHEMA: &str = "firstlight.driver/1";

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`]
    pub schema: String,
    /// Whether the configuration wants a driver.
    pub load: bool,
    /// The driver image, if there is one that can be read.
    pub image: Option<Image>,
    /// NVIDIA GPUs on the bus, by address.
    pub gpus: Vec<String>,
    /// The families of `driver.toml` that they belong to.
    pub families: Vec<String>,
    /// NVSwitches on the bus, by address.
    pub nvswitches: Vec<String>,
    /// The modules, in the order they were to be loaded.
    pub modules: Vec<Module>,
    /// The parameters of loaded modules, wanted and found.
    pub parameters: Vec<Parameter>,
    /// The device nodes that are there now.
    pub nodes: Vec<Node>,
    /// The GPUs' nodes that process 1 keeps open, so that the GPUs stay initialised.
    pub held: Vec<String>,
    /// What is to be said.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub seconds: f64,
}

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

/// One thing to be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of thing.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a GPU's address, a module, a file.
    pub subject: String,
    /// One line.
    pub message: String,
    /// Lines that show it; the kernel's begin with `kernel: `.
    pub evidence: Vec<String>,
}

/// How bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// It may spoil something.
    Warn,
    /// Something is wrong.
    Fail,
    /// It could not be found out.
    Error,
}

/// The codes that init may use; the validator's table words cause and remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Code {
    /// The driver found no GPU, and there is none.
    DriverNoGpu,
    /// Parts of the driver have different versions.
    DriverMismatch,
    /// A module is built for another kernel.
    DriverVermagic,
    /// A part of the driver is not there or cannot be read.
    DriverMissing,
    /// The kernel does not allow the module.
    DriverRefused,
    /// The module could not be loaded for another reason.
    DriverFailed,
    /// The driver did not start in time.
    DriverTimeout,
    /// A parameter is not in force.
    DriverParameters,
    /// The GPU's firmware was not found.
    GspMissing,
    /// The GPU has no system processor, or its registers read as nothing.
    GpuNoGsp,
    /// The GPU has no interrupt.
    GpuNoIrq,
    /// The GPU's VBIOS cannot be read.
    GpuVbios,
    /// The GPU could not be initialised for another reason.
    GpuInit,
    /// The GPU does not answer.
    GpuGone,
    /// A device node could not be made.
    NodesMissing,
    /// NVSwitches without a fabric manager.
    NvswitchNoManager,
    /// The module's patch level is not the image's.
    PatchMissing,
}

impl Code {
    /// As it is written in reports.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => format!("{self:?}"),
        }
    }
}

impl Finding {
    /// A failure without evidence.
    #[must_use]
    pub fn fail(code: Code, subject: &str, message: String) -> Self {
        let (subject, evidence) = (subject.to_owned(), Vec::new());
        Self { code, severity: Severity::Fail, subject, message, evidence }
    }

    /// The same with evidence.
    #[must_use]
    pub fn shown_by(self, evidence: Vec<String>) -> Self {
        Self { evidence, ..self }
    }

    /// The same with another severity.
    #[must_use]
    pub fn as_severe_as(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

impl Report {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(load: bool) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            load,
            image: None,
            gpus: Vec::new(),
            families: Vec::new(),
            nvswitches: Vec::new(),
            modules: Vec::new(),
            parameters: Vec::new(),
            nodes: Vec::new(),
            held: Vec::new(),
            findings: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Whether the module of that name is in the kernel.
    #[must_use]
    pub fn has(&self, module: &str) -> bool {
        self.modules.iter().any(|m| m.outcome.is_in() && crate::modules::deps::name_of(&m.name) == module)
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
