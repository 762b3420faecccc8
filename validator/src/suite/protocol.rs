//! The messages between `validate` and a worker, as JSON: one request in, one message per line out, and an empty line in for
//! each message that was processed.

use crate::config::Config;
use crate::schedule::Pair;
use gpu::GpuSnapshot;
use machine::host::identity::Identity;
use machine::host::nvidia::gpus::Information;
use machine::host::nvidia::module::ModuleHash;
use machine::pcie::model::{Bdf, Fabric};
use machine::root::Root;
use outcome::platform::Host;
use outcome::{Judgement, Matrix, Outcome};
use report::Driver;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

/// A request to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The machine's root.
    pub root: PathBuf,
    /// What reports call that machine, if it is not the root.
    #[serde(default)]
    pub name: Option<String>,
    /// The configuration.
    pub config: Config,
    /// Ids of the tests to run, in order.
    pub tests: Vec<String>,
    /// The outcomes of the tests before these, by id.
    pub ended: BTreeMap<String, Outcome>,
    /// The matrices that those tests measured, by id.
    #[serde(default)]
    pub matrices: BTreeMap<String, Vec<Matrix>>,
    /// Requests the NVLinks of these GPUs, instead of tests.
    #[serde(default)]
    pub nvlinks_of: Vec<Bdf>,
    /// Requests the state of the machine's GPUs, instead of tests.
    #[serde(default)]
    pub look: bool,
}

impl Request {
    /// A request that asks for nothing yet.
    #[must_use]
    pub fn of(root: &Root, config: &Config) -> Self {
        Self {
            root: root.path().to_owned(),
            name: root.given_name().map(str::to_owned),
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
    /// What distinguishes the loaded module from other builds.
    pub module: ModuleHash,
    /// What the driver reports about its GPUs, by address.
    pub gpus: BTreeMap<String, Information>,
    /// What kind of machine it is.
    pub host: Host,
}

/// What a worker does at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// In words.
    pub what: String,
    /// The pair that it is about.
    pub pair: Option<Pair>,
}

impl Activity {
    /// Something with one pair of GPUs, which begins with its name.
    pub(in crate::suite) fn of_pair(pair: Pair, what: impl Display) -> Self {
        Self {
            what: format!("{pair}: {what}"),
            pair: Some(pair),
        }
    }
}

impl<T: Into<String>> From<T> for Activity {
    fn from(what: T) -> Self {
        Self {
            what: what.into(),
            pair: None,
        }
    }
}

/// A message from a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Message {
    /// First: the machine.
    Facts(Box<Facts>),
    /// How many NVLinks connect which pairs, or why that is unknown.
    NvLinks(Result<Vec<(Bdf, Bdf, u32)>, String>),
    /// The state of the GPUs: before the first test that uses them, and after each test with GPUs, where
    /// requested.
    Look(Option<GpuSnapshot>),
    /// A test begins.
    Begin(String),
    /// What the running test is doing; the parent names it if this is the last message.
    Doing(Activity),
    /// The CUDA version that the driver offers, once CUDA has been started.
    Cuda(String),
    /// The running test has ended.
    End {
        /// The test's id.
        id: String,
        /// How long it took, seconds.
        seconds: f64,
        /// Its judgement.
        said: Judgement,
    },
}
