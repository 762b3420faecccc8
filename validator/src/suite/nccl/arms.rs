//! The arms of the NCCL tests: NCCL configurations, each in its own processes, started in parallel by the
//! first test that needs one and kept for the tests after it, because starting CUDA and a communicator costs
//! more than most measurements. An arm in which something went wrong is stopped; a later test that needs it
//! starts it anew.

use super::{groups, trouble};
use crate::nccl::ranks::{Arm, Ranks, Setup, Trouble};
use crate::suite::TestContext;
use machine::GpuId;
use outcome::finding::Finding;
use outcome::table;
use report::Level;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The time limit for starting CUDA and NCCL, from the start of an arm: several times what healthy machines take. Arms
/// that were started together share the end of this limit, so that a hang costs this time only once.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// An arm that was started long ago has at least this time to answer.
const LEAST_TIMEOUT: Duration = Duration::from_secs(5);
/// One part in this many of the time left is kept for the work after the start.
const RESERVED_PART: u32 = 4;

/// The arms: what NCCL may use, and in how many processes it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArmKind {
    /// Only peer-to-peer, one process.
    Strict,
    /// Peer-to-peer allowed, one process.
    P2p,
    /// Peer-to-peer forbidden, one process.
    Off,
    /// Only peer-to-peer, one process for each GPU; with groups of GPUs, other transports are allowed too.
    Processes,
    /// As `P2p`, and NVLink SHARP is allowed.
    Nvls,
    /// No transport at all, one process, two GPUs: it must fail to connect.
    Withheld,
    /// As `Strict`, for one group of the GPUs, by its index.
    Group(usize),
}

impl fmt::Display for ArmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Group(n) = self {
            return write!(f, "with peer-to-peer only, in group {n}");
        }
        f.write_str(match self {
            Self::Strict | Self::Group(_) => "with peer-to-peer only",
            Self::P2p => "with peer-to-peer",
            Self::Off => "without peer-to-peer",
            Self::Processes => "in a process for each GPU",
            Self::Nvls => "with NVLink SHARP",
            Self::Withheld => "with every transport forbidden",
        })
    }
}

/// All arms of a worker.
#[derive(Debug, Default)]
struct Arms {
    running: RefCell<BTreeMap<ArmKind, Ranks>>,
    /// Errors that occurred in an arm before a test needed it; that test reports them.
    failed: RefCell<BTreeMap<ArmKind, Box<Finding>>>,
}

/// Largest rows, bytes.
pub(super) const fn most_bytes(level: Level) -> u64 {
    match level {
        Level::Quick => 32 << 20,
        Level::Standard | Level::Full | Level::Acceptance => 128 << 20,
    }
}

impl ArmKind {
    /// Which of the report's arms it is.
    pub(super) const fn arm(self) -> table::Arm {
        match self {
            Self::Strict | Self::Group(_) => table::Arm::Strict,
            Self::P2p => table::Arm::P2p,
            Self::Off => table::Arm::Off,
            Self::Processes => table::Arm::Processes,
            Self::Nvls => table::Arm::Nvls,
            Self::Withheld => table::Arm::Withheld,
        }
    }

    /// The size of the buffers where memory allows, bytes: each call of a row uses its own part as long as
    /// there is room, and only such calls are checked.
    const fn room(self) -> u64 {
        match self {
            Self::Strict | Self::Group(_) => 128 << 20,
            Self::P2p => 768 << 20,
            Self::Off | Self::Processes | Self::Nvls => 512 << 20,
            Self::Withheld => 1 << 20,
        }
    }

    /// Its configuration on this machine.
    pub(super) fn setup(self, context: &TestContext) -> Result<Setup, Box<Finding>> {
        let groups = groups::of(context)?;
        let all = || GpuId::all(groups.iter().map(Vec::len).sum()).collect();
        Ok(Setup {
            arm: match self {
                // Between groups there is no peer-to-peer.
                Self::Processes if groups.len() > 1 => Arm::P2p,
                Self::Strict | Self::Processes | Self::Group(_) => Arm::Strict,
                Self::P2p | Self::Nvls => Arm::P2p,
                Self::Off => Arm::Off,
                Self::Withheld => Arm::Withheld,
            },
            processes: self == Self::Processes,
            gpus: match self {
                Self::Withheld => GpuId::all(2).collect(),
                Self::Group(n) => groups.get(n).cloned().unwrap_or_else(all),
                _ => all(),
            },
            nvls: self == Self::Nvls,
            channels: None,
            most_bytes: match self {
                Self::Withheld => 1 << 20,
                _ => most_bytes(context.config.validate.level),
            },
            room: self.room(),
            library_path: context.config.validate.library_path.clone(),
            library: context.config.validate.nccl.clone(),
            part: None,
        })
    }
}

/// Starts those of `which` that are not running yet, without waiting; not those whose error a test has yet to report.
pub(super) fn start(context: &TestContext, which: &[ArmKind]) -> Result<(), Box<Finding>> {
    let arms = context.kept.get::<Arms>();
    let failed = arms.failed.borrow();
    let mut arms = arms.running.borrow_mut();
    for which in which {
        if !arms.contains_key(which) && !failed.contains_key(which) {
            context.doing(format!("starting NCCL, {which}"));
            let ranks = Ranks::start(&which.setup(context)?);
            arms.insert(*which, ranks.map_err(|t| trouble::finding(which, &t))?);
        }
    }
    Ok(())
}

/// Runs `work` on an arm, which is started if necessary.
///
/// # Errors
/// An error of the arm, as a finding; the arm is stopped then.
pub(super) fn with<T>(
    context: &TestContext,
    which: ArmKind,
    work: impl FnOnce(&mut Ranks) -> Result<T, Trouble>,
) -> Result<T, Box<Finding>> {
    let arms = context.kept.get::<Arms>();
    if let Some(finding) = arms.failed.borrow_mut().remove(&which) {
        return Err(finding);
    }
    start(context, &[which])?;
    // Removed for the call: after a fault it is not put back.
    let taken = arms.running.borrow_mut().remove(&which);
    let Some(mut ranks) = taken else {
        return Err(trouble::gone(which));
    };
    context.doing(format!("connecting the GPUs by NCCL, {which}"));
    let within = join_timeout(context.time_left(), ranks.age());
    let done = ranks.join(within).map(drop).and_then(|()| work(&mut ranks));
    match done {
        Ok(done) => {
            arms.running.borrow_mut().insert(which, ranks);
            Ok(done)
        }
        Err(trouble) => Err(trouble::finding(which, &trouble)),
    }
}

/// Lets the arms that are starting go on where all processes of one wait for us: those of an arm with a process for each GPU
/// wait for each other's id. An error is kept for the test that needs the arm.
pub(super) fn advance(context: &TestContext) {
    let arms = context.kept.get::<Arms>();
    let mut failed = arms.failed.borrow_mut();
    arms.running
        .borrow_mut()
        .retain(|which, ranks| match ranks.advance() {
            Ok(()) => true,
            Err(trouble) => {
                failed.insert(*which, trouble::finding(*which, &trouble));
                false
            }
        });
}

/// Lets an arm's processes exit: no other test needs them.
pub(super) fn release(context: &TestContext, which: ArmKind) {
    let arms = context.kept.get::<Arms>();
    if let Some(ranks) = arms.running.borrow_mut().get_mut(&which) {
        ranks.release();
    }
}

/// Waits until an arm that is starting has started, so that nothing else runs during a measurement. An error
/// is kept for the test that needs the arm.
pub(super) fn settle(context: &TestContext, which: ArmKind) {
    let arms = context.kept.get::<Arms>();
    if !arms
        .running
        .borrow()
        .get(&which)
        .is_some_and(Ranks::is_starting)
    {
        return;
    }
    if let Err(finding) = with(context, which, |_| Ok(())) {
        arms.failed.borrow_mut().insert(which, finding);
    }
}

/// The same for all arms that were started ahead.
pub(in crate::suite) fn settle_all(context: &TestContext) {
    let begun: Vec<_> = context
        .kept
        .get::<Arms>()
        .running
        .borrow()
        .keys()
        .copied()
        .collect();
    begun.into_iter().for_each(|which| settle(context, which));
}

/// Whether an arm is starting, which keeps the GPUs busy.
pub(in crate::suite) fn is_any_starting(context: &TestContext) -> bool {
    let arms = context.kept.get::<Arms>();
    arms.running.borrow().values().any(Ranks::is_starting)
}

/// The time limit for an arm that has been starting for `age`: what is left of its limit, and no more than the time
/// `left` until the test's deadline, less the part for the work after it.
pub(super) fn join_timeout(left: Option<Duration>, age: Duration) -> Duration {
    let own = START_TIMEOUT.saturating_sub(age).max(LEAST_TIMEOUT);
    left.map_or(own, |left| {
        own.min(left.saturating_sub(left / RESERVED_PART))
    })
}

/// The same for all arms, because no other test follows.
pub(in crate::suite) fn release_all(context: &TestContext) {
    context.kept.get::<Arms>().release();
}

impl Arms {
    fn release(&self) {
        self.running
            .borrow_mut()
            .values_mut()
            .for_each(Ranks::release);
    }
}

impl Drop for Arms {
    /// The processes need tenths of a second to release their GPUs, so all of them do it at the same time.
    fn drop(&mut self) {
        self.release();
        self.running.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_gets_its_limit_and_at_most_most_of_the_remaining_deadline() {
        let timeout = |left: u64, age: u64| {
            join_timeout(Some(Duration::from_secs(left)), Duration::from_secs(age)).as_secs()
        };
        assert_eq!(
            (timeout(150, 0), timeout(60, 0), timeout(0, 0)),
            (90, 45, 0)
        );
        // An arm that began at the same time as one that hung has used up its time.
        assert_eq!(
            (
                timeout(150, 60),
                timeout(150, 90),
                timeout(150, 500),
                timeout(4, 500)
            ),
            (30, 5, 5, 3)
        );
        assert_eq!(super::join_timeout(None, Duration::ZERO), START_TIMEOUT);
    }
}
