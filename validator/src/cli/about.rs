//! `firstlight completions` and `firstlight man`: what shells and readers need to know of the command line.

use super::args::{Args, Place};
use super::output::write;
use super::{CommandError, FINE};
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use std::io;

/// Prints the script for `shell`.
pub(super) fn completions(shell: Shell) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    generate(shell, &mut shown(), "firstlight", &mut script);
    write(&Place::Stdout, &String::from_utf8_lossy(&script))?;
    Ok(FINE)
}

/// Prints the pages.
pub(super) fn man() -> Result<u8, CommandError> {
    let mut command = shown();
    // Gives each command its whole name.
    command.build();
    let mut pages = Vec::new();
    add(&mut pages, &command).map_err(|e| CommandError::undone(&e))?;
    write(&Place::Stdout, &String::from_utf8_lossy(&pages))?;
    Ok(FINE)
}

/// Adds the page of `command` and of each command below it.
fn add(pages: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    Man::new(command.clone()).render(pages)?;
    command.get_subcommands().try_for_each(|below| add(pages, below))
}

/// The program as `--help` shows it: without the commands that only firstlight and init start.
fn shown() -> Command {
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
