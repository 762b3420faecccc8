//! The validator's configuration: sections `fabric`, `validate`, `expect` and `nodes`, merged from layers
//! (`--config` files in order, then `--set` words), strict. The names of init's sections are
//! accepted; init checks their content.

mod group;
mod layer;
mod limit;
mod value;

pub use group::{GpuName, Leaf, numbered};
pub use layer::{ConfigError, Source};
pub use limit::Limit;
pub use report::{IdentityPolicy, Level};

use crate::net::meeting::Token;
use fabric::acs::AcsPolicy;
use fabric::rebar::RebarChoice;
use machine::GpuId;
use outcome::scope::Scope;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use value::{Raw, read};

/// The requested mode of the IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IommuPolicy {
    /// No translation and no groups.
    Off,
    /// Pass-through: groups exist, addresses are not translated.
    Pt,
    /// Any mode that firmware and kernel select.
    Firmware,
}

/// Section `fabric`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// `fabric.iommu`; `None`: off on firstlight's own kernel, and elsewhere no translation for GPUs.
    pub iommu: Option<IommuPolicy>,
    /// `fabric.acs`
    pub acs: AcsPolicy,
    /// `fabric.rebar`
    pub rebar: RebarChoice,
}

/// Section `validate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validate {
    /// `validate.level`
    pub level: Level,
    /// `validate.timeout_s`: for all tests together, seconds.
    pub timeout_s: u64,
    /// `validate.acceptance_s`: for the tests that level `acceptance` adds, seconds.
    pub acceptance_s: u64,
    /// `validate.only`: ids of tests, which run whatever their level; empty means all of the level.
    pub only: Vec<String>,
    /// `validate.skip`: ids of tests.
    pub skip: Vec<String>,
    /// `validate.root`: the machine or a recorded one.
    pub root: PathBuf,
    /// `validate.library_path`: folders before the loader's own for the driver's libraries.
    pub library_path: Vec<String>,
    /// `validate.baseline`: the file of a baseline that the figures are compared with at the end.
    pub baseline: Option<PathBuf>,
    /// `validate.known_problems`: a file with known problems, in addition to the program's own.
    pub known_problems: Option<PathBuf>,
    /// The scope of the verdict. Set by the command line; there is no key for it.
    pub scope: Scope,
    /// The participating GPUs, if not all take part. Set by the command line; there is no key for it.
    pub limit: Option<Limit>,
    /// The command that is run, with the part's name as its last argument, before a part of the tests that can
    /// take the machine down. Set by process 1; there is no key for it.
    pub before_part: Vec<String>,
    /// Ordered pairs of GPUs, by number, between which nothing is sent. Set by the command; there is no key for it.
    pub avoid: Vec<(GpuId, GpuId)>,
    /// `validate.identity`: how the report identifies the machine.
    pub identity: IdentityPolicy,
    /// `validate.nvls`: whether NCCL may use NVLink SHARP, in its tests and in the settings for the workload.
    pub nvls: bool,
    /// What forbids NVLS from outside, whatever the configuration says; then `nvls` is false. Set by the program; there is no key
    /// for it.
    pub nvls_forbidden: Option<String>,
}

/// Section `expect`: what the owner of the machine expects of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Expect {
    /// `expect.gpus`: how many NVIDIA GPUs.
    pub gpus: Option<u64>,
    /// `expect.gpu_name`: as the driver names the model.
    pub gpu_name: Option<String>,
    /// `expect.driver`: version of the kernel driver.
    pub driver: Option<String>,
    /// `expect.min_p2p_gb_s`: floor for every pair, GB/s.
    pub min_p2p_gb_s: Option<f64>,
    /// `expect.peers`: the groups within which GPUs have peer access; `None`: one group of all.
    pub peers: Option<Vec<Vec<GpuName>>>,
    /// `expect.golden`: whether the machine must run the files of its image, all of them and no others.
    pub golden: bool,
}

/// Section `nodes`: the meeting of several nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// `nodes.size`: how many nodes.
    pub size: Option<u64>,
    /// `nodes.token`: the secret that they share. It is never written.
    #[serde(skip)]
    pub token: Option<Token>,
    /// `nodes.rendezvous`: where they meet, `HOST:PORT`, and the node that has this address listens; or `mdns`.
    pub rendezvous: Option<String>,
    /// `nodes.interfaces`: the network interfaces for `mdns`; if empty, all but loopback.
    pub interfaces: Vec<String>,
    /// `nodes.leaves`: the leaf switches with the nodes whose ports lead to them; if empty, a launcher may provide them.
    pub leaves: Vec<Leaf>,
    /// `nodes.timeout_s`: for the meeting, seconds.
    pub timeout_s: u64,
}

/// The whole configuration of the validator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// What the fabric pass may do.
    pub fabric: Fabric,
    /// What `validate` runs.
    pub validate: Validate,
    /// What the machine should be.
    pub expect: Expect,
    /// Which nodes it is tested with.
    pub nodes: Nodes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fabric: Fabric { iommu: None, acs: AcsPolicy::Path, rebar: RebarChoice::Fix },
            validate: Validate {
                level: Level::Standard,
                timeout_s: 900,
                acceptance_s: 600,
                only: Vec::new(),
                skip: Vec::new(),
                root: PathBuf::from("/"),
                library_path: Vec::new(),
                baseline: None,
                known_problems: None,
                scope: Scope::Machine,
                limit: None,
                before_part: Vec::new(),
                avoid: Vec::new(),
                identity: IdentityPolicy::Hashed,
                nvls: false,
                nvls_forbidden: None,
            },
            expect: Expect::default(),
            nodes: Nodes {
                size: None,
                token: None,
                rendezvous: None,
                interfaces: Vec::new(),
                leaves: Vec::new(),
                timeout_s: 60,
            },
        }
    }
}

/// Every key of the validator's sections.
pub const KEYS: &[&str] = &[
    "fabric.iommu",
    "fabric.acs",
    "fabric.rebar",
    "validate.level",
    "validate.timeout_s",
    "validate.acceptance_s",
    "validate.only",
    "validate.skip",
    "validate.root",
    "validate.library_path",
    "validate.baseline",
    "validate.known_problems",
    "validate.nvls",
    "validate.identity",
    "expect.gpus",
    "expect.gpu_name",
    "expect.driver",
    "expect.min_p2p_gb_s",
    "expect.peers",
    "expect.golden",
    "nodes.size",
    TOKEN,
    "nodes.rendezvous",
    "nodes.interfaces",
    "nodes.leaves",
    "nodes.timeout_s",
];

/// The key whose value is never shown.
const TOKEN: &str = "nodes.token";

impl Config {
    /// Sets the value of one key; `tests`: the existing test ids. `None` if there is no such key; the inner error
    /// lists what the key allows.
    fn set(&mut self, key: &str, raw: Raw<'_>, tests: &[&str]) -> Option<Result<(), String>> {
        Some(match key {
            "fabric.iommu" => read(raw, self.fabric.iommu.insert(IommuPolicy::Off)),
            "fabric.acs" => read(raw, &mut self.fabric.acs),
            "fabric.rebar" => read(raw, &mut self.fabric.rebar),
            "validate.level" => read(raw, &mut self.validate.level),
            "validate.timeout_s" => value::whole(raw, 1, 86_400, &mut self.validate.timeout_s),
            "validate.acceptance_s" => value::whole(raw, 4, 86_400, &mut self.validate.acceptance_s),
            "validate.only" => value::test_ids(raw, tests, &mut self.validate.only),
            "validate.skip" => value::test_ids(raw, tests, &mut self.validate.skip),
            "validate.root" => value::path(raw, &mut self.validate.root),
            "validate.library_path" => value::words(raw, &mut self.validate.library_path),
            "validate.baseline" => value::path(raw, self.validate.baseline.insert(PathBuf::new())),
            "validate.known_problems" => value::path(raw, self.validate.known_problems.insert(PathBuf::new())),
            "validate.identity" => read(raw, &mut self.validate.identity),
            "validate.nvls" => value::flag(raw, &mut self.validate.nvls),
            "expect.gpus" => value::whole(raw, 0, 64, self.expect.gpus.insert(0)),
            "expect.gpu_name" => value::text(raw, self.expect.gpu_name.insert(String::new())),
            "expect.driver" => value::text(raw, self.expect.driver.insert(String::new())),
            "expect.min_p2p_gb_s" => value::positive(raw, self.expect.min_p2p_gb_s.insert(0.0)),
            "expect.peers" => value::groups(raw, self.expect.peers.insert(Vec::new())),
            "expect.golden" => value::flag(raw, &mut self.expect.golden),
            "nodes.size" => value::whole(raw, 2, 1024, self.nodes.size.insert(2)),
            TOKEN => value::token(raw, &mut self.nodes.token),
            "nodes.rendezvous" => value::rendezvous(raw, &mut self.nodes.rendezvous),
            "nodes.interfaces" => value::words(raw, &mut self.nodes.interfaces),
            "nodes.leaves" => value::leaves(raw, &mut self.nodes.leaves),
            "nodes.timeout_s" => value::whole(raw, 1, 86_400, &mut self.nodes.timeout_s),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
