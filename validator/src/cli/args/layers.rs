//! `--root`, `--config` and `--set` on both sides of the command. An option of clap that is global keeps one side only,
//! and loses the other without a word: here each command has them under ids of their own, and both sides are joined.

use super::Args;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, CommandFactory, Error, FromArgMatches};
use std::ffi::OsString;
use std::path::PathBuf;

/// The options by their names on the left side, and their ids on the right.
const ROOT: (&str, &str) = ("root", "root-here");
const CONFIG: (&str, &str) = ("config", "config-here");
const SET: (&str, &str) = ("set", "set-here");
/// It passes all its words on.
const PASSES_ON: &str = "collect";

/// The whole command line.
pub(in crate::cli) fn command() -> Command {
    let all = Args::command();
    let own: Vec<_> = [ROOT, CONFIG, SET]
        .into_iter()
        .filter_map(|names| right(&all, names))
        .collect();
    with(all, &own)
}

/// The option for the right side of a command.
fn right(all: &Command, (name, id): (&'static str, &'static str)) -> Option<Arg> {
    let left = all.get_arguments().find(|arg| arg.get_id() == name)?;
    // A heading of their own keeps them behind the command's own options.
    Some(left.clone().id(id).help_heading("Machine and settings"))
}

fn with(command: Command, own: &[Arg]) -> Command {
    command.mut_subcommands(|below| {
        let internal = below.is_hide_set() || below.get_name() == PASSES_ON;
        let below = if internal { below } else { below.args(own) };
        with(below, own)
    })
}

/// Parses the words; the first one is the program.
///
/// # Errors
/// clap's error.
pub(super) fn parse(words: &[OsString]) -> Result<Args, Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    let mut args = Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let mut next = matches.subcommand();
    while let Some((_, here)) = next {
        args.config.extend(all::<PathBuf>(here, CONFIG.1));
        args.set.extend(all::<String>(here, SET.1));
        for root in all::<PathBuf>(here, ROOT.1) {
            if args.root.replace(root).is_some() {
                let why = "the argument '--root <FILE|DIR>' cannot be used multiple times";
                return Err(command.error(ErrorKind::ArgumentConflict, why));
            }
        }
        next = here.subcommand();
    }
    Ok(args)
}

/// All values of an option, which a command may not have.
fn all<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Vec<T> {
    let values = matches.try_get_many::<T>(id).ok().flatten();
    values
        .map(|values| values.cloned().collect())
        .unwrap_or_default()
}
