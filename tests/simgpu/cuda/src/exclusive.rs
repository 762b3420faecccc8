//! Who may make a context on a GPU: all processes, one at a time, or none. A lock on a file beside this
//! library tells one process of the others; it goes with the process.

use simgpu_model::scenario::ComputeMode;
use simgpu_model::{Result, Scenario, Status, beside};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError};

/// The locks that this process holds, by GPU.
static HELD: Mutex<BTreeMap<usize, File>> = Mutex::new(BTreeMap::new());

/// A context is to be made on a GPU.
pub(crate) fn enter(scenario: &Scenario, gpu: usize) -> Result<()> {
    match scenario.machine.compute_mode {
        ComputeMode::Default => Ok(()),
        ComputeMode::Prohibited => Err(Status::DEVICE_UNAVAILABLE),
        ComputeMode::ExclusiveProcess if scenario.machine.in_use.iter().any(|u| u.gpu == gpu && !u.draws) => {
            Err(Status::DEVICE_UNAVAILABLE)
        }
        ComputeMode::ExclusiveProcess => alone(gpu).ok_or(Status::DEVICE_UNAVAILABLE),
    }
}

fn alone(gpu: usize) -> Option<()> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.contains_key(&gpu) {
        return Some(());
    }
    let path = beside::folder()?.join(format!("exclusive.{gpu}"));
    let file = File::options().write(true).create(true).truncate(false).open(path).ok()?;
    file.try_lock().ok()?;
    held.insert(gpu, file);
    Some(())
}
