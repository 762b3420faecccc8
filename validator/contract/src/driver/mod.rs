//! init's account of the driver's start, `firstlight.driver/1`: what it found, loaded and created, and its
//! findings as code, severity, subject, message and evidence. Cause and remedy of a code are the validator's.

mod code;
mod parts;

pub use code::Code;
pub use parts::{Image, Module, Node, Outcome, Parameter, same_value};

use crate::outcome::Severity;
use crate::schema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

/// The whole account. `C` is a finding's code: init writes a [`Code`]; the validator reads any text, because
/// a code that it does not know is a finding as well. Keys that a newer init adds are ignored.
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
    /// One line.
    pub message: String,
    /// Lines that show it; the kernel's begin with `kernel: `.
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

    /// The findings in the form that the reader gives them.
    #[must_use]
    pub fn findings<'a, F: From<&'a Finding<C>>>(&'a self) -> Vec<F> {
        self.findings.iter().map(F::from).collect()
    }
}

impl<C> Finding<C> {
    /// A finding of severity fail without evidence.
    #[must_use]
    pub fn fail(code: C, subject: &str, message: String) -> Self {
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

/// A value that the validator does not use: an account without it, or with something else in its place, is
/// still one.
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
mod tests;
