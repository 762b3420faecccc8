//! `time`: asks NTP servers, and says whose answer is believed and by how much the clock must be moved.

use super::output::write;
use super::{CommandError, FINE};
use crate::cli::args::{Place, Time};
use crate::net::sntp;
use std::time::Duration;

/// Asks.
pub(super) fn run(asked: &Time) -> Result<u8, CommandError> {
    let within = Duration::from_secs(asked.timeout);
    let (server, by) = sntp::ask(&asked.servers, within).map_err(CommandError::Undone)?;
    write(&Place::Stdout, &format!("{server} {by}\n"))?;
    Ok(FINE)
}
