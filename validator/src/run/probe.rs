//! How the GPUs stand after a worker died in a test and can no longer be asked: another process asks NVML, and
//! does nothing else.

use super::command::command;
use super::interrupt::Interrupts;
use super::supervise::supervise;
use crate::config::Config;
use crate::gpu::Look;
use crate::protocol::{Message, Request};
use crate::root::Root;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longer than that process waits for NVML.
const DEADLINE: Duration = Duration::from_secs(15);

/// How the machine's GPUs stand, or why that is not known.
pub(super) fn look(root: &Root, config: &Config) -> Look {
    Look { quiet: false, gpus: ask(root, config).unwrap_or_else(Err) }
}

fn ask(root: &Root, config: &Config) -> Result<Result<Vec<crate::gpu::Standing>, String>, String> {
    let request = Request {
        root: root.path().to_owned(),
        config: config.clone(),
        tests: Vec::new(),
        ended: BTreeMap::new(),
        matrices: BTreeMap::new(),
        nvlinks_of: Vec::new(),
        look: true,
    };
    let request = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
    let command = command(config).map_err(|e| e.to_string())?;
    let mut answer = None;
    let (ending, _) = supervise(command, &request, DEADLINE, &Interrupts::default(), |message, _| {
        if let Message::Look(Some(look)) = message {
            answer = Some(look.gpus);
        }
        DEADLINE
    });
    answer.ok_or_else(|| ending.to_string())
}
