//! init's account of its driver stage, `firstlight.driver/1`: what it found, loaded and created,
//! and its findings as code, severity, subject, message and evidence. Cause and remedy come from
//! the validator's table. Keys that a newer init adds are left alone; a missing one is an error.

use super::{Read, at};
use crate::machine::host::modules::absent_is_none;
use crate::machine::root::Root;
use crate::outcome::finding::{Code, Finding, Severity};
use serde::{Deserialize, Serialize};

/// Where init writes it.
pub const FILE: &str = "run/firstlight/driver.json";
/// The name of the format.
pub const SCHEMA: &str = "firstlight.driver/1";

/// The whole account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// [`SCHEMA`]
    pub schema: String,
    /// `driver.load`
    pub load: bool,
    /// The driver image; `null` when there is none in the appliance.
    pub image: Option<Image>,
    /// GPU families that are present, by the names of the driver image.
    pub families: Vec<String>,
    /// The modules, in the order in which they were loaded.
    pub modules: Vec<Module>,
    /// Parameters that were asked for.
    pub parameters: Vec<Parameter>,
    /// Device nodes that were created.
    pub nodes: Vec<Node>,
    /// Nodes that init holds open, so that the GPUs stay initialised.
    pub held: Vec<String>,
    /// What went wrong.
    pub findings: Vec<Noted>,
}

/// What the driver image says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Version of modules, libraries and firmware alike.
    pub version: String,
    /// Patch level of nvidia.ko; empty for NVIDIA's own.
    pub patch: String,
    /// Release of the kernel that the modules are for.
    pub kernel: String,
    /// Version of NCCL.
    pub nccl: String,
}

/// One module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// `nvidia`
    pub name: String,
    /// Its version, as its file says.
    pub version: Option<String>,
    /// The kernel that it was built for, as its file says.
    pub vermagic: Option<String>,
    /// Its patch level, as its file says.
    pub patch: Option<String>,
    /// The hash of its sources, as its file says.
    pub srcversion: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// The name of the error that loading it came back with.
    pub error: Option<String>,
}

/// What became of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// init loaded it.
    Loaded,
    /// It was there already.
    Already,
    /// The kernel or the module refused.
    Failed,
    /// It was not its turn.
    NotTried,
}

/// A parameter as it was asked for, and as it was read back at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Of which module.
    pub module: String,
    /// `NVreg_RegistryDwords`
    pub name: String,
    /// What was asked for.
    pub wanted: String,
    /// What was read back.
    pub found: Option<String>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// `/dev/nvidiactl`
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// A finding without cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// One of the validator's codes.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub subject: String,
    /// One line.
    pub message: String,
    /// Where it was seen.
    pub evidence: Vec<String>,
}

/// What init may find. Another code is a defect of one of the two, and an error.
const INITS: &[Code] = &[
    Code::DriverNoGpu,
    Code::DriverMismatch,
    Code::DriverVermagic,
    Code::DriverMissing,
    Code::DriverRefused,
    Code::DriverFailed,
    Code::DriverTimeout,
    Code::DriverParameters,
    Code::GspMissing,
    Code::GpuNoGsp,
    Code::GpuNoIrq,
    Code::GpuVbios,
    Code::GpuInit,
    Code::GpuGone,
    Code::GpuXid,
    Code::NodesMissing,
    Code::NvswitchNoManager,
    Code::PatchMissing,
    Code::PatchNotEffective,
    Code::Bar1Small,
    Code::Bar1NotStatic,
    Code::KmsgUnreadable,
];

impl Account {
    /// What init says of the module of that name.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|m| m.name == name)
    }

    /// init's findings with the table's cause and remedy.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        self.findings.iter().map(Noted::finding).collect()
    }
}

impl Noted {
    fn finding(&self) -> Finding {
        let known = Code::named(&self.code).filter(|code| INITS.contains(code));
        let (code, severity, message) = match known {
            Some(code) => (code, self.severity, self.message.clone()),
            None => {
                let message = format!("/{FILE} has the unknown code {}: {}", self.code, self.message);
                (Code::SysUnreadable, Severity::Error, message)
            }
        };
        code.finding(severity, &self.subject, message).seen_all(self.evidence.clone())
    }
}

/// Reads it; `None` where firstlight's init did not start the machine.
///
/// # Errors
/// It is there and cannot be read or is no such account.
pub fn read(root: &Root) -> Read<Option<Account>> {
    let bytes = absent_is_none(root.read(FILE)).map_err(|e| at(FILE, &e))?;
    bytes.map(|bytes| parse(&bytes).map_err(|e| at(FILE, &e))).transpose()
}

/// Understands it.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Account, String> {
    let account: Account = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if account.schema != SCHEMA {
        return Err(format!("schema '{}', expected '{SCHEMA}'", account.schema));
    }
    Ok(account)
}

#[cfg(test)]
pub(crate) mod tests {
    //! The account of a healthy stage, and what is refused.

    use super::super::fixture::machine;
    use super::*;
    use serde_json::{Value, json};

    /// What init writes where everything went well, with more keys than are read.
    pub(crate) fn healthy() -> Value {
        json!({ "schema": SCHEMA, "load": true,
            "image": { "version": "555.58.02", "source": "debian", "patch": "1",
                       "kernel": "6.12.107-firstlight", "nccl": "2.29.7" },
            "gpus": ["0000:10:00.0"], "families": ["ada"], "nvswitches": [],
            "modules": [ { "name": "nvidia", "file": "/run/firstlight/driver/modules/nvidia.ko",
                "version": "555.58.02", "vermagic": "6.12.107-firstlight SMP preempt mod_unload ", "patch": "1",
                "srcversion": "ABC", "parameters": "", "outcome": "loaded", "errno": null, "error": null } ],
            "parameters": [], "nodes": [], "held": ["/dev/nvidia0"], "findings": [], "seconds": 1.2 })
    }

    /// The same with one value changed.
    pub(crate) fn with(pointer: &str, value: Value) -> Account {
        let mut text = healthy();
        *text.pointer_mut(pointer).expect("there is such a value") = value;
        parse(text.to_string().as_bytes()).expect("an account")
    }

    fn noted(code: &str, severity: &str) -> Value {
        json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said", "evidence": ["kernel: x"] }])
    }

    #[test]
    fn a_healthy_account_is_read_and_newer_keys_are_left_alone() {
        let account = with("/seconds", json!(2.5));
        assert_eq!(account.module("nvidia").map(|m| m.outcome), Some(Outcome::Loaded));
        assert_eq!((account.module("nvidia-uvm"), account.findings()), (None, vec![]));
    }

    #[test]
    fn inits_findings_get_their_cause_and_remedy_from_the_table() {
        let [finding] = &with("/findings", noted("GPU-NO-IRQ", "fail")).findings()[..] else { panic!("one") };
        assert!(finding.is(Code::GpuNoIrq) && finding.severity == Severity::Fail);
        assert_eq!(finding.cause, Code::GpuNoIrq.entry().cause);
        assert_eq!(finding.evidence, ["kernel: x"]);
    }

    #[test]
    fn a_code_that_init_has_no_business_with_is_an_error_whatever_its_severity() {
        for code in ["GPU-UNHEARD-OF", "ACS-STUCK", ""] {
            let [finding] = &with("/findings", noted(code, "info")).findings()[..] else { panic!("one") };
            assert!(finding.is(Code::SysUnreadable) && finding.severity == Severity::Error, "{code}");
            assert!(finding.message.contains("unknown code"));
        }
    }

    #[test]
    fn what_is_no_account_is_refused_with_its_file() {
        let mut other = healthy();
        other["schema"] = json!("firstlight.driver/2");
        let mut cut = healthy();
        cut.as_object_mut().unwrap().remove("findings");
        for text in ["", "{", "[]", &other.to_string(), &cut.to_string()] {
            let dir = machine(&[(FILE, text)]);
            let error = read(&Root::new(dir.path())).unwrap_err();
            assert!(error.starts_with("/run/firstlight/driver.json: "), "{error}");
        }
        assert_eq!(read(&Root::new(machine(&[]).path())), Ok(None));
    }
}
