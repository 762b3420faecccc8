//! NVLinks for commands that run no test: only NVML knows them, and NVML is loaded by a worker, so that
//! one that hangs or crashes takes no command with it.

use super::command::command;
use super::interrupt::Interrupts;
use super::supervise::supervise;
use crate::config::Config;
use crate::pcie::model::Bdf;
use crate::pcie::topo::NvLinks;
use crate::protocol::{Message, Request};
use crate::root::Root;
use std::collections::BTreeMap;
use std::time::Duration;

/// NVML starts within a second or two, also with 16 GPUs.
const DEADLINE: Duration = Duration::from_secs(20);

/// How many NVLinks join each pair of `gpus`.
///
/// # Errors
/// Why that is not known, in one line.
pub fn nvlinks(root: &Root, config: &Config, gpus: &[Bdf]) -> Result<NvLinks, String> {
    let request = Request {
        root: root.path().to_owned(),
        config: config.clone(),
        tests: Vec::new(),
        ended: BTreeMap::new(),
        matrices: BTreeMap::new(),
        nvlinks_of: gpus.to_owned(),
        look: false,
    };
    let request = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let command = command(config).map_err(|e| e.to_string())?;
    let mut answer = None;
    let (ending, _) = supervise(command, &request, DEADLINE, &Interrupts::default(), |message, _| {
        if let Message::NvLinks(said) = message {
            answer = Some(said);
        }
        DEADLINE
    });
    let pairs = answer.unwrap_or_else(|| Err(ending.to_string()))?;
    Ok(pairs.into_iter().map(|(a, b, count)| ((a, b), count)).collect())
}
