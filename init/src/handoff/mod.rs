//! The stage `hand off`: plans one action as data and executes the plan. If the machine cannot be handed over,
//! that is a fault; the other actions always end in an [`After`]. One of them, `shell`, is a busybox sh on the console.

pub mod exec;
pub mod last;
pub mod menu;
mod switch_root;

use crate::config::types::{Action, Config, OnExit, RootSource, Workload, WorkloadMode};
use crate::environment::Variable;
use crate::fault::Fault;
use crate::machine::Machine;
use crate::paths;
use crate::stages::watchdog;
use crate::sys::process::Terminal;
use log::info;
use std::fmt;

/// The final state after all stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Hold.
    Hold,
    /// Restart the machine.
    Reboot,
    /// Power it off.
    PowerOff,
}

/// What to do with the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Start the workload and supervise it.
    Exec(Vec<String>),
    /// Make another root `/` and its init process 1.
    SwitchRoot(RootSource, Vec<String>),
    /// A shell on the console.
    Shell,
    /// Go directly to this final state.
    After(After),
    /// Hold, because no workload is configured.
    NoWorkload,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(words) => write!(f, "exec {}", words.join(" ")),
            Self::SwitchRoot(root, _) => write!(f, "switch root to {root}"),
            Self::Shell => f.write_str("a shell on the console"),
            Self::After(After::Hold) => f.write_str("hold"),
            Self::After(After::Reboot) => f.write_str("reboot"),
            Self::After(After::PowerOff) => f.write_str("power off"),
            Self::NoWorkload => f.write_str("hold: workload.mode = none"),
        }
    }
}

impl fmt::Display for RootSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { place, image: Some(image) } => write!(f, "{}:{image}", place.text()),
            Self::Disk { place, image: None } => f.write_str(&place.text()),
            Self::Remote(remote) => f.write_str(&remote.url),
        }
    }
}

/// Plans an action.
#[must_use]
pub fn plan(action: Action, workload: &Workload) -> Plan {
    match (action, &workload.mode) {
        (Action::Workload | Action::WorkloadWithoutP2p, WorkloadMode::None) => Plan::NoWorkload,
        (Action::Workload | Action::WorkloadWithoutP2p, WorkloadMode::Exec(words)) => {
            Plan::Exec(words.clone())
        }
        (Action::Workload | Action::WorkloadWithoutP2p, WorkloadMode::SwitchRoot { root, exec }) => {
            Plan::SwitchRoot(root.clone(), exec.clone())
        }
        (Action::Hold, _) => Plan::After(After::Hold),
        (Action::Shell, _) => Plan::Shell,
        (Action::Reboot, _) => Plan::After(After::Reboot),
        (Action::PowerOff, _) => Plan::After(After::PowerOff),
    }
}

/// The action after a fault: actions that start the workload become hold.
#[must_use]
pub const fn fallback(action: Action) -> Fallback {
    match action {
        Action::Shell => Fallback::Shell,
        Action::Reboot => Fallback::After(After::Reboot),
        Action::PowerOff => Fallback::After(After::PowerOff),
        Action::Workload | Action::WorkloadWithoutP2p | Action::Hold => Fallback::After(After::Hold),
    }
}

/// The actions that can follow a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// A shell on the console.
    Shell,
    /// Go directly to this final state.
    After(After),
}

impl Fallback {
    /// Executes the action.
    pub fn go(self, m: &mut Machine) -> After {
        match self {
            Self::Shell => shell(m, paths::CONSOLE),
            Self::After(after) => after,
        }
    }
}

/// Executes the plan; returns the final state.
///
/// # Errors
/// [`Fault::HandOff`] when the machine could not be handed over.
pub fn go(m: &mut Machine, plan: Plan, config: &Config, variables: &[Variable]) -> Result<After, Fault> {
    match plan {
        Plan::Exec(words) => {
            // init stays process 1 and keeps petting, unless the workload must do that.
            if config.workload.watchdog {
                watchdog::hand_over(m, config)?;
            }
            exec::supervise(m, &words, config.workload.on_exit, variables, (paths::CONSOLE, Terminal::Plain))
        }
        Plan::SwitchRoot(root, exec) => Err(switch_root::switch(m, &root, &exec, config, variables)),
        Plan::Shell => Ok(shell(m, paths::CONSOLE)),
        Plan::After(after) => Ok(after),
        Plan::NoWorkload => Ok(After::Hold),
    }
}

/// Runs the shell, then holds. If it cannot be started, that is a warning, and the machine holds anyway. The
/// configuration can name this action only where the image allows it (`policy.allow_shell`).
fn shell(m: &mut Machine, device: &str) -> After {
    info!("SHELL     exit: hold; Ctrl-Alt-Del: reboot; busybox poweroff -f, reboot -f");
    let words = [paths::BUSYBOX.to_owned(), "sh".to_owned(), "-l".to_owned()];
    match exec::supervise(m, &words, OnExit::Hold, &[], (device, Terminal::Controlling)) {
        Ok(after) => after,
        Err(fault) => {
            info!("warning: {fault}");
            After::Hold
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_never_followed_by_the_workload() {
        for action in [Action::Workload, Action::WorkloadWithoutP2p, Action::Hold] {
            assert_eq!(fallback(action), Fallback::After(After::Hold));
        }
    }

    #[test]
    fn the_workload_without_one_configured_holds() {
        let (mode, on_exit) = (WorkloadMode::None, OnExit::PowerOff);
        let none = Workload { mode, on_exit, lock_modules: false, watchdog: false };
        assert_eq!(plan(Action::Workload, &none), Plan::NoWorkload);
        assert_eq!(plan(Action::PowerOff, &none), Plan::After(After::PowerOff));
    }
}
