//! What goes over the pipes between `validate` and a worker: one request in, one message a line
//! out, both JSON.

use crate::config::Config;
use crate::gpu::Look;
use crate::machine::host::identity::Identity;
use crate::machine::host::nvidia::gpus::Information;
use crate::machine::host::nvidia::module::ModuleHash;
use crate::machine::pcie::model::{Bdf, Fabric};
use crate::machine::root::Root;
use crate::outcome::{Judgement, Matrix, Outcome};
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
    /// How the tests before these ended, by id.
    pub ended: BTreeMap<String, Outcome>,
    /// What they measured by pair, by id.
    #[serde(default)]
    pub matrices: BTreeMap<String, Vec<Matrix>>,
    /// GPUs whose NVLinks are asked for, instead of tests.
    #[serde(default)]
    pub nvlinks_of: Vec<Bdf>,
    /// Whether it is asked how the machine's GPUs stand, instead of tests.
    #[serde(default)]
    pub look: bool,
}

impl Request {
    /// One that asks for nothing yet.
    #[must_use]
    pub fn of(root: &Root, config: &Config) -> Self {
        Self {
            root: root.path().to_owned(),
            config: config.clone(),
            tests: Vec::new(),
            ended: BTreeMap::new(),
            matrices: BTreeMap::new(),
            nvlinks_of: Vec::new(),
            look: false,
        }
    }
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
    /// How many NVLinks join which pairs, or why that is not known.
    NvLinks(Result<Vec<(Bdf, Bdf, u32)>, String>),
    /// How the GPUs stand: before the first test that uses them, and after each test with GPUs, where it was
    /// asked.
    Look(Option<Look>),
    /// A test begins.
    Begin(String),
    /// What the test that began is doing, to be named if this is the last that is heard.
    Doing(String),
    /// The CUDA version that the driver offers, once CUDA has been started.
    Cuda(String),
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
