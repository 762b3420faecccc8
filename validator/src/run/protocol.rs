//! What goes over the pipes between `validate` and a worker: one request in, one message a line
//! out, both JSON.

use crate::config::Config;
use crate::host::identity::Identity;
use crate::outcome::Judgement;
use crate::pcie::model::Fabric;
use serde::{Deserialize, Serialize};
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
