//! A worker that answers one question and runs no test: NVML is loaded there, so that a hang or crash of NVML
//! affects nothing else.

use super::interrupt::Interrupts;
use super::supervise::{Ending, supervise};
use super::worker::command;
use crate::config::Config;
use crate::suite::NVML_HANGS;
use crate::suite::protocol::{Message, Request};
use gpu::GpuSnapshot;
use machine::pcie::model::Bdf;
use machine::pcie::topo::NvLinks;
use machine::root::Root;
use std::time::Duration;

/// The time limit for a snapshot: longer than the worker itself waits for NVML.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(15);
/// NVML starts within one or two seconds, even with 16 GPUs.
const NVLINKS_TIMEOUT: Duration = Duration::from_secs(20);

/// The state of the machine's GPUs, or why it is unknown; used when the worker of a test has died.
pub(super) fn gpu_snapshot(root: &Root, config: &Config) -> GpuSnapshot {
    let request = Request {
        look: true,
        ..Request::of(root, config)
    };
    let seen = query_worker(
        config,
        &request,
        SNAPSHOT_TIMEOUT,
        |message| match message {
            Message::Look(Some(look)) => Some(look.gpus),
            _ => None,
        },
    );
    GpuSnapshot {
        quiet: false,
        gpus: seen.unwrap_or_else(Err),
    }
}

/// The error if NVML hangs. For commands in which NCCL calls NVML: those calls would hang as well.
#[must_use]
pub fn nvml_hangs(root: &Root, config: &Config) -> Option<String> {
    gpu_snapshot(root, config)
        .gpus
        .err()
        .filter(|why| why.starts_with(NVML_HANGS))
}

/// How many NVLinks connect each pair of `gpus`, for commands that run no test: only NVML knows them.
///
/// # Errors
/// Why it is unknown, in one line.
pub fn nvlinks(root: &Root, config: &Config, gpus: &[Bdf]) -> Result<NvLinks, String> {
    let request = Request {
        nvlinks_of: gpus.to_owned(),
        ..Request::of(root, config)
    };
    let pairs = query_worker(config, &request, NVLINKS_TIMEOUT, |message| match message {
        Message::NvLinks(said) => Some(said),
        _ => None,
    })??;
    Ok(pairs
        .into_iter()
        .map(|(a, b, count)| ((a, b), count))
        .collect())
}

/// Sends the request to a worker; returns the value of its last message for which `answer` has one.
///
/// # Errors
/// The worker cannot be started, ended without an answer, or did not answer in time.
fn query_worker<T>(
    config: &Config,
    request: &Request,
    within: Duration,
    answer: impl Fn(Message) -> Option<T>,
) -> Result<T, String> {
    let request = serde_json::to_vec(request).map_err(|e| e.to_string())?;
    let command = command(config).map_err(|e| e.to_string())?;
    let mut said = None;
    let (ending, _) = supervise(
        command,
        &request,
        within,
        &Interrupts::default(),
        |message, _| {
            said = answer(message).or_else(|| said.take());
            within
        },
    );
    said.ok_or_else(|| match ending {
        Ending::Silent(limit) => {
            format!(
                "{NVML_HANGS} within {:.1} s; the process that asked it was killed",
                limit.as_secs_f64()
            )
        }
        ending => ending.to_string(),
    })
}
