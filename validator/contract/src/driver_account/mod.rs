//! init's account of the driver's start, `firstlight.driver/1`: what it found, loaded and created, and its findings as code,
//! severity, subject, message and evidence. The validator adds the cause and the remedy of each code.

mod code;
mod parts;

pub use code::Code;
pub use parts::{Image, Module, Node, Outcome, Parameter, same_value};

use crate::outcome::Severity;
use crate::schema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

/// The whole account. `C` is a finding's code: init writes a [`Code`]; the validator reads any text, because
/// it also reports a finding whose code it does not know. Keys that a newer init adds are ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account<C = String> {
    /// [`schema::DRIVER`]
    pub schema: String,
    /// `driver.load`: whether the configuration wants a driver.
    pub load: bool,
    /// The driver image, if there is one and it can be read.
    pub image: Option<Image>,
    /// NVIDIA GPUs on the bus, by address.
    #[serde(default, deserialize_with = "not_needed")]
    pub gpus: Vec<String>,
    /// The families of `driver.toml` that they belong to.
    pub families: Vec<String>,
    /// NVSwitches on the bus, by address.
    #[serde(default, deserialize_with = "not_needed")]
    pub nvswitches: Vec<String>,
    /// With NVLink 5, whose NVSwitches are not on the bus: the functions that lead to them, by address.
    #[serde(default, deserialize_with = "not_needed")]
    pub bridges: Vec<String>,
    /// The modules, in load order.
    pub modules: Vec<Module>,
    /// The parameters of loaded modules, wanted and found.
    pub parameters: Vec<Parameter>,
    /// The device nodes that exist now.
    pub nodes: Vec<Node>,
    /// The GPUs' nodes that process 1 keeps open, so that the GPUs stay initialised.
    pub held: Vec<String>,
    /// The findings.
    pub findings: Vec<Finding<C>>,
    /// Duration of the start.
    #[serde(default, deserialize_with = "not_needed")]
    pub seconds: f64,
}

/// One finding, without cause and remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding<C = String> {
    /// Its code.
    pub code: C,
    /// Its severity.
    pub severity: Severity,
    /// Its subject: a GPU's address, a module, a file.
    pub subject: String,
    /// The message, one line.
    pub message: String,
    /// Lines that show it; kernel log lines begin with `kernel: `.
    pub evidence: Vec<String>,
}

impl<C> Account<C> {
    /// An empty account.
    #[must_use]
    pub fn new(load: bool) -> Self {
        Self {
            schema: schema::DRIVER.to_owned(),
            load,
            image: None,
            gpus: Vec::new(),
            families: Vec::new(),
            nvswitches: Vec::new(),
            bridges: Vec::new(),
            modules: Vec::new(),
            parameters: Vec::new(),
            nodes: Vec::new(),
            held: Vec::new(),
            findings: Vec::new(),
            seconds: 0.0,
        }
    }

    /// The module of that name.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|m| m.name == name)
    }
}

impl<C> Finding<C> {
    /// A finding of severity fail without evidence.
    #[must_use]
    pub fn fail(code: C, subject: &str, message: String) -> Self {
        let (subject, evidence) = (subject.to_owned(), Vec::new());
        Self {
            code,
            severity: Severity::Fail,
            subject,
            message,
            evidence,
        }
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

/// For a value that the validator does not use: an account in which it is missing or has another type is
/// still valid.
fn not_needed<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        Value(T),
        Other(IgnoredAny),
    }
    Ok(match Either::deserialize(from)? {
        Either::Value(value) => value,
        Either::Other(_) => T::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn an_account_has_every_key_of_its_schema() {
        let mut account = Account::<Code>::new(true);
        account.image = Some(Image {
            version: "555.58.02".into(),
            source: "debian".into(),
            patch: "1".into(),
            kernel: "6.12".into(),
            nccl: "2.29.7".into(),
        });
        account.modules.push(Module {
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
        account.parameters.push(Parameter {
            module: "nvidia".into(),
            name: "A".into(),
            wanted: "1".into(),
            found: None,
        });
        account.nodes.push(Node {
            path: "/dev/nvidiactl".into(),
            major: 195,
            minor: 255,
        });
        let finding = Finding::fail(Code::DriverNoGpu, "nvidia", "m".into())
            .shown_by(vec!["kernel: x".into()]);
        account.findings.push(finding.as_severe_as(Severity::Info));
        let value = serde_json::to_value(&account).unwrap();
        assert_eq!(
            value,
            json!({
                "schema": "firstlight.driver/1", "load": true,
                "image": { "version": "555.58.02", "source": "debian", "patch": "1", "kernel": "6.12", "nccl": "2.29.7" },
                "gpus": [], "families": [], "nvswitches": [], "bridges": [],
                "modules": [ { "name": "nvidia", "file": "/m/nvidia.ko", "version": "555.58.02", "vermagic": null, "patch": null,
                    "srcversion": null, "parameters": "A=1", "outcome": "not-tried", "errno": 19, "error": "ENODEV" } ],
                "parameters": [ { "module": "nvidia", "name": "A", "wanted": "1", "found": null } ],
                "nodes": [ { "path": "/dev/nvidiactl", "major": 195, "minor": 255 } ], "held": [],
                "findings": [ { "code": "DRIVER-NO-GPU", "severity": "info", "subject": "nvidia", "message": "m", "evidence": ["kernel: x"] } ],
                "seconds": 0.0
            })
        );
        assert_eq!(
            serde_json::from_value::<Account<Code>>(value).unwrap(),
            account
        );
    }

    /// The smallest account that the validator accepts.
    fn least() -> Value {
        json!({ "schema": "firstlight.driver/1", "load": true,
        "image": { "version": "1", "patch": "", "kernel": "k", "nccl": "2" }, "families": [],
        "modules": [ { "name": "nvidia", "outcome": "loaded" } ],
        "parameters": [], "nodes": [], "held": [],
        "findings": [ { "code": "ANY", "severity": "warn", "subject": "s", "message": "m", "evidence": [] } ] })
    }

    fn read(value: &Value) -> Result<Account, String> {
        serde_json::from_str(&value.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_the_validator_does_not_use_may_be_missing_or_something_else() {
        let mut value = least();
        let short = read(&value).unwrap();
        for key in ["gpus", "nvswitches", "bridges", "seconds"] {
            value[key] = json!({ "a": [1.5, null] });
        }
        value["newer"] = json!(1);
        value["image"]["source"] = json!(7);
        for key in ["file", "parameters", "errno"] {
            value["modules"][0][key] = json!([true]);
        }
        assert_eq!(read(&value), Ok(short));
        value["seconds"] = json!(2);
        assert_eq!(read(&value).unwrap().seconds, 2.0);
    }

    #[test]
    fn what_the_validator_uses_must_be_there_and_of_its_type() {
        for key in [
            "schema",
            "load",
            "families",
            "modules",
            "parameters",
            "nodes",
            "held",
            "findings",
        ] {
            let mut value = least();
            value.as_object_mut().unwrap().remove(key);
            assert!(
                read(&value)
                    .unwrap_err()
                    .starts_with(&format!("missing field `{key}`")),
                "{key}"
            );
            value[key] = json!({});
            assert!(read(&value).is_err(), "{key}");
        }
        let mut value = least();
        value["modules"][0]["outcome"] = json!("gone");
        assert!(read(&value).is_err());
    }

    #[test]
    fn init_takes_only_codes_that_it_may_write() {
        let mut value = least();
        assert!(serde_json::from_value::<Account<Code>>(value.clone()).is_err());
        value["findings"][0]["code"] = json!("GPU-INIT");
        let account: Account<Code> = serde_json::from_value(value).unwrap();
        assert_eq!(account.findings[0].code, Code::GpuInit);
    }

    #[test]
    fn values_of_parameters_are_compared_by_meaning() {
        let alike = [
            ("17", "0x11"),
            ("a=1;b=2", "\"a=1;b=2;\""),
            ("1", "Y"),
            ("0", "n"),
            ("", "\"\""),
            ("-1", "4294967295"),
        ];
        for (a, b) in alike {
            assert!(same_value(a, b) && same_value(b, a), "{a} {b}");
        }
        for (a, b) in [("17", "16"), ("a=1", "a=10"), ("x", ""), ("0x", "0")] {
            assert!(!same_value(a, b), "{a} {b}");
        }
    }
}
