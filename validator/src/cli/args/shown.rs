//! The command line without the commands that only firstlight and init start, for completion and the manual page.

use super::Args;
use clap::{Command, CommandFactory};

/// The program with the options and commands that `--help` shows.
pub(in crate::cli) fn shown() -> Command {
    let all = Args::command();
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("firstlight")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .args(all.get_arguments())
        .subcommands(commands)
        .subcommand_required(true)
        .disable_help_subcommand(true)
}
