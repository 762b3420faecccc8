//! The options of the commands that run tests: `validate`, `p2p` and `nodes`.

use super::{Place, whole};
use crate::config::{self, GpuName, IdentityPolicy, Level};
use crate::suite;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use report::BootStage;
use std::path::PathBuf;

/// `validate`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Validate {
    /// How thorough the tests are [default: validate.level, standard]
    #[arg(long)]
    pub level: Option<Level>,
    /// The scope of the verdict: the machine with its GPUs, or everything that needs no running GPU
    #[arg(long, default_value = "machine", conflicts_with_all = ["only", "without_peers"])]
    pub scope: ScopeChoice,
    /// Test only these GPUs, given by number or address; the verdict covers only them
    #[arg(long, value_name = "GPU,..", value_delimiter = ',', value_parser = gpu)]
    pub gpus: Vec<GpuName>,
    /// Run only these tests, whatever their level; the verdict covers only them
    #[arg(long, value_name = "ID,..", value_delimiter = ',', value_parser = ids())]
    pub only: Vec<String>,
    /// Run all tests except these; without a mandatory test the verdict is ERROR
    #[arg(long, value_name = "ID,..", value_delimiter = ',', value_parser = ids())]
    pub skip: Vec<String>,
    /// Run only the tests that show whether each GPU works by itself; nothing is sent between GPUs
    #[arg(long, conflicts_with = "only")]
    pub without_peers: bool,
    /// Leave out the tests that load the GPUs as much as they can bear
    #[arg(long)]
    pub without_load: bool,
    /// Test this NCCL library, as a wheel's or a container's libnccl.so.2; the same as validate.nccl
    #[arg(long, value_name = "FILE")]
    pub nccl: Option<PathBuf>,
    /// Write the report as JSON to a file; without FILE to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<Place>,
    /// Write the report as text to a file or `-`; the default is `-`, unless another form goes there
    #[arg(long, value_name = "FILE")]
    pub text: Option<Place>,
    /// Write the report as one page for a browser to a file; without FILE to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub html: Option<Place>,
    /// What identifies the machine in the report: nothing; its host name and a hash of its machine id; or also the id
    /// and the serial number [default: hashed]
    #[arg(long, value_name = "HOW")]
    pub identity: Option<IdentityPolicy>,
    /// How much is printed
    #[command(flatten)]
    pub output: Output,
    /// Also show the run full-screen on this terminal, which must not be the one of standard output
    #[arg(long, value_name = "TERMINAL")]
    pub screen: Option<PathBuf>,
    /// Process 1's: a word of the command that is run before the tests of a step that can take the machine down
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub before_part: Vec<String>,
    /// Process 1's: a stage of the boot, as NAME=BEGAN+SECONDS
    #[arg(long, hide = true, value_name = "STAGE")]
    pub boot_stage: Vec<BootStage>,
}

/// How much a run prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ClapArgs)]
pub struct Output {
    /// Print only the last line, which is for programs, and no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Print only that line in less than 80 characters, and no progress
    #[arg(long)]
    pub short: bool,
}

pub(super) fn gpu(text: &str) -> Result<GpuName, String> {
    text.parse()
}

/// As the key `nodes.rendezvous`.
fn rendezvous(text: &str) -> Result<String, String> {
    config::rendezvous(text).ok_or_else(|| format!("allowed: {}", config::RENDEZVOUS))
}

/// `--scope`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeChoice {
    /// The machine with its running GPUs.
    Machine,
    /// Kernel, PCIe and driver.
    Fabric,
}

fn ids() -> PossibleValuesParser {
    PossibleValuesParser::new(suite::ids())
}

/// `p2p`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct P2p {
    /// Write the report of these tests, or the plan, as JSON to a file; without FILE to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<Place>,
    /// Write the report of these tests as one page for a browser to a file; without FILE to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "plan")]
    pub html: Option<Place>,
    /// Only show which pairs would be measured simultaneously, and what limits that; needs no driver
    #[arg(long)]
    pub plan: bool,
    /// How thorough the tests are [default: validate.level, standard]
    #[arg(long, conflicts_with = "plan")]
    pub level: Option<Level>,
    /// Test only these GPUs, given by number or address
    #[arg(long, value_name = "GPU,..", value_delimiter = ',', value_parser = gpu, conflicts_with = "plan")]
    pub gpus: Vec<GpuName>,
    /// How much is printed
    #[command(flatten)]
    pub output: Output,
}

/// `nodes`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Nodes {
    /// How the nodes meet.
    #[command(flatten)]
    pub meet: Meet,
    /// Use only these GPUs of this node, given by number or address
    #[arg(long, value_name = "GPU,..", value_delimiter = ',', value_parser = gpu)]
    pub gpus: Vec<GpuName>,
    /// Write the result as JSON to a file; without FILE to standard output; nodes and tests are only known to the node that leads
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<Place>,
}

/// How nodes meet; each option overrides its key in section [nodes].
#[derive(Debug, Clone, PartialEq, Eq, Default, ClapArgs)]
pub struct Meet {
    /// How many nodes; under a launcher its number of processes
    #[arg(long, value_name = "N", value_parser = whole::<u16>(2, 1024), allow_negative_numbers = true)]
    pub size: Option<u16>,
    /// A file with the token that all nodes share, 16 to 256 characters
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where the nodes meet: the address of the node that leads, or `mdns` to find each other by multicast DNS
    #[arg(long, value_name = "HOST:PORT|mdns", value_parser = rendezvous)]
    pub rendezvous: Option<String>,
    /// How long to wait for all nodes, seconds
    #[arg(long, value_name = "S", value_parser = whole::<u32>(1, 86_400), allow_negative_numbers = true)]
    pub meeting_timeout: Option<u32>,
    /// The name of this node in messages; default: its host name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}
