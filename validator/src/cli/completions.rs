//! `firstlight completions`: prints the script that completes the command line in a shell.

use super::args::{Place, shown};
use super::output::write;
use super::{CommandError, FINE};
use clap_complete::{Shell, generate};

/// Prints the script for `shell`.
pub(super) fn run(shell: Shell) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    generate(shell, &mut shown(), "firstlight", &mut script);
    write(&Place::Stdout, &String::from_utf8_lossy(&script))?;
    Ok(FINE)
}
