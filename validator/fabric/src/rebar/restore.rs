//! Restores the sizes that BAR1s had before the pass: newest first, and only if a BAR still has the size that
//! the pass set. A smaller BAR always fits where the larger one was. The kernel's view is not sufficient: a
//! pass that died may have left a size in the hardware that the kernel does not know.

use super::resize::Resize;
use super::single::SingleResize;
use super::state::FunctionState;
use super::{AccessError, Kernel, Machine};
use crate::journal::Grown;
use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::text::size;
use serde::Serialize;
use std::fmt;

/// What happened to one BAR1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum BarOutcome {
    /// It has its old size again.
    Restored,
    /// It had its old size already.
    Already,
    /// It was not changed.
    Left {
        /// The reason.
        why: String,
    },
}

/// One BAR1 and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BarStep {
    /// The GPU.
    pub bdf: Bdf,
    /// Its size before the pass.
    pub before_bytes: u64,
    /// Its size after the pass; `null` if the pass died partway.
    pub after_bytes: Option<u64>,
    /// What happened to it.
    pub outcome: BarOutcome,
}

impl BarStep {
    /// True if it has the size that it had before the pass.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(self.outcome, BarOutcome::Left { .. })
    }
}

impl fmt::Display for BarStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = size(self.before_bytes);
        write!(f, "{} BAR1 ", self.bdf)?;
        match &self.outcome {
            BarOutcome::Restored if self.after_bytes == Some(self.before_bytes) => {
                write!(
                    f,
                    "has its size of {before} already; its registers were restored"
                )
            }
            BarOutcome::Restored => {
                let after = self
                    .after_bytes
                    .map_or_else(|| "the size that an unfinished pass left".to_owned(), size);
                write!(f, "{after} -> {before}")
            }
            BarOutcome::Already => write!(f, "is {before} already"),
            BarOutcome::Left { why } => write!(f, "not changed: {why}"),
        }
    }
}

/// Restores each BAR of a journal's entries to its old size.
#[must_use]
pub fn restore(root: &Root, kernel: &dyn Kernel, entries: &[Grown]) -> Vec<BarStep> {
    let machine = Machine { root, kernel };
    entries
        .iter()
        .rev()
        .map(|entry| step(machine, entry))
        .collect()
}

fn step(machine: Machine<'_>, entry: &Grown) -> BarStep {
    let left = |why: String| BarOutcome::Left { why };
    let outcome = restore_bar(machine, entry).unwrap_or_else(|e| left(e.to_string()));
    let Grown {
        bdf,
        before_bytes,
        after_bytes,
        ..
    } = *entry;
    BarStep {
        bdf,
        before_bytes,
        after_bytes,
        outcome,
    }
}

fn restore_bar(machine: Machine<'_>, entry: &Grown) -> Result<BarOutcome, AccessError> {
    let left = |why: String| Ok(BarOutcome::Left { why });
    let now = machine.state(entry.bdf, entry.bar).or_else(|e| {
        // A pass that died between removing and rescanning leaves this state.
        let Some(port) = entry.port.filter(|_| entry.after_bytes.is_none()) else {
            return Err(e);
        };
        let _ = machine.kernel.rescan(port);
        machine.state(entry.bdf, entry.bar)
    })?;
    let Some(present) = now.bar(entry.bar).map(|b| b.bar.bytes) else {
        return left("it has no BAR1".into());
    };
    if present == entry.before_bytes {
        let sound = !entry.assigned || now.has_size(entry.bar, present);
        return if sound {
            Ok(BarOutcome::Already)
        } else {
            restore_registers(machine, entry, &now)
        };
    }
    if let Some(after) = entry.after_bytes.filter(|after| *after != present) {
        return left(format!(
            "is {}, the pass had made it {}",
            size(present),
            size(after)
        ));
    }
    if !entry.assigned {
        return left(format!("had no address at {}", size(entry.before_bytes)));
    }
    if let Some(driver) = &now.driver {
        return left(format!("the driver {driver} is bound"));
    }
    let gpu = Resize {
        bdf: entry.bdf,
        bar: entry.bar,
        before_bytes: present,
        assigned: true,
        wanted_bytes: entry.before_bytes,
        supported_bytes: Vec::new(),
        port: entry.port,
    };
    match machine.resize_single(&gpu, entry.before_bytes) {
        SingleResize::Done => Ok(BarOutcome::Restored),
        SingleResize::NoSpace => left("there is no room for it".to_owned()),
        SingleResize::NoRoom(why) | SingleResize::Never(_, why) | SingleResize::Broken(why) => {
            left(why)
        }
    }
}

/// The kernel has the old size but the registers differ: they are corrected, if it was the pass that changed
/// them.
fn restore_registers(
    machine: Machine<'_>,
    entry: &Grown,
    now: &FunctionState,
) -> Result<BarOutcome, AccessError> {
    let left = |why: String| Ok(BarOutcome::Left { why });
    let (bar, before) = (entry.bar, entry.before_bytes);
    let asked = |bytes: u64| bytes == before || entry.tries.iter().any(|t| t.bytes == bytes);
    if !now.hardware_bytes().is_some_and(asked) {
        return left(format!(
            "the pass did not request this size: {}",
            now.describe(bar)
        ));
    }
    if let Some(driver) = &now.driver {
        return left(format!(
            "the driver {driver} is bound: {}",
            now.describe(bar)
        ));
    }
    if now.hardware_bytes() != Some(before) {
        machine.decode_off(now)?;
        machine.set_size(now, before)?;
    }
    machine.correct_registers(&machine.state(entry.bdf, bar)?)?;
    let done = machine.state(entry.bdf, bar)?;
    if !done.has_size(bar, before) {
        return left(done.describe(bar));
    }
    machine.restore_command(now)?;
    Ok(BarOutcome::Restored)
}
