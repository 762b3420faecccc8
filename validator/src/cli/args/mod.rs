//! The command line as types. Wrong use is told in one line; what the words mean to each command
//! is its own file in `cli`.

mod nccl;
mod publish;

pub use nccl::{Nccl, P2pChoice};
pub use publish::{Fetch, Publish, Time};

use crate::config::{GpuName, Level};
use crate::fabric::acs::AcsPolicy;
use crate::fabric::rebar::RebarChoice;
use crate::files::destination;
use crate::suite;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Proves that this machine's GPUs can really talk to each other.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = "firstlight", version, max_term_width = 80, arg_required_else_help = false)]
pub struct Args {
    /// A recorded machine instead of this one: the file of `record`, or a folder in the layout of /
    #[arg(long, global = true, value_name = "FILE|DIR")]
    pub root: Option<PathBuf>,
    /// A configuration file; may be given again, the later wins; stands before the command
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// One key of the configuration, over all files; stands before the command
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Run the tests and give a verdict: exit status 0 PASS, 1 FAIL, 2 ERROR, 3 DEGRADED
    Validate(Validate),
    /// Look at the PCIe fabric, take ACS off the ways between GPUs, make BAR1 cover their memory
    #[command(arg_required_else_help = false)]
    Fabric {
        /// What to do with the fabric.
        #[command(subcommand)]
        action: Fabric,
    },
    /// The matrix and legend of `nvidia-smi topo -m`, from sysfs and NVML
    Topo {
        /// The matrix as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
    },
    /// The tables of p2pBandwidthLatencyTest, once it is proven that data arrives
    P2p(P2p),
    /// Which image runs here, and whether it is golden: exit status 0 golden, 1 not golden, 2 not known
    Image {
        /// The answer as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
    },
    /// The table of nccl-tests: a collective over sizes, with every value checked
    Nccl(Nccl),
    /// Record this machine's PCI functions, driver and kernel log as one text file, for a bug report
    Record {
        /// The file, or `-`
        file: Place,
    },
    /// Every test: id, level, deadline, what a pass proves
    List {
        /// The list as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
        /// Every finding with cause and remedy instead, as Markdown
        #[arg(long, conflicts_with = "json")]
        findings: bool,
    },
    /// Show a report again
    Render {
        /// A report of `validate --json`
        report: PathBuf,
        /// In which form
        #[arg(long)]
        to: Form,
        /// Where to
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: Place,
    },
    /// A report's NAME=value lines for the workload
    Env {
        /// A report of `validate --json`
        report: PathBuf,
    },
    /// Keep a finished report on a partition, at a URL, or both
    Publish(Publish),
    /// Fetch the file that a configuration names by URL and checksum
    #[command(hide = true)]
    Fetch(Fetch),
    /// Ask NTP servers by how many seconds this machine's clock must be moved; moves nothing
    #[command(hide = true)]
    Time(Time),
    /// Runs tests for `validate`, which speaks to it through pipes
    #[command(hide = true)]
    Worker(Lineage),
    /// The other process of a worker's test between processes
    #[command(hide = true)]
    Partner(Lineage),
    /// One of the processes of a worker's test with NCCL
    #[command(hide = true)]
    Rank(Lineage),
}

/// For commands that this program starts itself.
#[derive(Debug, Clone, PartialEq, Eq, ClapArgs)]
pub struct Lineage {
    /// A process with which this one ends; the last is its parent
    #[arg(long, value_name = "PID")]
    pub beneath: Vec<i32>,
}

/// `validate`
#[derive(Debug, Clone, PartialEq, ClapArgs)]
pub struct Validate {
    /// How thorough to be
    #[arg(long)]
    pub level: Option<Level>,
    /// What the verdict is to speak of: the machine with its GPUs, or what needs no GPU to run
    #[arg(long, default_value = "machine", conflicts_with = "only")]
    pub scope: ScopeChoice,
    /// Only these GPUs, by number or address; the verdict speaks of them alone
    #[arg(long, value_name = "GPU,..", value_delimiter = ',', value_parser = gpu)]
    pub gpus: Vec<GpuName>,
    /// Only these tests, whatever their level; the verdict speaks of them alone
    #[arg(long, value_name = "ID,..", value_delimiter = ',', value_parser = ids())]
    pub only: Vec<String>,
    /// All but these tests; without a mandatory one the verdict is ERROR
    #[arg(long, value_name = "ID,..", value_delimiter = ',', value_parser = ids())]
    pub skip: Vec<String>,
    /// The report as JSON, to a file or `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Place>,
    /// The report as text, to a file or `-`, which it is unless the JSON goes there
    #[arg(long, value_name = "FILE")]
    pub text: Option<Place>,
}

fn gpu(text: &str) -> Result<GpuName, String> {
    text.parse()
}

/// `--scope`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeChoice {
    /// The machine with what its GPUs do.
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
    /// The report of these tests as JSON, or the plan's, to a file or `-`
    #[arg(long, value_name = "FILE")]
    pub json: Option<Place>,
    /// Only show which pairs would be measured at the same time, and why not more; needs no driver
    #[arg(long)]
    pub plan: bool,
    /// How thorough to be
    #[arg(long, conflicts_with = "plan")]
    pub level: Option<Level>,
}

/// `fabric`
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Fabric {
    /// What the fabric is
    Show {
        /// The fabric as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
    },
    /// What `fix` would do; writes nothing
    Plan {
        /// Which functions: path, all, off
        #[arg(long)]
        acs: Option<AcsPolicy>,
        /// Resizable BARs: grown, or only looked at
        #[arg(long)]
        rebar: Option<RebarChoice>,
        /// The plan as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
    },
    /// Grow BAR1s and take ACS off, and keep a journal of what was there
    Fix {
        /// Which functions: path, all, off
        #[arg(long)]
        acs: Option<AcsPolicy>,
        /// Resizable BARs: grown, or only looked at
        #[arg(long)]
        rebar: Option<RebarChoice>,
        /// The journal; run/firstlight/fabric.json below the root unless given
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
        /// What was done as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
    },
    /// Put back what the journal says was there
    Restore {
        /// The journal; run/firstlight/fabric.json below the root unless given
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
        /// What was done as JSON, to a file or `-`
        #[arg(long, value_name = "FILE")]
        json: Option<Place>,
    },
}

/// In which form a report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The console's.
    Text,
    /// The report's own.
    Json,
    /// One page for people, whole in itself.
    Html,
    /// For CI systems: the common JUnit XML.
    Junit,
    /// For node_exporter's textfile collector.
    Prometheus,
}

/// Where output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `-`, and `/dev/stdout`
    Stdout,
    /// A file, replaced as a whole.
    File(PathBuf),
}

impl From<OsString> for Place {
    fn from(word: OsString) -> Self {
        let stdout = word == "-" || destination::is_stdout(Path::new(&word));
        if stdout { Self::Stdout } else { Self::File(word.into()) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("-"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why there are no arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoArgs {
    /// Help or version was asked for: this is it.
    Asked(String),
    /// Wrong use, in one line.
    Wrong(String),
}

/// Reads the command line; the first word is the program.
///
/// # Errors
/// See [`NoArgs`].
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, NoArgs> {
    Args::try_parse_from(words).map_err(|e| {
        let text = e.render().to_string();
        if e.use_stderr() { NoArgs::Wrong(one_line(&text)) } else { NoArgs::Asked(text) }
    })
}

/// clap's error without its usage: what was wrong and its tips, in one line.
fn one_line(text: &str) -> String {
    let said = text.lines().take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let words: Vec<_> = said.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").map_or(line.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;
