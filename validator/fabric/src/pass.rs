//! The fabric pass: BAR1s first, then ACS, because enlarging a BAR1 may remove ports and rescan them, and the
//! kernel then sets their ACS to its default.

use super::acs::AcsPolicy;
use super::apply::{self, Applied};
use super::journal::JournalError;
use super::plan::{self, Plan};
use super::read::ReadError;
use super::rebar::{self, RebarChoice, Sysfs};
use machine::host::framebuffer;
use machine::host::platform;
use machine::pcie::model::{Bdf, Fabric};
use machine::root::Root;
use std::io;
use std::path::Path;

/// What the pass may change.
#[derive(Debug, Clone, Copy)]
pub struct PassOptions {
    /// On which ports ACS is disabled.
    pub acs: AcsPolicy,
    /// Whether BAR1s are enlarged.
    pub rebar: RebarChoice,
}

/// The groups of GPUs that the configuration demands as peers (`expect.peers`), by the fabric that was read.
pub type DemandedPeers<'a> = &'a dyn Fn(&Fabric) -> Vec<Vec<Bdf>>;

/// Why the pass could not be planned, or why it stopped.
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

/// The plan of the whole pass.
#[derive(Debug)]
pub struct PassPlan {
    /// The fabric as it is.
    pub fabric: Fabric,
    /// The BAR1s that would be enlarged.
    pub bars: rebar::plan::Plan,
    /// The ACS registers that would be written; with the findings of both parts.
    pub acs: Plan,
}

/// The result of the whole pass.
#[derive(Debug)]
pub struct PassResult {
    /// The fabric after the BAR1s were enlarged.
    pub fabric: Fabric,
    /// What was done to BAR1s.
    pub bars: rebar::ResizeReport,
    /// The plan: the ACS registers to write.
    pub plan: Plan,
    /// What was written; with the findings of both parts.
    pub applied: Applied,
}

fn read(root: &Root, demanded: DemandedPeers) -> Result<Fabric, ReadError> {
    let mut fabric = crate::read::read(root)?;
    let groups = demanded(&fabric);
    platform::demand(&mut fabric, &groups);
    Ok(fabric)
}

/// Plans the pass on the machine at `root`; writes nothing.
///
/// # Errors
/// When the machine cannot be read.
pub fn make_plan(
    root: &Root,
    options: PassOptions,
    demanded: DemandedPeers,
) -> Result<PassPlan, PassError> {
    let fabric = read(root, demanded)?;
    let bars = rebar::plan::plan(&fabric, options.rebar, &framebuffer::read(root)?);
    let mut acs = plan::plan(&fabric, options.acs);
    acs.findings.splice(0..0, bars.findings.iter().cloned());
    Ok(PassPlan { fabric, bars, acs })
}

/// Runs the pass on the machine at `root`, with its journal at `journal`.
///
/// # Errors
/// When the machine cannot be read, or the journal cannot be read or written.
pub fn run(
    root: &Root,
    options: PassOptions,
    demanded: DemandedPeers,
    journal: &Path,
) -> Result<PassResult, PassError> {
    let mut fabric = read(root, demanded)?;
    let bars = rebar::plan::plan(&fabric, options.rebar, &framebuffer::read(root)?);
    let bars = rebar::fix(root, &Sysfs(root), &bars, journal)?;
    if bars.touched() {
        fabric = read(root, demanded)?;
    }
    let plan = plan::plan(&fabric, options.acs);
    let mut applied = apply::fix(root, &plan, journal)?;
    applied.findings.splice(0..0, bars.findings.iter().cloned());
    Ok(PassResult {
        fabric,
        bars,
        plan,
        applied,
    })
}
