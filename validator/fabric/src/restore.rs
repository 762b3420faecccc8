//! Restores what the fabric pass changed. Newest write first, and only if the register still has the value
//! that the pass left: later changes by other programs are kept.

use super::journal::{Entry, Journal, JournalError};
use super::rebar::{self, BarStep, DecodeStep, Sysfs};
use super::register;
use machine::pcie::model::Bdf;
use machine::root::Root;
use outcome::finding::Code;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// What happened to one entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was restored to its value from before the pass.
    Restored {
        /// Its value until then.
        held: u16,
    },
    /// It already had its value from before the pass.
    Already,
    /// It has neither its value from before the pass nor the written one.
    Changed {
        /// Its value.
        present: u16,
    },
    /// It has another value, and the pass's write had been refused, so the pass did not set it.
    Refused {
        /// Its value.
        present: u16,
    },
    /// It ignores the restored value.
    Stuck {
        /// Its value.
        present: u16,
    },
    /// It could not be accessed.
    Unreachable {
        /// The reason.
        why: String,
    },
}

/// One register and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The function.
    pub bdf: Bdf,
    /// The register.
    pub register: String,
    /// Its value before the pass.
    pub before: u16,
    /// The value that the pass wrote.
    pub after: u16,
    /// What happened to it.
    pub outcome: Outcome,
}

impl Step {
    /// True if the register has its value from before the pass.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.outcome, Outcome::Restored { .. } | Outcome::Already)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bdf,
            register,
            before,
            after,
            outcome,
        } = self;
        write!(f, "{bdf} {register} ")?;
        match outcome {
            Outcome::Restored { held } => write!(f, "{held:#06x} -> {before:#06x}"),
            Outcome::Already => write!(f, "holds {before:#06x} already"),
            Outcome::Changed { present } => {
                write!(
                    f,
                    "not changed: has {present:#06x}, firstlight had written {after:#06x}"
                )
            }
            Outcome::Refused { present } => {
                write!(
                    f,
                    "not changed: has {present:#06x}, firstlight's write of {after:#06x} had been refused"
                )
            }
            Outcome::Stuck { present } => {
                write!(
                    f,
                    "ignored the restore: has {present:#06x}, expected {before:#06x}"
                )
            }
            Outcome::Unreachable { why } => write!(f, "not changed: {why}"),
        }
    }
}

/// Every entry of a journal, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// What happened to each register.
    pub steps: Vec<Step>,
    /// What happened to each BAR1.
    pub bars: Vec<BarStep>,
    /// Every function whose memory decode was not as it was before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<DecodeStep>,
}

impl Restored {
    /// True if everything is as it was before the pass.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.steps.iter().all(Step::is_done)
            && self.bars.iter().all(BarStep::is_done)
            && self.decode.iter().all(DecodeStep::is_done)
    }
}

/// Why nothing could be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is no journal.
    #[error("no journal {}: it is unknown what was changed", .0.display())]
    Missing(PathBuf),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Restores what `journal` recorded.
///
/// # Errors
/// If there is no usable journal. The result has the outcome of each register.
pub fn restore(root: &Root, journal: &Path) -> Result<Restored, RestoreError> {
    let missing = || RestoreError::Missing(journal.to_owned());
    let kept = Journal::load(journal, root.path())?.ok_or_else(missing)?;
    let steps = kept
        .entries
        .iter()
        .rev()
        .map(|entry| step(root, entry))
        .collect();
    // BAR1s were enlarged before ACS was cleared, so they are restored last; decode needs their addresses.
    let bars = rebar::restore(root, &Sysfs(root), &kept.bars);
    let decode = rebar::restore_decode(root, &Sysfs(root), &kept.decode, &kept.bars);
    Ok(Restored {
        steps,
        bars,
        decode,
    })
}

fn step(root: &Root, entry: &Entry) -> Step {
    let outcome = restore_register(root, entry)
        .unwrap_or_else(|e| Outcome::Unreachable { why: e.to_string() });
    let Entry {
        bdf,
        register,
        before,
        after,
        ..
    } = entry.clone();
    Step {
        bdf,
        register,
        before,
        after,
        outcome,
    }
}

fn restore_register(root: &Root, entry: &Entry) -> Result<Outcome, register::RegisterError> {
    let Entry {
        bdf,
        offset,
        before,
        ..
    } = *entry;
    let held = register::read(root, bdf, offset)?;
    if held == before {
        return Ok(Outcome::Already);
    }
    if entry.finding.as_deref() == Some(Code::AcsRefused.as_str()) {
        return Ok(Outcome::Refused { present: held });
    }
    // A port may accept a write in part: then it has the value that the pass read back.
    if held != entry.after && Some(held) != entry.readback {
        return Ok(Outcome::Changed { present: held });
    }
    register::write(root, bdf, offset, before)?;
    let present = register::read(root, bdf, offset)?;
    Ok(if present == before {
        Outcome::Restored { held }
    } else {
        Outcome::Stuck { present }
    })
}
