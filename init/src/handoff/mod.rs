//! The stage `hand off`: plans one action as data and executes the plan. If the machine cannot be handed over,
//! that is a fault; the other actions always end in a [`FinalState`]. One of them, `shell`, is a busybox sh on the
//! console.

pub mod exec;
pub mod menu;
pub mod shutdown;
mod switch_root;

use crate::child;
use crate::config::types::{Action, Config, OnExit, RootSource, Workload, WorkloadMode};
use crate::environment::Variable;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::paths;
use crate::stages::watchdog;
use crate::sys::process::Terminal;
use log::info;
use std::fmt;
use std::process::Command;

/// The environment of the workload: that of every child, and the settings that the tests support. Process 1's own switch for NVLink
/// SHARP wins over a setting.
fn set_workload_environment(command: &mut Command, variables: &[Variable]) {
    child::set_environment(command);
    let kept = variables
        .iter()
        .filter(|variable| !(variable.name == child::NVLS && child::forbids_nvls()));
    command.envs(kept.map(|variable| (&variable.name, &variable.value)));
}

/// The final state after all stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalState {
    /// Hold: keep running and wait for a request.
    Hold,
    /// Restart the machine.
    Reboot,
    /// Power it off.
    PowerOff,
}

/// How the machine is handed over, or what happens instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandOffPlan {
    /// Start the workload and supervise it.
    Exec(Vec<String>),
    /// Make another root `/` and its init process 1.
    SwitchRoot(RootSource, Vec<String>),
    /// A shell on the console.
    Shell,
    /// Go directly to this final state.
    Final(FinalState),
    /// Hold, because no workload is configured.
    NoWorkload,
}

impl fmt::Display for HandOffPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(words) => write!(f, "exec {}", words.join(" ")),
            Self::SwitchRoot(root, _) => write!(f, "switch root to {root}"),
            Self::Shell => f.write_str("a shell on the console"),
            Self::Final(FinalState::Hold) => f.write_str("hold"),
            Self::Final(FinalState::Reboot) => f.write_str("reboot"),
            Self::Final(FinalState::PowerOff) => f.write_str("power off"),
            Self::NoWorkload => f.write_str("hold: workload.mode = none"),
        }
    }
}

impl fmt::Display for RootSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk {
                place,
                image: Some(image),
            } => write!(f, "{}:{image}", place.text()),
            Self::Disk { place, image: None } => f.write_str(&place.text()),
            Self::Remote(remote) => f.write_str(&remote.url),
        }
    }
}

/// Plans an action.
#[must_use]
pub fn plan(action: Action, workload: &Workload) -> HandOffPlan {
    match (action, &workload.handover) {
        (Action::Workload | Action::WorkloadWithoutP2p, WorkloadMode::None) => {
            HandOffPlan::NoWorkload
        }
        (Action::Workload | Action::WorkloadWithoutP2p, WorkloadMode::Exec(words)) => {
            HandOffPlan::Exec(words.clone())
        }
        (
            Action::Workload | Action::WorkloadWithoutP2p,
            WorkloadMode::SwitchRoot { root, exec },
        ) => HandOffPlan::SwitchRoot(root.clone(), exec.clone()),
        (Action::Hold, _) => HandOffPlan::Final(FinalState::Hold),
        (Action::Shell, _) => HandOffPlan::Shell,
        (Action::Reboot, _) => HandOffPlan::Final(FinalState::Reboot),
        (Action::PowerOff, _) => HandOffPlan::Final(FinalState::PowerOff),
    }
}

/// The action after a fault: actions that start the workload become hold.
#[must_use]
pub const fn fallback(action: Action) -> Fallback {
    match action {
        Action::Shell => Fallback::Shell,
        Action::Reboot => Fallback::Final(FinalState::Reboot),
        Action::PowerOff => Fallback::Final(FinalState::PowerOff),
        Action::Workload | Action::WorkloadWithoutP2p | Action::Hold => {
            Fallback::Final(FinalState::Hold)
        }
    }
}

/// The actions that can follow a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// A shell on the console.
    Shell,
    /// Go directly to this final state.
    Final(FinalState),
}

impl Fallback {
    /// Executes the action.
    pub fn execute(self, m: &mut Machine) -> FinalState {
        match self {
            Self::Shell => shell(m, paths::CONSOLE),
            Self::Final(after) => after,
        }
    }
}

/// Executes the plan; returns the final state.
///
/// # Errors
/// [`Fault::HandOff`] when the machine could not be handed over.
pub fn execute(
    m: &mut Machine,
    plan: HandOffPlan,
    config: &Config,
    variables: &[Variable],
) -> Result<FinalState, Fault> {
    match plan {
        HandOffPlan::Exec(words) => {
            // init stays process 1 and keeps petting, unless the workload must do that.
            if config.workload.watchdog {
                watchdog::hand_over(m, config)?;
            }
            exec::supervise(
                m,
                &words,
                config.workload.on_exit,
                variables,
                (paths::CONSOLE, Terminal::Plain),
            )
        }
        HandOffPlan::SwitchRoot(root, exec) => {
            Err(switch_root::switch(m, &root, &exec, config, variables))
        }
        HandOffPlan::Shell => Ok(shell(m, paths::CONSOLE)),
        HandOffPlan::Final(after) => Ok(after),
        HandOffPlan::NoWorkload => Ok(FinalState::Hold),
    }
}

/// Runs the shell, then holds. If it cannot be started, that is a warning, and the machine holds anyway. The
/// configuration can name this action only where the image allows it (`policy.allow_shell`).
fn shell(m: &mut Machine, device: &str) -> FinalState {
    info!("SHELL     exit: hold; Ctrl-Alt-Del: reboot; busybox poweroff -f, reboot -f");
    let words = [paths::BUSYBOX.to_owned(), "sh".to_owned(), "-l".to_owned()];
    match exec::supervise(
        m,
        &words,
        OnExit::Hold,
        &[],
        (device, Terminal::Controlling),
    ) {
        Ok(after) => after,
        Err(fault) => {
            info!("warning: {fault}");
            FinalState::Hold
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_never_followed_by_the_workload() {
        for action in [Action::Workload, Action::WorkloadWithoutP2p, Action::Hold] {
            assert_eq!(fallback(action), Fallback::Final(FinalState::Hold));
        }
    }

    #[test]
    fn the_workload_without_one_configured_holds() {
        let none = Workload::default();
        assert_eq!(plan(Action::Workload, &none), HandOffPlan::NoWorkload);
        assert_eq!(
            plan(Action::PowerOff, &none),
            HandOffPlan::Final(FinalState::PowerOff)
        );
    }
}
