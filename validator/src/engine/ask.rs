//! A worker that answers one question and runs no test: NVML is loaded there, so that a hang or crash of NVML
//! affects nothing else.

use super::command::command;
use super::interrupt::Interrupts;
use super::supervise::supervise;
use crate::config::Config;
use crate::suite::protocol::{Message, Request};
use std::time::Duration;

/// The last message of a worker for which `answer` has a value.
///
/// # Errors
/// If it cannot be started, or ended without an answer, or gave none `within` that time.
pub(super) fn ask<T>(
    config: &Config,
    request: &Request,
    within: Duration,
    answer: impl Fn(Message) -> Option<T>,
) -> Result<T, String> {
    let request = serde_json::to_vec(request).map_err(|e| e.to_string())?;
    let command = command(config).map_err(|e| e.to_string())?;
    let mut said = None;
    let (ending, _) = supervise(command, &request, within, &Interrupts::default(), |message, _| {
        said = answer(message).or_else(|| said.take());
        within
    });
    said.ok_or_else(|| ending.to_string())
}
