//! NVLinks for commands that run no test: only NVML knows them.

use super::ask::ask;
use crate::config::Config;
use crate::machine::pcie::model::Bdf;
use crate::machine::pcie::topo::NvLinks;
use crate::machine::root::Root;
use crate::suite::protocol::{Message, Request};
use std::time::Duration;

/// NVML starts within one or two seconds, even with 16 GPUs.
const DEADLINE: Duration = Duration::from_secs(20);

/// How many NVLinks connect each pair of `gpus`.
///
/// # Errors
/// Why it is unknown, in one line.
pub fn nvlinks(root: &Root, config: &Config, gpus: &[Bdf]) -> Result<NvLinks, String> {
    let request = Request { nvlinks_of: gpus.to_owned(), ..Request::of(root, config) };
    let pairs = ask(config, &request, DEADLINE, |message| match message {
        Message::NvLinks(said) => Some(said),
        _ => None,
    })??;
    Ok(pairs.into_iter().map(|(a, b, count)| ((a, b), count)).collect())
}
