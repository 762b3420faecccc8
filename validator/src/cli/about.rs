//! Commands about the machine that they run on, and about the program: `firstlight image` shows which image runs and
//! whether it is unmodified; `firstlight record` writes the machine as one text file, for a bug report; `firstlight
//! completions` and `firstlight man` print shell completions and the manual pages.

use super::args::{Args, Place};
use super::output::{write, write_json_or_text};
use super::{CommandError, FAILURE, NOT_DONE, SUCCESS};
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use machine::host::cmdline;
use machine::image::{Document, examine};
use machine::recording;
use machine::root::Root;
use outcome::text::shown;
use std::io;

/// Prints the completion script for `shell`.
pub(super) fn completions(shell: Shell) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    generate(shell, &mut visible(), "firstlight", &mut script);
    write(&Place::Stdout, &String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}

/// Prints the manual pages.
pub(super) fn man() -> Result<u8, CommandError> {
    let mut command = visible();
    // Gives each command its whole name.
    command.build();
    let mut pages = Vec::new();
    add(&mut pages, &command).map_err(|e| CommandError::undone(&e))?;
    write(&Place::Stdout, &String::from_utf8_lossy(&pages))?;
    Ok(SUCCESS)
}

/// Adds the page of `command` and of each command below it.
fn add(pages: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    Man::new(command.clone()).render(pages)?;
    command.get_subcommands().try_for_each(|below| add(pages, below))
}

/// The program as `--help` shows it: without the commands that only firstlight and init start.
fn visible() -> Command {
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

/// Status 0 for golden, 1 for not golden, 2 if unknown.
pub(super) fn image(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
    let cmdline = cmdline::read(root).ok();
    let seen = examine(root);
    let document = Document::of(root, cmdline.as_deref(), &seen);
    write_json_or_text(json, &document, &document.text())?;
    Ok(match &seen {
        Ok(Some(image)) if image.is_golden() => SUCCESS,
        Ok(Some(_)) => FAILURE,
        Ok(None) | Err(_) => NOT_DONE,
    })
}

/// `record FILE`
pub(super) fn record(root: &Root, place: &Place) -> Result<u8, CommandError> {
    if root.is_live() && !rustix::process::geteuid().is_root() {
        let why = "record: run it as root; other users see 64 bytes of configuration space";
        return Err(CommandError::Usage(why.to_owned()));
    }
    let result = recording::record(root);
    result.left_out.iter().for_each(|line| log::warn!("left out: {}", shown(line)));
    write(place, &result.recording.to_string())?;
    log::info!("{place}: holds PCI and RDMA addresses, GPU UUIDs and kernel log lines; read it before you share it");
    Ok(SUCCESS)
}
