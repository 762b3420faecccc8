//! The state of the GPUs after a worker died in a test and can no longer be asked: another process asks NVML,
//! and does nothing else.

use super::ask::ask;
use crate::config::Config;
use crate::gpu::Look;
use crate::machine::root::Root;
use crate::suite::protocol::{Message, Request};
use std::time::Duration;

/// Longer than that process waits for NVML.
const DEADLINE: Duration = Duration::from_secs(15);

/// The state of the machine's GPUs, or why it is unknown.
pub(super) fn look(root: &Root, config: &Config) -> Look {
    let request = Request { look: true, ..Request::of(root, config) };
    let seen = ask(config, &request, DEADLINE, |message| match message {
        Message::Look(Some(look)) => Some(look.gpus),
        _ => None,
    });
    Look { quiet: false, gpus: seen.unwrap_or_else(Err) }
}
