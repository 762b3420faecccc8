//! The commands: each reads its inputs, calls the modules that do the work, writes their results, and
//! returns an exit status.

pub use contract::status::{FAILURE, NOT_DONE, SUCCESS, USAGE_ERROR};

mod about;
pub mod args;
mod console;
mod deliver;
mod fabric;
mod fetch;
mod nccl;
mod nodes;
mod output;
mod p2p;
mod progress;
mod publish;
mod report;
mod reset;
mod screen;
mod setup;
mod terminal;
mod validate;

use crate::config::{Config, ConfigError};
use crate::engine::worker;
use crate::nccl::{nvls, ranks};
use crate::nodes::rdma as verbs;
use crate::nodes::suite::TestSelection;
use crate::process::lineage;
use crate::{render, suite};
use ::report::known_problems::KnownProblems;
use args::{Args, Command, Lineage};
use machine::recording;
use machine::root::Root;
use outcome::finding::{self, Finding, Severity};
use outcome::text::{at_width, chain, shown, shown_text};
use output::{OutputError, Reserved};
use std::io;

/// Why a command ended before its work was done; one line.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command line contradicts itself.
    #[error("{0}")]
    Usage(String),
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something could not be read or done.
    #[error("{0}")]
    Undone(String),
    /// A result could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CommandError {
    /// The exit status for this error.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) => USAGE_ERROR,
            Self::Undone(_) | Self::Output(_) => NOT_DONE,
        }
    }

    /// An error with its whole chain of sources, in one line.
    fn undone(error: &dyn std::error::Error) -> Self {
        Self::Undone(shown_text(&chain(error)))
    }
}

/// An inherited switch wins over the configuration, which is said once.
fn obey_nvls(validate: &mut crate::config::Validate) {
    validate.nvls_forbidden = nvls::forbidden();
    if let Some(by) = validate.nvls_forbidden.as_ref().filter(|_| validate.nvls) {
        log::warn!("validate.nvls = true has no effect: {by}");
        validate.nvls = false;
    }
}

/// Runs the command that the command line names.
///
/// # Errors
/// See [`CommandError`]; everything else is an exit status.
pub fn run(args: Args) -> Result<u8, CommandError> {
    terminal::begin(args.color);
    for (option, place) in args.command.outputs() {
        drop(Reserved::new(option, place.clone())?);
    }
    at_width(terminal::columns(&io::stdout()), || dispatch(args))
}

fn dispatch(args: Args) -> Result<u8, CommandError> {
    // The folder of a recorded machine, which is removed when the command ends.
    let mut laid_out = None;
    let mut setup = || -> Result<(Root, Config), CommandError> {
        let mut config = Config::load(&args.config, &args.set)?;
        obey_nvls(&mut config.validate);
        let root = args
            .root
            .clone()
            .unwrap_or_else(|| config.validate.root.clone());
        if let Err(e) = root.metadata() {
            let why = match e.kind() {
                io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
                _ => format!("cannot be read: {e}"),
            };
            let root = shown(&root.display().to_string());
            return Err(CommandError::Usage(format!("--root {root}: {why}")));
        }
        let (root, folder) = recording::open(&root).map_err(|e| CommandError::undone(&e))?;
        laid_out = folder;
        Ok((root, config))
    };
    match args.command {
        Command::Validate(asked) => {
            let (root, config) = setup()?;
            validate::run(&root, config, asked)
        }
        Command::Fabric { action } => {
            let (root, config) = setup()?;
            fabric::run(&root, &config, action)
        }
        Command::Setup(asked) => {
            let root = setup()?.0;
            setup::run(&root, laid_out.is_some(), &asked)
        }
        Command::Topo { json, .. } => {
            let (root, config) = setup()?;
            fabric::topo(&root, &config, json.as_ref())
        }
        Command::P2p(asked) => {
            let (root, config) = setup()?;
            p2p::run(&root, config, &asked)
        }
        Command::Nccl(asked) => {
            let (root, config) = setup()?;
            nccl::run(&root, &config, &asked)
        }
        Command::Nodes(asked) => {
            let (root, config) = setup()?;
            nodes::run(&root, &config, &asked, TestSelection::All)
        }
        Command::Rdma(asked) => {
            let (root, config) = setup()?;
            nodes::run(&root, &config, &asked, TestSelection::Rdma)
        }
        Command::Image { json } => about::image(&setup()?.0, json.as_ref()),
        Command::Record { file } => about::record(&setup()?.0, &file),
        Command::Reset(asked) => reset::run(&setup()?.0, &asked),
        Command::List {
            known_problems: true,
            ..
        } => {
            let known = KnownProblems::with(None, &suite::ids()).map_err(CommandError::Undone)?;
            output::write(&args::Place::Stdout, &known.markdown())?;
            Ok(SUCCESS)
        }
        Command::List { json, findings, .. } => list(json.as_ref(), findings),
        Command::Render(asked) => report::render(&asked),
        Command::Baseline { action } => report::baseline::run(action),
        Command::Compare(asked) => report::baseline::compare(&asked),
        Command::Schema => report::schema(),
        Command::Screen(asked) => screen::run(&asked),
        Command::NextStep { report, earlier } => report::next_step(&report, &earlier),
        Command::Env {
            report,
            nodes,
            vllm,
        } => report::env(&report, nodes.as_deref(), vllm.as_deref()),
        Command::Completions { shell } => about::completions(shell),
        Command::Man => about::man(),
        Command::Publish(asked) => publish::run(asked),
        Command::Collect { args } => publish::collect(&args),
        Command::Fetch(asked) => fetch::fetch(&asked),
        Command::Time(asked) => fetch::time(&asked),
        Command::Worker(above) => {
            begin(&above)?;
            worker::serve(io::stdin().lock(), io::stdout().lock())
                .map_err(|e| CommandError::undone(&e))?;
            Ok(SUCCESS)
        }
        Command::Partner(above) => {
            begin(&above)?;
            suite::serve_p2p_processes().map_err(|e| CommandError::undone(&e))?;
            Ok(SUCCESS)
        }
        Command::Reducer(above) => {
            begin(&above)?;
            suite::serve_p2p_allreduce().map_err(|e| CommandError::undone(&e))?;
            Ok(SUCCESS)
        }
        Command::Verbs(above) => {
            begin(&above)?;
            verbs::serve().map_err(|e| CommandError::undone(&e))?;
            Ok(SUCCESS)
        }
        Command::Rank(above) => {
            begin(&above)?;
            ranks::serve().map_err(|e| CommandError::undone(&e))?;
            Ok(SUCCESS)
        }
    }
}

fn begin(above: &Lineage) -> Result<(), CommandError> {
    lineage::watch_ancestors(&above.beneath).map_err(|e| CommandError::undone(&e))
}

fn list(json: Option<&crate::cli::args::Place>, findings: bool) -> Result<u8, CommandError> {
    let list = render::list::list();
    let text = if findings {
        finding::markdown()
    } else {
        render::list::text(&list)
    };
    output::write_json_or_text(json, &list, &text)?;
    Ok(SUCCESS)
}

/// `FAILURE` if a finding is at least a failure.
fn status(findings: &[Finding]) -> u8 {
    if findings.iter().any(|f| f.severity >= Severity::Fail) {
        FAILURE
    } else {
        SUCCESS
    }
}
