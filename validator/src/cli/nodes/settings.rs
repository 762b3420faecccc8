//! What is needed for a meeting: size, token and place, from the configuration, the command line or a launcher.

use crate::cli::CommandError;
use crate::cli::args::Meet;
use crate::config::Config;
use crate::net::meeting::Token;
use crate::nodes::launcher::{self, LaunchedProcess};
use outcome::files;
use std::time::Duration;

/// The largest token file, bytes.
const TOKEN: u64 = 1024;

/// This process's place in a launcher's job; `None` without a launcher.
pub(in crate::cli) fn launched_process() -> Result<Option<LaunchedProcess>, CommandError> {
    let get = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    launcher::detect(&get).map_err(CommandError::Usage)
}

/// The settings of the meeting.
#[derive(Debug)]
pub(super) struct MeetingSettings {
    pub(super) size: usize,
    pub(super) token: Token,
    pub(super) rendezvous: String,
    pub(super) timeout: Duration,
    /// Whether this node must lead, if that is known.
    pub(super) leads: Option<bool>,
}

/// From the configuration, the options and the launcher.
pub(super) fn meeting_settings(
    config: &Config,
    asked: &Meet,
) -> Result<MeetingSettings, CommandError> {
    let place = launched_process()?;
    let missing = |key: &str, option: &str| {
        CommandError::Usage(format!("{key} is missing: set it, or give {option}"))
    };
    let configured = config
        .nodes
        .size
        .and_then(|size| usize::try_from(size).ok());
    let size = asked.size.map(usize::from).or(configured);
    let size = match (size, &place) {
        (Some(size), Some(place)) if size != place.size => {
            let by = place.by.name();
            return Err(CommandError::Usage(format!(
                "size {size}: {by} has started {} processes",
                place.size
            )));
        }
        (Some(size), _) => size,
        (None, Some(place)) => place.size,
        (None, None) => return Err(missing("nodes.size", "--size")),
    };
    let from_file = asked.token_file.as_ref().map(|path| {
        let named =
            |why: String| CommandError::Usage(format!("--token-file {}: {why}", path.display()));
        let bytes = files::secret(path, TOKEN).map_err(named)?;
        Token::new(&String::from_utf8_lossy(&bytes)).map_err(named)
    });
    // The launcher's own name of the run distinguishes two runs; it is not a secret.
    let of_job = || {
        place
            .as_ref()?
            .job
            .as_ref()
            .and_then(|job| Token::new(&format!("a run of {job}, no secret")).ok())
    };
    let token = from_file
        .transpose()?
        .or_else(|| config.nodes.token.clone())
        .or_else(of_job);
    let of_place = || place.as_ref().and_then(|place| place.host.clone());
    let rendezvous = asked
        .rendezvous
        .clone()
        .or_else(|| config.nodes.rendezvous.clone())
        .or_else(of_place);
    Ok(MeetingSettings {
        size,
        token: token.ok_or_else(|| missing("nodes.token", "--token-file"))?,
        rendezvous: rendezvous.ok_or_else(|| missing("nodes.rendezvous", "--rendezvous"))?,
        timeout: Duration::from_secs(
            asked
                .meeting_timeout
                .map_or(config.nodes.timeout_s, u64::from),
        ),
        leads: place.map(|place| place.rank == 0),
    })
}
