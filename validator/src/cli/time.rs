//! `time`: queries NTP servers, and prints the accepted server and the clock offset.

use super::output::write;
use super::{CommandError, FINE};
use crate::cli::args::{Place, Time};
use crate::net::sntp;
use std::time::Duration;

/// Queries the servers.
pub(super) fn run(asked: &Time) -> Result<u8, CommandError> {
    let within = Duration::from_secs(asked.timeout);
    let (server, by) = sntp::ask(&asked.servers, within).map_err(CommandError::Undone)?;
    write(&Place::Stdout, &format!("{server} {by}\n"))?;
    Ok(FINE)
}
