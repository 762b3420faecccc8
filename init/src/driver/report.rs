//! `firstlight.driver/1`: the result of the driver's start, which `driver.json` carries to the validator.
//! It states what happened; the cause and remedy of each code are in the validator's table.

use super::report_parts::{Image, Module, Node, Parameter};
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
    /// The driver image, if there is one and it can be read.
    pub image: Option<Image>,
    /// NVIDIA GPUs on the bus, by address.
    pub gpus: Vec<String>,
    /// The families of `driver.toml` that they belong to.
    pub families: Vec<String>,
    /// NVSwitches on the bus, by address.
    pub nvswitches: Vec<String>,
    /// The modules, in load order.
    pub modules: Vec<Module>,
    /// The parameters of loaded modules, wanted and found.
    pub parameters: Vec<Parameter>,
    /// The device nodes that exist now.
    pub nodes: Vec<Node>,
    /// The GPUs' nodes that process 1 keeps open, so that the GPUs stay initialised.
    pub held: Vec<String>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Duration of the start.
    pub seconds: f64,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Its code.
    pub code: Code,
    /// Its severity.
    pub severity: Severity,
    /// Its subject: a GPU's address, a module, a file.
    pub subject: String,
    /// One line.
    pub message: String,
    /// Lines that show it; the kernel's begin with `kernel: `.
    pub evidence: Vec<String>,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For information.
    Info,
    /// It may cause problems.
    Warn,
    /// Something is wrong.
    Fail,
    /// It could not be determined.
    Error,
}

/// The codes that init may use; the validator's table has their causes and remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Code {
    /// The driver found no GPU, and there is none.
    DriverNoGpu,
    /// Parts of the driver have different versions.
    DriverMismatch,
    /// A module was built for another kernel.
    DriverVermagic,
    /// A part of the driver is missing or cannot be read.
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
    /// The GPU has no system processor (GSP), or its registers cannot be read.
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
    /// The code as written in reports.
    #[must_use]
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            _ => format!("{self:?}"),
        }
    }
}

impl Finding {
    /// A finding of severity fail without evidence.
    #[must_use]
    pub fn fail(code: Code, subject: &str, message: String) -> Self {
        let (subject, evidence) = (subject.to_owned(), Vec::new());
        Self { code, severity: Severity::Fail, subject, message, evidence }
    }

    /// The same finding with evidence.
    #[must_use]
    pub fn shown_by(self, evidence: Vec<String>) -> Self {
        Self { evidence, ..self }
    }

    /// The same finding with another severity.
    #[must_use]
    pub fn as_severe_as(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

impl Report {
    /// An empty report.
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
mod tests {
    use super::*;
    use crate::driver::report_parts::Outcome;
    use serde_json::json;

    #[test]
    fn a_report_has_every_key_of_its_schema() {
        let mut report = Report::new(true);
        report.image = Some(Image {
            version: "555.58.02".into(),
            source: "debian".into(),
            patch: "1".into(),
            kernel: "6.12".into(),
            nccl: "2.29.7".into(),
        });
        report.modules.push(Module {
            name: "nvidia".into(),
            file: "/m/nvidia.ko".into(),
            version: Some("555.58.02".into()),
            vermagic: None,
            patch: None,
            srcversion: None,
            parameters: "A=1".into(),
            outcome: Outcome::NotTried,
            errno: Some(19),
            error: Some("ENODEV".into()),
        });
        report.parameters.push(Parameter {
            module: "nvidia".into(),
            name: "A".into(),
            wanted: "1".into(),
            found: None,
        });
        report.nodes.push(Node { path: "/dev/nvidiactl".into(), major: 195, minor: 255 });
        let finding =
            Finding::fail(Code::DriverNoGpu, "nvidia", "m".into()).shown_by(vec!["kernel: x".into()]);
        report.findings.push(finding.as_severe_as(Severity::Info));
        let value = serde_json::to_value(&report).unwrap();
        assert_eq!(
            value,
            json!({
                "schema": "firstlight.driver/1", "load": true,
                "image": { "version": "555.58.02", "source": "debian", "patch": "1", "kernel": "6.12", "nccl": "2.29.7" },
                "gpus": [], "families": [], "nvswitches": [],
                "modules": [ { "name": "nvidia", "file": "/m/nvidia.ko", "version": "555.58.02", "vermagic": null, "patch": null,
                    "srcversion": null, "parameters": "A=1", "outcome": "not-tried", "errno": 19, "error": "ENODEV" } ],
                "parameters": [ { "module": "nvidia", "name": "A", "wanted": "1", "found": null } ],
                "nodes": [ { "path": "/dev/nvidiactl", "major": 195, "minor": 255 } ], "held": [],
                "findings": [ { "code": "DRIVER-NO-GPU", "severity": "info", "subject": "nvidia", "message": "m", "evidence": ["kernel: x"] } ],
                "seconds": 0.0
            })
        );
        assert_eq!(serde_json::from_value::<Report>(value).unwrap(), report);
    }

    #[test]
    fn codes_are_written_as_the_validator_spells_them() {
        let names =
            [Code::GpuNoGsp, Code::GspMissing, Code::NvswitchNoManager, Code::PatchMissing].map(Code::name);
        assert_eq!(names, ["GPU-NO-GSP", "GSP-MISSING", "NVSWITCH-NO-MANAGER", "PATCH-MISSING"]);
    }
}
