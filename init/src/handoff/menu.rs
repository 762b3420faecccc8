//! The screen of a machine that holds: the verdict in large letters, what to do first, and a menu. A child shows it
//! (`firstlight screen`), and its exit status is the user's choice: tests at another level, saving the report again. Whatever
//! those tests find, the machine keeps holding: only the boot's own tests decide whether the workload starts.

use super::exec::run_on_console;
use super::{FinalState, shell};
use crate::child::End;
use crate::config::types::{Action, Config};
use crate::fault::Fault;
use crate::machine::Machine;
use crate::paths;
use crate::stages::decide::{Decision, decide};
use crate::stages::keep::keep_report;
use crate::stages::recover::RecoveryResult;
use crate::stages::reset::{self, ResetCheck};
use crate::stages::{publish, validate};
use crate::sys::process::Terminal;
use crate::verdict::{Met, StageError};
use contract::mark::Step;
use contract::screen::Choice;
use log::info;
use std::time::{Duration, Instant};

/// A screen that ends sooner than this without a choice cannot be shown.
const SHORTEST: Duration = Duration::from_secs(2);

/// The action that the user chose in the menu.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MenuAction {
    /// The machine ends, or holds without a menu.
    Leave(FinalState),
    /// The tests of this level are run.
    Test(&'static str),
    /// The report is kept and sent again.
    Save,
}

/// Shows the screen until the user has chosen something that is not handled here. `note` is shown first.
pub fn show_menu(m: &mut Machine, may_start_shell: bool, note: Option<&str>) -> MenuAction {
    let mut note = note;
    info!("HOLD      menu on the screen; Ctrl-Alt-Del reboots, SIGTERM powers off");
    loop {
        let begun = Instant::now();
        if !m.console.lend_screen(true) {
            return MenuAction::Leave(FinalState::Hold);
        }
        let words = words(may_start_shell, note.take());
        let shown = run_on_console(m, &words, &[], (paths::SCREEN, Terminal::Controlling));
        m.console.lend_screen(false);
        let choice = match shown {
            Ok((_, Some(after))) => return MenuAction::Leave(after),
            Ok((End::Exited(status), None)) => Choice::of_status(status),
            Ok((end, None)) => {
                info!("warning: the screen {end}");
                None
            }
            Err(e) => {
                info!("warning: the screen cannot be shown: {e}");
                None
            }
        };
        match choice {
            Some(Choice::Shell) if may_start_shell => match shell(m, paths::SCREEN) {
                FinalState::Hold => {}
                after => return MenuAction::Leave(after),
            },
            Some(choice) => return action_for(choice),
            None if begun.elapsed() < SHORTEST => return MenuAction::Leave(FinalState::Hold),
            None => {}
        }
    }
}

const fn action_for(choice: Choice) -> MenuAction {
    match choice {
        Choice::Quick => MenuAction::Test("quick"),
        Choice::Standard => MenuAction::Test("standard"),
        Choice::Full => MenuAction::Test("full"),
        Choice::Save => MenuAction::Save,
        Choice::Reboot => MenuAction::Leave(FinalState::Reboot),
        Choice::PowerOff => MenuAction::Leave(FinalState::PowerOff),
        // Reached only if the shell was not offered.
        Choice::Shell => MenuAction::Leave(FinalState::Hold),
    }
}

fn words(may_start_shell: bool, note: Option<&str>) -> Vec<String> {
    let mut words = vec![
        paths::VALIDATOR,
        "screen",
        paths::REPORT,
        "--verdict",
        paths::VERDICT,
        "--machine",
    ];
    if may_start_shell {
        words.push("--shell");
    }
    words.extend(note.iter().flat_map(|note| ["--note", *note]));
    words.into_iter().map(str::to_owned).collect()
}

/// What the menu needs to know about the boot.
#[derive(Debug)]
pub struct BootContext<'a> {
    /// The configuration of this boot.
    pub config: &'a Config,
    /// The result of the check for a mark of an earlier boot.
    pub reset: &'a ResetCheck,
    /// The errors of the stages before the tests.
    pub stage_errors: &'a [StageError],
}

/// Shows the menu while the machine holds; returns the final state. `decision` is the boot's decision.
///
/// # Errors
/// A stage's, or an interruption.
pub fn run_menu(
    m: &mut Machine,
    after: FinalState,
    boot: &BootContext<'_>,
    decision: Decision,
) -> Result<FinalState, Fault> {
    let (mut decision, mut note) = (decision, None);
    while after == FinalState::Hold && m.full_screen {
        match show_menu(m, boot.config.policy.allow_shell, note.take().as_deref()) {
            MenuAction::Leave(after) => return Ok(after),
            MenuAction::Test(level) => {
                decision = test(m, boot, level, decision.judgement.nodes.take())?;
            }
            MenuAction::Save => {
                // A configuration that appears this late no longer has any effect.
                note = Some(m.stage("publish", |m| {
                    Ok(keep_report(m, boot.config, &decision.judgement)?.0)
                })?);
            }
        }
    }
    Ok(after)
}

/// Runs the tests of this level and publishes their verdict.
fn test(
    m: &mut Machine,
    boot: &BootContext<'_>,
    level: &'static str,
    nodes: Option<Met>,
) -> Result<Decision, Fault> {
    let BootContext {
        config,
        reset,
        stage_errors,
    } = boot;
    let validation = m.stage("validate", |m| {
        reset.guard(m, Step::Validate, validate::skipped, |m| {
            validate::run_level(m, &config.validator, reset.tests(), level)
        })
    })?;
    let reboots = reset.reboots(config.policy.max_reboots);
    let mut decision = decide(
        &config.policy,
        &validation,
        stage_errors,
        RecoveryResult::NotTried,
        reboots,
        nodes,
    );
    decision.action = Action::Hold;
    reset::settle(m, &mut decision)?;
    m.stage("decide", |_| {
        Ok(format!(
            "{}: hold, as before these tests",
            decision.judgement.verdict
        ))
    })?;
    let published = m.stage("publish", |m| publish::publish(m, config, decision))?;
    m.announced = false;
    m.announce(&published.decision.judgement);
    Ok(published.decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_offered_only_where_the_image_allows_it() {
        assert!(words(true, None).contains(&"--shell".to_owned()));
        assert!(!words(false, Some("saved")).contains(&"--shell".to_owned()));
        assert_eq!(
            words(false, Some("saved")).last().map(String::as_str),
            Some("saved")
        );
    }
}
