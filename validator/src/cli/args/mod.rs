//! The command line as types. Wrong use is reported in one line. Each command is implemented in its own file
//! in `cli`.

mod habits;
mod layers;
mod nccl;
mod publish;
mod report;
mod runs;
pub mod setup;

pub use nccl::{Nccl, P2pChoice};
pub use publish::{Fetch, Publish, Reset, ResetAction, Time};
pub use report::{Baseline, Compare, Form, Render, Without};
pub use runs::{Meet, Nodes};
pub use runs::{Output, P2p, ScopeChoice, Validate};
pub use setup::Setup;

use clap::error::ErrorKind;
use clap::{Args as ClapArgs, ColorChoice, Parser, Subcommand};
use clap_complete::Shell;
use fabric::acs::AcsPolicy;
use fabric::rebar::RebarChoice;
use outcome::files::destination;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Validates GPU peer-to-peer and NCCL on this machine
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "firstlight",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub struct Args {
    /// Use a recorded machine instead of this one: a file of `record`, or a folder with the layout of /
    #[arg(long, value_name = "FILE|DIR")]
    pub root: Option<PathBuf>,
    /// A configuration file; repeatable, later files override earlier ones
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Set one configuration key, overriding all files; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Color on standard output and standard error; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Command {
    /// Run the tests and give a verdict: exit status 0 PASS, 1 FAIL, 2 ERROR, 3 DEGRADED
    Validate(Validate),
    /// Show the PCIe fabric, disable ACS on the paths between GPUs, enlarge BAR1 to cover GPU memory
    #[command(arg_required_else_help = true)]
    Fabric {
        /// What to do with the fabric.
        #[command(subcommand)]
        action: Fabric,
    },
    /// Set up peer-to-peer on an installed system: what is missing and the literal step, done or taken back on demand: exit status 0 read or done, 2 could not, 64 wrong use
    Setup(Setup),
    /// Print the matrix and legend of `nvidia-smi topo -m`, read from sysfs and NVML
    Topo {
        /// As `nvidia-smi topo` has it; the matrix is shown anyway
        #[arg(short, hide = true)]
        matrix: bool,
        /// Write the matrix as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
    /// Print the tables of p2pBandwidthLatencyTest, after checking that data arrives intact
    P2p(P2p),
    /// Print which image runs and whether it is golden: exit status 0 golden, 1 not golden, 2 unknown
    Image {
        /// Write the answer as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
    /// Print the table of nccl-tests: a collective over a range of sizes, with every value checked
    Nccl(Box<Nccl>),
    /// Test several nodes together: this one meets the others, and NCCL's collectives run over all of them
    Nodes(Nodes),
    /// Test RDMA between several nodes without NCCL: every byte compared, and bandwidth and latency in perftest's form
    Rdma(Nodes),
    /// Record this machine's PCI functions, driver and kernel log as one text file, for a bug report
    Record {
        /// The file, or `-`
        file: Place,
    },
    /// Show or remove the mark of a boot that was reset: exit status 0 no mark is left, 1 a mark, 2 unknown
    Reset(Reset),
    /// List every test: id, level, deadline, what a pass proves
    List {
        /// Write the list as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
        /// List every finding with cause and remedy instead, as Markdown
        #[arg(long, conflicts_with = "json")]
        findings: bool,
        /// List the known problems of driver, kernel and NCCL instead, as Markdown
        #[arg(long, conflicts_with_all = ["json", "findings"])]
        known_problems: bool,
    },
    /// Convert a report to another form
    Render(Render),
    /// Save the figures of a machine in good state, and compare later reports with them
    #[command(arg_required_else_help = true)]
    Baseline {
        /// What to do with the baseline.
        #[command(subcommand)]
        action: Baseline,
    },
    /// Put many reports side by side: what differs, which figures are outliers, what each IOMMU setting costs
    Compare(Compare),
    /// Print the JSON Schema of the report
    Schema,
    /// Show a report on the whole terminal: the verdict in large letters, what to do first, the report, a QR code
    Screen(Screen),
    /// Print a report's settings for the workload as NAME=value lines
    Env {
        /// A report of `validate --json`
        report: PathBuf,
        /// A report of `nodes --json`, whose settings replace those of the same names
        #[arg(long, value_name = "FILE")]
        nodes: Option<PathBuf>,
        /// Also write which GPUs reach each other to files below this folder, and print the settings by which vLLM reads them
        #[arg(long, value_name = "DIR")]
        vllm: Option<PathBuf>,
    },
    /// Print what the machine needs before it takes work, and for which GPUs: none, reset, reboot, drain, replace
    NextStep {
        /// The last report of `validate --json`
        report: PathBuf,
        /// Earlier reports of this machine: a GPU that two runs found worn out is to be replaced
        earlier: Vec<PathBuf>,
    },
    /// Print the script that completes this program's command line in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page of this program and of each command, for `man -l`
    Man,
    /// Save a finished report to a partition, a URL, or both: exit status 0 all places have it, 2 one does not, 64 wrong use
    Publish(Publish),
    /// Receive the reports of other machines, store and show them; `collect --help` lists the options
    #[command(disable_help_flag = true)]
    Collect {
        /// The options of the program `firstlight-collect`, which is in the same folder as this one
        #[arg(
            value_name = "OPTION",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        args: Vec<OsString>,
    },
    /// Download the file that a configuration names by URL and checksum
    #[command(hide = true)]
    Fetch(Fetch),
    /// Ask NTP servers for this machine's clock offset in seconds; changes nothing
    #[command(hide = true)]
    Time(Time),
    /// Run tests for `validate`, which communicates with it through pipes
    #[command(hide = true)]
    Worker(Lineage),
    /// The second process of a worker's test between two processes
    #[command(hide = true)]
    Partner(Lineage),
    /// One of the processes of a worker's test of the frameworks' all-reduce
    #[command(hide = true)]
    Reducer(Lineage),
    /// The process of a node that calls libibverbs
    #[command(hide = true)]
    Verbs(Lineage),
    /// One of the processes of a worker's NCCL test
    #[command(hide = true)]
    Rank(Lineage),
}

/// Options of commands that only this program starts.
#[derive(Debug, Clone, PartialEq, Eq, ClapArgs)]
pub struct Lineage {
    /// A process whose end also ends this one; the last one is its parent
    #[arg(long, value_name = "PID")]
    pub beneath: Vec<i32>,
}

/// `fabric`
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum Fabric {
    /// Show the fabric
    Show {
        /// Write the fabric as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
    /// Show what `fix` would do; writes nothing
    Plan {
        /// On which functions ACS is disabled: path, all, off [default: fabric.acs, path]
        #[arg(long)]
        acs: Option<AcsPolicy>,
        /// What is done about small BAR1s: enlarge them, or only report them [default: fabric.rebar, fix]
        #[arg(long)]
        rebar: Option<RebarChoice>,
        /// Write the plan as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
    /// Enlarge BAR1s and disable ACS; record the previous values in a journal
    Fix {
        /// On which functions ACS is disabled: path, all, off [default: fabric.acs, path]
        #[arg(long)]
        acs: Option<AcsPolicy>,
        /// What is done about small BAR1s: enlarge them, or only report them [default: fabric.rebar, fix]
        #[arg(long)]
        rebar: Option<RebarChoice>,
        /// The journal; default: run/firstlight/fabric.json below the root
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
        /// Write the result as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
    /// Restore the values that the journal recorded
    Restore {
        /// The journal; default: run/firstlight/fabric.json below the root
        #[arg(long, value_name = "FILE")]
        journal: Option<PathBuf>,
        /// Write the result as JSON to a file; without FILE to standard output
        #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
        json: Option<Place>,
    },
}

/// `screen`
#[derive(Debug, Clone, PartialEq, Eq, ClapArgs)]
pub struct Screen {
    /// A report of `validate --json`
    pub report: PathBuf,
    /// Process 1's: its verdict, which may be worse than the report's
    #[arg(long, hide = true, value_name = "FILE")]
    pub verdict: Option<PathBuf>,
    /// Process 1's: the menu has the actions of process 1, and the exit status is the chosen one
    #[arg(long, hide = true)]
    pub machine: bool,
    /// Process 1's: a note that is shown until a key is pressed
    #[arg(long, hide = true, requires = "machine")]
    pub note: Option<String>,
    /// Process 1's: it can start a shell
    #[arg(long, hide = true, requires = "machine")]
    pub shell: bool,
}

/// Why parsing gave no arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoArgs {
    /// Help or version was requested; this is the text.
    Asked(String),
    /// A command is missing; this is the help that lists them.
    Unsaid(String),
    /// Wrong use, in one line.
    Wrong(String),
}

/// Parses the command line; the first word is the program.
///
/// # Errors
/// See [`NoArgs`].
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Args, NoArgs> {
    let words: Vec<_> = words.into_iter().collect();
    let parsed = layers::parse(&words).or_else(|error| {
        // In `nccl --json all_reduce` the word is the collective and no file: without it, the command lacks an argument.
        if error.kind() != ErrorKind::MissingRequiredArgument {
            return Err(error);
        }
        // `all_reduced` is then a wrong collective, which says more than a missing one.
        let says_more = |other: &clap::Error| other.kind() == ErrorKind::ValueValidation;
        layers::parse(&json_without_value(&words))
            .map_err(|other| if says_more(&other) { other } else { error })
    });
    parsed.map_err(|error| {
        // Commands that only this program starts are in no list and no tip.
        let listed = matches!(
            error.kind(),
            ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand
        );
        let error = listed
            .then(|| visible().try_get_matches_from(&words).err())
            .flatten()
            .unwrap_or(error);
        let error = habits::with_tip(&words, &layers::command(), error);
        let text = error.render().to_string();
        match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => NoArgs::Unsaid(text),
            _ if error.use_stderr() => NoArgs::Wrong(one_line(&text)),
            _ => NoArgs::Asked(text),
        }
    })
}

/// The program as `--help` shows it: without the commands that only firstlight and init start.
#[must_use]
pub fn visible() -> clap::Command {
    let all = layers::command();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    clap::Command::new("firstlight")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .args(all.get_arguments())
        .subcommands(commands)
        .subcommand_required(true)
        .disable_help_subcommand(true)
}

/// The words, in which a `--json` that is followed by a word writes to standard output.
fn json_without_value(words: &[OsString]) -> Vec<OsString> {
    let bare = |word: &OsString| {
        if word == "--json" || word == "-J" {
            "--json=-".into()
        } else {
            word.clone()
        }
    };
    words.iter().map(bare).collect()
}

/// Parses a whole number from `least` to `most`; the error for anything else names both limits.
fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |word| {
        let number = word.parse().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("allowed: a whole number of {least} to {most}"))
    }
}

/// clap's error without its usage: the error and its tips, in one line.
fn one_line(text: &str) -> String {
    let said = text
        .lines()
        .take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more"));
    let words: Vec<_> = said.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    line.strip_prefix("error: ")
        .map_or(line.clone(), str::to_owned)
}

#[cfg(test)]
mod tests;

impl Command {
    /// The places where the command writes, each with its option: they are tried before any work is done.
    #[must_use]
    pub fn outputs(&self) -> Vec<(&'static str, &Place)> {
        fn named<'a>(
            option: &'static str,
            place: &'a Option<Place>,
        ) -> Option<(&'static str, &'a Place)> {
            place.as_ref().map(|place| (option, place))
        }
        let all = match self {
            Self::Validate(Validate {
                json: to,
                text,
                html: page,
                ..
            }) => [
                named("--json", to),
                named("--text", text),
                named("--html", page),
            ],
            Self::P2p(P2p {
                json: to,
                html: page,
                ..
            })
            | Self::Compare(Compare {
                json: to,
                html: page,
                ..
            }) => [named("--json", to), named("--html", page), None],
            Self::Render(Render { output, .. }) => [Some(("--output", output)), None, None],
            Self::Record { file } => [Some(("record", file)), None, None],
            Self::Fabric { action } => match action {
                Fabric::Show { json: to }
                | Fabric::Plan { json: to, .. }
                | Fabric::Fix { json: to, .. }
                | Fabric::Restore { json: to, .. } => [named("--json", to), None, None],
            },
            Self::Setup(Setup { json: to, .. })
            | Self::Topo { json: to, .. }
            | Self::Image { json: to }
            | Self::Nodes(Nodes { json: to, .. })
            | Self::Rdma(Nodes { json: to, .. })
            | Self::List { json: to, .. }
            | Self::Baseline {
                action: Baseline::Compare { json: to, .. },
            } => [named("--json", to), None, None],
            Self::Nccl(asked) => [named("--json", &asked.json), None, None],
            _ => [None, None, None],
        };
        all.into_iter().flatten().collect()
    }
}

/// Where output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `-`, and `/dev/stdout`
    Stdout,
    /// A file, replaced atomically.
    File(PathBuf),
}

impl From<OsString> for Place {
    fn from(word: OsString) -> Self {
        let stdout = word == "-" || destination::is_stdout(Path::new(&word));
        if stdout {
            Self::Stdout
        } else {
            Self::File(word.into())
        }
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
