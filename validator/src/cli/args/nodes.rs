//! The options of commands over several nodes.

use super::Place;
use super::runs::gpu;
use crate::config::GpuName;
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// `nodes`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Nodes {
    /// How the nodes meet.
    #[command(flatten)]
    pub meet: Meet,
    /// Use only these GPUs of this node, given by number or address
    #[arg(long, value_name = "GPU,..", value_delimiter = ',', value_parser = gpu)]
    pub gpus: Vec<GpuName>,
    /// Write the result as JSON to a file or `-`; only on the node that leads
    #[arg(long, value_name = "FILE")]
    pub json: Option<Place>,
}

/// How nodes meet; each option overrides its key in section [nodes].
#[derive(Debug, Clone, PartialEq, Eq, Default, ClapArgs)]
pub struct Meet {
    /// How many nodes; under a launcher its number of processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub size: Option<u16>,
    /// A file with the token that all nodes share, 16 to 256 characters
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where the nodes meet; the node with this address leads
    #[arg(long, value_name = "HOST:PORT")]
    pub rendezvous: Option<String>,
    /// How long to wait for all nodes, seconds
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub meeting_timeout: Option<u32>,
    /// The name of this node in messages; default: its host name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}
