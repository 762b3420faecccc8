//! The stage `lock down`: disables loading of modules before the hand-over, if configured.

use crate::config::types::{Action, Workload, WorkloadMode};
use std::fmt;
use std::fs;

const FILE: &str = "/proc/sys/kernel/modules_disabled";

/// The result of disabling the loading of modules.
#[derive(Debug, PartialEq, Eq)]
pub enum LockResult {
    /// No module can be loaded until the next boot.
    Yes,
    /// The machine is not handed over.
    NoWorkload,
    /// `workload.lock_modules = false`
    NotWanted,
    /// The kernel refused.
    Refused(String),
}

impl fmt::Display for LockResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("no more modules can be loaded"),
            Self::NoWorkload => f.write_str("nothing: no workload follows"),
            Self::NotWanted => f.write_str("workload.lock_modules = false: modules may be loaded"),
            Self::Refused(why) => write!(f, "warning: modules are not locked: {why}"),
        }
    }
}

/// Disables loading of modules if configured.
#[must_use]
pub fn lock(action: Action, workload: &Workload) -> LockResult {
    let handed_over = matches!(action, Action::Workload | Action::WorkloadWithoutP2p);
    if !handed_over || workload.handover == WorkloadMode::None {
        return LockResult::NoWorkload;
    }
    if !workload.lock_modules {
        return LockResult::NotWanted;
    }
    match fs::write(FILE, "1") {
        Ok(()) => LockResult::Yes,
        // A kernel without modules has no such file.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => LockResult::Yes,
        Err(e) => LockResult::Refused(format!("{FILE}: {e}")),
    }
}
