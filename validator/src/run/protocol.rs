//! What goes over the pipes between `validate` and a worker: one request in, one message a line
//! out, both JSON.

use crate::config::Config;
use crate::host::identity::Identity;
use crate::host::nvidia::gpus::Information;
use crate::host::nvidia::module::ModuleHash;
use crate::outcome::Judgement;
use crate::pcie::model::Fabric;
use crate::report::Driver;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a worker is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The machine.
    pub root: PathBuf,
    /// What is asked of it.
    pub config: Config,
    /// Ids of the tests to run, in order.
    pub tests: Vec<String>,
}

/// What a worker read before its first test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Names and versions.
    pub identity: Identity,
    /// The fabric, when it could be read.
    pub fabric: Option<Fabric>,
    /// Versions of the GPU software.
    pub driver: Driver,
    /// What tells the loaded module from other builds.
    pub module: ModuleHash,
    /// What the driver says about its GPUs, by address.
    pub gpus: BTreeMap<String, Information>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// First: the machine.
    Facts(Box<Facts>),
    /// A test begins.
    Begin(String),
    /// The test that began has ended.
    End {
        /// Which.
        id: String,
        /// How long it took, seconds.
        seconds: f64,
        /// How it ended.
        said: Judgement,
    },
}
