//! Resizes the GPUs below one root port, from the largest size down: first each GPU alone, then those without room
//! together with their neighbors. Every attempt is recorded in the journal before it is made.

use super::Machine;
use super::joint::JointResize;
use super::resize::Resize;
use super::single::SingleResize;
use crate::journal::{Grown, JournalError, Try};
use outcome::finding::Code;
use std::time::Instant;

/// The result of an attempt for which the kernel found no room.
const NO_SPACE: &str = "ENOSPC";

/// One GPU of a group, with its progress.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) gpu: Resize,
    pub(super) entry: Grown,
    /// The size that it has reached.
    pub(super) reached: Option<u64>,
    /// Why its neighbors were not moved to make room.
    pub(super) blocked: Option<String>,
    /// Why no other size is tried.
    pub(super) stopped: Option<StopReason>,
}

/// Why no more sizes are tried for a GPU.
#[derive(Debug)]
pub(super) enum StopReason {
    /// No size will work; nothing changed.
    Never(Code, String),
    /// Something changed.
    Broken(String),
}

impl Member {
    /// The size to request if no GPU may have more than `most`; `None` if there is nothing to do.
    fn target(&self, most: u64) -> Option<u64> {
        let target = self.gpu.sizes().into_iter().find(|n| *n <= most)?;
        (self.stopped.is_none() && self.reached.is_none_or(|has| has < target)).then_some(target)
    }

    fn start_try(&mut self, bytes: u64, together: bool) {
        self.entry.tries.push(Try {
            bytes,
            together,
            outcome: None,
        });
    }

    /// True if the last result was the kernel's answer that there is no room.
    fn no_space(&self) -> bool {
        self.entry
            .tries
            .last()
            .is_some_and(|t| t.outcome.as_deref() == Some(NO_SPACE))
    }

    fn record_outcome(&mut self, text: &str) {
        if let Some(last) = self.entry.tries.last_mut() {
            last.outcome = Some(text.to_owned());
        }
    }
}

/// Writes the journal: called before each attempt, with all members.
pub(super) type Save<'a> = &'a mut dyn FnMut(&[Member]) -> Result<(), JournalError>;

/// The GPUs that share a root port.
pub(super) struct Group<'a> {
    pub(super) machine: Machine<'a>,
    /// No new attempt is started after this.
    pub(super) until: Instant,
    /// Whether the journal has recorded memory decode, so that neighbors may be taken off the bus.
    pub(super) joint_allowed: bool,
}

impl Group<'_> {
    /// Enlarges all of `members` as far as possible.
    ///
    /// # Errors
    /// If the journal cannot be written; the attempt was not made then.
    pub(super) fn grow(&self, members: &mut [Member], save: Save<'_>) -> Result<(), JournalError> {
        let mut sizes: Vec<u64> = members.iter().flat_map(|m| m.gpu.sizes()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut joint = self.joint_allowed;
        for most in sizes.into_iter().rev() {
            for at in 0..members.len() {
                self.try_single(members, at, most, save)?;
            }
            // Each round that ends in Ignored removes one GPU.
            for _ in 0..members.len() {
                joint = joint && self.try_joint(members, most, save)?;
            }
        }
        Ok(())
    }

    fn try_single(
        &self,
        members: &mut [Member],
        at: usize,
        most: u64,
        save: Save<'_>,
    ) -> Result<(), JournalError> {
        let Some(bytes) = members.get(at).and_then(|m| m.target(most)) else {
            return Ok(());
        };
        if let Some(member) = members.get_mut(at) {
            if Instant::now() > self.until {
                let why = "the time limit for attempts was reached".to_owned();
                member.stopped = Some(StopReason::Never(Code::RebarNoRoom, why));
                return Ok(());
            }
            member.start_try(bytes, false);
        }
        save(members)?;
        let Some(member) = members.get_mut(at) else {
            return Ok(());
        };
        match self.machine.resize_single(&member.gpu, bytes) {
            SingleResize::Done => {
                member.reached = Some(bytes);
                member.record_outcome("done");
            }
            SingleResize::NoSpace => member.record_outcome(NO_SPACE),
            SingleResize::NoRoom(why) => member.record_outcome(&why),
            SingleResize::Never(code, why) => {
                member.record_outcome(&why);
                member.stopped = Some(StopReason::Never(code, why));
            }
            SingleResize::Broken(why) => {
                member.record_outcome(&why);
                member.stopped = Some(StopReason::Broken(why));
            }
        }
        Ok(())
    }

    /// Returns false if further joint attempts are useless.
    fn try_joint(
        &self,
        members: &mut [Member],
        most: u64,
        save: Save<'_>,
    ) -> Result<bool, JournalError> {
        let wanting: Vec<(usize, u64)> = members
            .iter()
            .enumerate()
            .filter_map(|(at, m)| Some((at, m.target(most)?)))
            .collect();
        let Some(port) = members.first().and_then(|m| m.gpu.port) else {
            return Ok(false);
        };
        let broken = members
            .iter()
            .any(|m| matches!(m.stopped, Some(StopReason::Broken(_))));
        if broken || wanting.is_empty() || Instant::now() > self.until {
            return Ok(!broken);
        }
        if let [(at, _)] = wanting[..]
            && members.get(at).is_some_and(|m| {
                m.no_space() && !self.machine.shares_window(port, m.gpu.bdf).unwrap_or(true)
            })
        {
            return Ok(true);
        }
        for (at, bytes) in &wanting {
            if let Some(member) = members.get_mut(*at) {
                member.start_try(*bytes, true);
            }
        }
        save(members)?;
        let targets: Vec<(Resize, u64)> = wanting
            .iter()
            .filter_map(|(at, bytes)| Some((members.get(*at)?.gpu.clone(), *bytes)))
            .collect();
        let targets: Vec<_> = targets.iter().map(|(gpu, bytes)| (gpu, *bytes)).collect();
        let result = self.machine.resize_joint(port, &targets);
        for (at, bytes) in wanting {
            if let Some(member) = members.get_mut(at) {
                record_joint_result(member, bytes, &result);
            }
        }
        Ok(!matches!(
            result,
            JointResize::Blocked(_) | JointResize::Broken(_)
        ))
    }
}

/// Records the result of a joint attempt for one of its GPUs.
fn record_joint_result(member: &mut Member, bytes: u64, result: &JointResize) {
    match result {
        JointResize::Done => {
            member.reached = Some(bytes);
            member.record_outcome("done");
        }
        JointResize::NoRoom(why) => member.record_outcome(why),
        JointResize::Blocked(why) => {
            member.record_outcome(why);
            member.blocked = Some(why.clone());
        }
        JointResize::Ignored(gpu, why) => {
            member.record_outcome(why);
            if *gpu == member.gpu.bdf {
                member.stopped = Some(StopReason::Never(Code::RebarIgnored, why.clone()));
            }
        }
        JointResize::Broken(why) => {
            member.record_outcome(why);
            member.stopped = Some(StopReason::Broken(why.clone()));
        }
    }
}
