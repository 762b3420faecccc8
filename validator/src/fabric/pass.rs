//! The fabric pass: BAR1s first, then ACS, because enlarging a BAR1 may remove ports and rescan them, and the
//! kernel then sets their ACS to its default.

use super::acs::AcsPolicy;
use super::apply::{self, Applied};
use super::journal::JournalError;
use super::plan::{self, Plan};
use super::read::ReadError;
use super::rebar::{self, RebarChoice, Sysfs};
use crate::machine::host::screen;
use crate::machine::pcie::model::Fabric;
use crate::machine::root::Root;
use std::io;
use std::path::Path;

/// What the pass may change.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// On which ports ACS is disabled.
    pub acs: AcsPolicy,
    /// Whether BAR1s are enlarged.
    pub rebar: RebarChoice,
}

/// Why there is no plan, or why the pass stopped.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The fabric could not be read.
    #[error(transparent)]
    Fabric(#[from] ReadError),
    /// The framebuffers could not be read.
    #[error(transparent)]
    Screens(#[from] io::Error),
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What the pass would do.
#[derive(Debug)]
pub struct Planned {
    /// The fabric as it is.
    pub fabric: Fabric,
    /// The BAR1s that would be enlarged.
    pub bars: rebar::plan::Plan,
    /// The ACS registers that would be written; with the findings of both parts.
    pub acs: Plan,
}

/// What the pass did.
#[derive(Debug)]
pub struct Done {
    /// The fabric after the BAR1s were enlarged.
    pub fabric: Fabric,
    /// What was done to BAR1s.
    pub bars: rebar::Fixed,
    /// The plan: the ACS registers to write.
    pub plan: Plan,
    /// What was written; with the findings of both parts.
    pub applied: Applied,
}

/// Plans the pass on the machine at `root`; writes nothing.
///
/// # Errors
/// When the machine cannot be read.
pub fn planned(root: &Root, asked: Asked) -> Result<Planned, PassError> {
    let fabric = Fabric::read(root)?;
    let bars = rebar::plan::plan(&fabric, asked.rebar, &screen::read(root)?);
    let mut acs = plan::plan(&fabric, asked.acs);
    acs.findings.splice(0..0, bars.findings.iter().cloned());
    Ok(Planned { fabric, bars, acs })
}

/// Runs the pass on the machine at `root`, with its journal at `journal`.
///
/// # Errors
/// When the machine cannot be read, or the journal cannot be read or written.
pub fn run(root: &Root, asked: Asked, journal: &Path) -> Result<Done, PassError> {
    let mut fabric = Fabric::read(root)?;
    let bars = rebar::plan::plan(&fabric, asked.rebar, &screen::read(root)?);
    let bars = rebar::fix(root, &Sysfs(root), &bars, journal)?;
    if bars.touched() {
        fabric = Fabric::read(root)?;
    }
    let plan = plan::plan(&fabric, asked.acs);
    let mut applied = apply::fix(root, &plan, journal)?;
    applied.findings.splice(0..0, bars.findings.iter().cloned());
    Ok(Done { fabric, bars, plan, applied })
}
