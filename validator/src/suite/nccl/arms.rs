//! The arms of the NCCL tests: processes of their own, started side by side by the first test that wants
//! one and kept for the tests after it, since starting CUDA and a communicator costs more than most
//! measurements. An arm in which something went wrong is ended; who wants it later starts it anew.

use super::trouble;
use crate::config::Level;
use crate::finding::Finding;
use crate::ranks::{Arm, Ranks, Setup, Trouble};
use crate::suite::Machine;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Starting CUDA and NCCL; and so much more for each GPU.
const START: Duration = Duration::from_secs(20);
const START_PER_GPU: Duration = Duration::from_secs(3);

/// Which arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// Peer-to-peer or nothing, one process.
    Strict,
    /// Peer-to-peer allowed, one process.
    P2p,
    /// Peer-to-peer forbidden, one process.
    Off,
    /// Peer-to-peer or nothing, one process for each GPU.
    Processes,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "with peer-to-peer only",
            Self::P2p => "with peer-to-peer",
            Self::Off => "without peer-to-peer",
            Self::Processes => "in a process for each GPU",
        })
    }
}

/// All arms of a worker.
#[derive(Debug, Default)]
pub struct Arms {
    running: RefCell<BTreeMap<Which, Ranks>>,
    /// What befell an arm before a test wanted it: that test tells it.
    broken: RefCell<BTreeMap<Which, Box<Finding>>>,
}

/// Largest rows, bytes.
pub(super) const fn most_bytes(level: Level) -> u64 {
    match level {
        Level::Quick => 32 << 20,
        Level::Standard | Level::Full => 128 << 20,
    }
}

impl Which {
    /// Its word in the names of tables.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::P2p => "p2p",
            Self::Off => "off",
            Self::Processes => "processes",
        }
    }

    /// How large the buffers are where memory allows, bytes: each call of a row has a place of its own as long as
    /// there is room, and only what has one is checked.
    const fn room(self) -> u64 {
        match self {
            Self::Strict => 128 << 20,
            Self::P2p => 640 << 20,
            Self::Off | Self::Processes => 384 << 20,
        }
    }

    /// What it is made of on this machine.
    pub(super) fn setup(self, machine: &Machine) -> Result<Setup, Box<Finding>> {
        Ok(Setup {
            arm: match self {
                Self::Strict | Self::Processes => Arm::Strict,
                Self::P2p => Arm::P2p,
                Self::Off => Arm::Off,
            },
            processes: self == Self::Processes,
            gpus: (0..machine.clique()?.len()).collect(),
            nvls: machine.config.validate.nvls,
            channels: None,
            most_bytes: most_bytes(machine.config.validate.level),
            room: self.room(),
            library_path: machine.config.validate.library_path.clone(),
        })
    }
}

/// Starts those of `which` that are not there yet, and waits for none.
pub(super) fn begin(machine: &Machine, which: &[Which]) -> Result<(), Box<Finding>> {
    let mut arms = machine.nccl.running.borrow_mut();
    for which in which {
        if !arms.contains_key(which) {
            machine.doing(&format!("starting NCCL, {which}"));
            let ranks = Ranks::start(&which.setup(machine)?);
            arms.insert(*which, ranks.map_err(|t| trouble::finding(&which.to_string(), &t))?);
        }
    }
    Ok(())
}

/// Works with an arm, which is started if need be.
///
/// # Errors
/// What went wrong in it, as a finding; the arm is ended then.
pub(super) fn with<T>(
    machine: &Machine,
    which: Which,
    work: impl FnOnce(&mut Ranks) -> Result<T, Trouble>,
) -> Result<T, Box<Finding>> {
    if let Some(finding) = machine.nccl.broken.borrow_mut().remove(&which) {
        return Err(finding);
    }
    begin(machine, &[which])?;
    // Taken out meanwhile: after a fault it does not go back.
    let taken = machine.nccl.running.borrow_mut().remove(&which);
    let Some(mut ranks) = taken else { return Err(trouble::gone(&which.to_string())) };
    machine.doing(&format!("joining the GPUs by NCCL, {which}"));
    let done = ranks.join(patience(ranks.ranks())).map(drop).and_then(|()| work(&mut ranks));
    match done {
        Ok(done) => {
            machine.nccl.running.borrow_mut().insert(which, ranks);
            Ok(done)
        }
        Err(trouble) => Err(trouble::finding(&which.to_string(), &trouble)),
    }
}

/// Waits until an arm that was begun has started, so that nothing else runs when a clock does. What went wrong
/// in it is kept for the test that wants it.
pub(super) fn settle(machine: &Machine, which: Which) {
    if !machine.nccl.running.borrow().contains_key(&which) {
        return;
    }
    if let Err(finding) = with(machine, which, |_| Ok(())) {
        machine.nccl.broken.borrow_mut().insert(which, finding);
    }
}

/// How long CUDA and NCCL may take to start.
pub(super) fn patience(ranks: usize) -> Duration {
    let more = u32::try_from(ranks).unwrap_or(u32::MAX);
    START.saturating_add(START_PER_GPU.saturating_mul(more))
}

/// Ends an arm that no test needs any more.
pub(super) fn end(machine: &Machine, which: Which) {
    drop(machine.nccl.running.borrow_mut().remove(&which));
}
