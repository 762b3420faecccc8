//! The recovery of GPUs that no longer work, where `policy.recover` allows it: the rungs of [`ladder`], each in a child with
//! a deadline and recorded in the journal before and after it. If they do not help, the machine is rebooted once, without
//! peer-to-peer; a mark counts this reboot. A recovered machine never passes: its verdict remains that of the tests that
//! showed the fault.

mod journal;
pub mod ladder;

use crate::child::{ChildResult, ChildSpec, End, on_output};
use crate::config::types::{Action, Config, Recover};
use crate::fault::Fault;
use crate::helper::{self, ResetMethod};
use crate::machine::Machine;
use crate::sys::descriptors;
use crate::sys::process::{self, Signal};
use crate::verdict::{RecoveryNeed, StageError, Validation, part_passed, recovery_need};
use contract::driver_account::Outcome;
use contract::mark::{Mark, Step, sanitize};
use contract::outcome::code;
use journal::Journal;
use ladder::{NextStep, Rung, Tried, next};
use log::info;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Instant;

use super::driver;
use super::fabric;
use super::network;
use super::reset::{ResetCheck, finish_marks};
use super::result::StageResult;
use super::validate::run_without_p2p;

/// The result of the recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryResult {
    /// No GPU needs it, or it is not allowed.
    NotTried,
    /// Every GPU works by itself again.
    Recovered,
    /// The machine is rebooted, to continue without peer-to-peer.
    Reboots(String),
    /// Nothing is left to try; the text names the last attempt.
    GaveUp(String),
    /// This boot follows such a reboot: what had happened, and whether every GPU works by itself.
    Rebooted(String, bool),
}

impl RecoveryResult {
    /// The error that the verdict must include, if any.
    #[must_use]
    pub fn stage_error(&self) -> Option<StageError> {
        let (code, cause) = match self {
            Self::NotTried | Self::Recovered => return None,
            Self::Reboots(cause) | Self::GaveUp(cause) => (code::RECOVERY_FAILED, cause.clone()),
            Self::Rebooted(why, true) => {
                (code::RECOVERED, format!("{why}; each GPU works by itself"))
            }
            Self::Rebooted(why, false) => (
                code::RECOVERY_FAILED,
                format!("{why}; the GPUs do not work without it either"),
            ),
        };
        Some(StageError {
            stage: "recover",
            code: Some(code),
            cause,
        })
    }

    /// The action in place of the policy's: GPUs that were recovered get no peer-to-peer, those that were not get no
    /// workload, and a reboot to recover them happens once.
    #[must_use]
    pub const fn action(&self, policy: Action) -> Action {
        match (self, policy) {
            (Self::Reboots(_), _) => Action::Reboot,
            (Self::Recovered | Self::Rebooted(_, true), Action::Workload) => {
                Action::WorkloadWithoutP2p
            }
            (
                Self::GaveUp(_) | Self::Rebooted(_, false),
                Action::Workload | Action::WorkloadWithoutP2p,
            )
            | (Self::Rebooted(..), Action::Reboot) => Action::Hold,
            (_, action) => action,
        }
    }
}

/// Recovers the GPUs if the tests show that they need it.
///
/// # Errors
/// Only an interruption.
pub fn recover(
    m: &mut Machine,
    config: &Config,
    reset: &ResetCheck,
    validation: &Validation,
) -> Result<RecoveryResult, Fault> {
    if let Some(why) = reset.rebooted() {
        return Ok(RecoveryResult::Rebooted(
            why.to_owned(),
            part_passed(validation),
        ));
    }
    let allowed = config.policy.recover;
    if allowed == Recover::Off {
        return Ok(RecoveryResult::NotTried);
    }
    let Some((need, why)) = recovery_need(validation) else {
        return Ok(RecoveryResult::NotTried);
    };
    info!("recover   {why}: policy.recover allows {}", word(allowed));
    let mut journal = Journal::new(&why, allowed);
    let cause = match need {
        RecoveryNeed::Reset => {
            let cause = climb(m, config, &mut journal)?;
            network::restart_keeper(m, &config.network)?;
            cause
        }
        RecoveryNeed::Reboot => Some(format!("{why} needs a reboot")),
        RecoveryNeed::Manual(action) => Some(format!("{why} needs a person: {action}")),
    };
    let found = match cause {
        None => RecoveryResult::Recovered,
        Some(cause) if allowed == Recover::Reboot && !matches!(need, RecoveryNeed::Manual(_)) => {
            reboot(m, &why, &cause)?
        }
        Some(cause) => RecoveryResult::GaveUp(cause),
    };
    journal.end(&found);
    Ok(found)
}

const fn word(allowed: Recover) -> &'static str {
    match allowed {
        Recover::Off => "nothing",
        Recover::Gpu => "resets of the GPUs",
        Recover::Reboot => "resets of the GPUs and one reboot",
    }
}

/// Requests the reboot if a mark can record it; without the mark, the machine would reboot forever.
fn reboot(m: &mut Machine, why: &str, cause: &str) -> Result<RecoveryResult, Fault> {
    let Some(marks) = &mut m.marks else {
        let cause = format!("{cause}; not rebooted, because there is no place for a mark");
        return Ok(RecoveryResult::GaveUp(cause));
    };
    marks.restore = Some(Mark {
        step: Step::Recover,
        image: marks.image.clone(),
        boot: None,
        finding: Some(sanitize(&why.replace(' ', "-"))),
        count: 0,
    });
    marks.is_written = true;
    Ok(if finish_marks(m)? {
        RecoveryResult::Reboots(format!("{cause}; rebooting once, without peer-to-peer"))
    } else {
        RecoveryResult::GaveUp(format!(
            "{cause}; not rebooted, because the mark could not be written"
        ))
    })
}

/// Tries rung after rung; returns why it gave up.
fn climb(m: &mut Machine, config: &Config, journal: &mut Journal) -> Result<Option<String>, Fault> {
    loop {
        let rung = match next(&journal.tried) {
            NextStep::Try(rung) => rung,
            NextStep::Recovered => return Ok(None),
            NextStep::GaveUp => return Ok(Some(journal.last())),
        };
        journal.begin(rung);
        let began = Instant::now();
        let (done, said) = match try_rung(m, config, rung)? {
            Ok(said) => (true, said),
            Err(why) => (false, why),
        };
        info!(
            "recover   {rung}: {}{said}",
            if done { "" } else { "not possible: " }
        );
        journal.add(Tried {
            rung,
            done,
            said,
            seconds: began.elapsed().as_secs_f64(),
        });
    }
}

/// Tries one rung; returns a description of what it did, or why it failed.
fn try_rung(m: &mut Machine, config: &Config, rung: Rung) -> Result<Result<String, String>, Fault> {
    match rung {
        Rung::EndProcesses => {
            process::kill_all(Signal::KILL);
            run_helper(m, &helper::await_end())
        }
        Rung::CloseDevices => close_devices(m),
        Rung::UnloadModules => match loaded_modules() {
            Ok(modules) => run_helper(m, &helper::unload_modules(&modules)),
            Err(why) => Ok(Err(why)),
        },
        Rung::ResetFunctions => run_helper(m, &helper::reset_gpus(ResetMethod::Function)),
        Rung::ResetBuses => run_helper(m, &helper::reset_gpus(ResetMethod::Bus)),
        Rung::Fabric => Ok(from_stage(fabric::fix(m, &config.validator)?)),
        Rung::LoadDriver => Ok(from_stage(driver::load(m, &config.driver)?)),
        Rung::TestWithoutP2p => {
            let validation = run_without_p2p(m, &config.validator)?;
            let line = validation.to_string();
            Ok(if part_passed(&validation) {
                Ok(line)
            } else {
                Err(line)
            })
        }
    }
}

fn from_stage(result: StageResult) -> Result<String, String> {
    match result {
        StageResult::Done(line) => Ok(line),
        StageResult::Failed(cause) => Err(cause),
    }
}

/// Runs a helper; its line of output describes what it did.
fn run_helper(m: &Machine, spec: &ChildSpec) -> Result<Result<String, String>, Fault> {
    let mut said = String::new();
    let done: ChildResult = m.run(
        spec,
        &mut on_output(|line| line.clone_into(&mut said)),
        |_| true,
    )?;
    Ok(if done.end == End::Exited(helper::SUCCESS) {
        Ok(said)
    } else {
        Err(done.reason())
    })
}

/// Leaves the closing of the GPUs to a child: the last close of a GPU can hang.
fn close_devices(m: &mut Machine) -> Result<Result<String, String>, Fault> {
    let (ours, theirs) = match descriptors::pair() {
        Ok(pair) => pair,
        Err(e) => return Ok(Err(format!("socketpair: {e}"))),
    };
    // Each device stays open in the socket until the child closes it.
    while let Some(device) = m.held_devices.last() {
        if let Err(e) = descriptors::send(ours.as_fd(), device.as_fd()) {
            m.held_devices.push(theirs);
            return Ok(Err(format!("sendmsg: {e}")));
        }
        drop(m.held_devices.pop());
    }
    let theirs = Rc::new(theirs);
    let closed = run_helper(m, &helper::close_devices(Rc::clone(&theirs)));
    if !matches!(closed, Ok(Ok(_))) {
        // Dropping the socket would make process 1 close the devices that the child did not close.
        std::mem::forget(theirs);
    }
    closed
}

/// The modules that this boot loaded, the last one first.
fn loaded_modules() -> Result<Vec<String>, String> {
    let report = driver::read_report()?;
    let own = report
        .modules
        .iter()
        .rev()
        .filter(|module| module.outcome == Outcome::Loaded);
    Ok(own.map(|module| module.name.replace('-', "_")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_recovery_leads_to_peer_to_peer_or_to_a_second_reboot() {
        use Action::{Hold, PowerOff, Reboot, Shell, Workload, WorkloadWithoutP2p};
        let (said, all) = (
            String::new(),
            [Workload, WorkloadWithoutP2p, Hold, Shell, Reboot, PowerOff],
        );
        let alone = [
            WorkloadWithoutP2p,
            WorkloadWithoutP2p,
            Hold,
            Shell,
            Reboot,
            PowerOff,
        ];
        for (found, actions) in [
            (RecoveryResult::NotTried, all),
            (RecoveryResult::Recovered, alone),
            (RecoveryResult::Reboots(said.clone()), [Reboot; 6]),
            (
                RecoveryResult::GaveUp(said.clone()),
                [Hold, Hold, Hold, Shell, Reboot, PowerOff],
            ),
            (
                RecoveryResult::Rebooted(said.clone(), true),
                [
                    WorkloadWithoutP2p,
                    WorkloadWithoutP2p,
                    Hold,
                    Shell,
                    Hold,
                    PowerOff,
                ],
            ),
            (
                RecoveryResult::Rebooted(said, false),
                [Hold, Hold, Hold, Shell, Hold, PowerOff],
            ),
        ] {
            assert_eq!(all.map(|action| found.action(action)), actions, "{found:?}");
        }
    }

    #[test]
    fn what_was_not_recovered_is_an_error_of_its_own() {
        let code =
            |found: RecoveryResult| found.stage_error().and_then(|stage_error| stage_error.code);
        assert_eq!(code(RecoveryResult::NotTried), None);
        // The verdict of the tests stays.
        assert_eq!(code(RecoveryResult::Recovered), None);
        assert_eq!(
            code(RecoveryResult::GaveUp("x".to_owned())),
            Some("RECOVERY-FAILED")
        );
        assert_eq!(
            code(RecoveryResult::Reboots("x".to_owned())),
            Some("RECOVERY-FAILED")
        );
        assert_eq!(
            code(RecoveryResult::Rebooted("x".to_owned(), true)),
            Some("RECOVERED")
        );
        assert_eq!(
            code(RecoveryResult::Rebooted("x".to_owned(), false)),
            Some("RECOVERY-FAILED")
        );
    }
}
