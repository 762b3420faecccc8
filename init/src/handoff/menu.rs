//! The screen of a machine that holds: the verdict in large letters, what to do first, and a menu. A child shows it
//! (`firstlight screen`), and its exit status is the user's choice: tests at another level, saving the report again. Whatever
//! those tests find, the machine keeps holding: only the boot's own tests decide whether the workload starts.

use super::exec::attend;
use super::{After, shell};
use crate::child::End;
use crate::config::types::{Action, Config};
use crate::fault::Fault;
use crate::machine::Machine;
use crate::paths;
use crate::stages::decide::{Decision, decide};
use crate::stages::keep::keep;
use crate::stages::recover::Recovery;
use crate::stages::reset::{self, Reset};
use crate::stages::{publish, validate};
use crate::sys::process::Terminal;
use crate::verdict::{Met, Trouble};
use contract::mark::Step;
use contract::screen::Choice;
use log::info;
use std::time::{Duration, Instant};

/// A screen that ends sooner than this without a choice cannot be shown.
const SHORTEST: Duration = Duration::from_secs(2);

/// What the user chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The machine ends, or holds without a menu.
    Then(After),
    /// The tests of this level.
    Test(&'static str),
    /// The report is kept and sent again.
    Save,
}

/// Shows the screen until the user has chosen something that is not handled here. `note` is shown first.
pub fn ask(m: &mut Machine, may_start_shell: bool, note: Option<&str>) -> Wish {
    let mut note = note;
    info!("HOLD      menu on the screen; Ctrl-Alt-Del reboots, SIGTERM powers off");
    loop {
        let begun = Instant::now();
        if !m.console.lend_screen(true) {
            return Wish::Then(After::Hold);
        }
        let shown =
            attend(m, &words(may_start_shell, note.take()), &[], (paths::SCREEN, Terminal::Controlling));
        m.console.lend_screen(false);
        let choice = match shown {
            Ok((_, Some(after))) => return Wish::Then(after),
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
                After::Hold => {}
                after => return Wish::Then(after),
            },
            Some(choice) => return wish(choice),
            None if begun.elapsed() < SHORTEST => return Wish::Then(After::Hold),
            None => {}
        }
    }
}

const fn wish(choice: Choice) -> Wish {
    match choice {
        Choice::Quick => Wish::Test("quick"),
        Choice::Standard => Wish::Test("standard"),
        Choice::Full => Wish::Test("full"),
        Choice::Save => Wish::Save,
        Choice::Reboot => Wish::Then(After::Reboot),
        Choice::PowerOff => Wish::Then(After::PowerOff),
        // Reached only if the shell was not offered.
        Choice::Shell => Wish::Then(After::Hold),
    }
}

fn words(may_start_shell: bool, note: Option<&str>) -> Vec<String> {
    let mut words = vec![paths::VALIDATOR, "screen", paths::REPORT, "--verdict", paths::VERDICT, "--machine"];
    if may_start_shell {
        words.push("--shell");
    }
    words.extend(note.iter().flat_map(|note| ["--note", *note]));
    words.into_iter().map(str::to_owned).collect()
}

/// What the menu needs to know about the boot.
#[derive(Debug)]
pub struct Boot<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// What an earlier boot left.
    pub reset: &'a Reset,
    /// The troubles of the stages before the tests.
    pub troubles: &'a [Trouble],
}

/// Shows the menu while the machine holds; returns the final state. `decision` is the boot's decision.
///
/// # Errors
/// A stage's, or an interruption.
pub fn stay(m: &mut Machine, after: After, boot: &Boot<'_>, decision: Decision) -> Result<After, Fault> {
    let (mut decision, mut note) = (decision, None);
    while after == After::Hold && m.full_screen {
        match ask(m, boot.config.policy.allow_shell, note.take().as_deref()) {
            Wish::Then(after) => return Ok(after),
            Wish::Test(level) => decision = test(m, boot, level, decision.judgement.nodes.take())?,
            Wish::Save => {
                // A configuration that appears this late no longer has any effect.
                note = Some(m.stage("publish", |m| Ok(keep(m, boot.config, &decision.judgement)?.0))?);
            }
        }
    }
    Ok(after)
}

/// Runs the tests of this level and publishes their verdict.
fn test(
    m: &mut Machine,
    boot: &Boot<'_>,
    level: &'static str,
    nodes: Option<Met>,
) -> Result<Decision, Fault> {
    let Boot { config, reset, troubles } = boot;
    let proof = m.stage("validate", |m| {
        reset.guard(m, Step::Validate, validate::skipped, |m| {
            validate::prove_again(m, &config.validator, reset.tests(), level)
        })
    })?;
    reset::settle(m)?;
    let mut decision = decide(&config.policy, &proof, troubles, Recovery::NotTried, nodes);
    decision.action = Action::Hold;
    m.stage("decide", |_| Ok(format!("{}: hold, as before these tests", decision.judgement.verdict)))?;
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
        assert_eq!(words(false, Some("saved")).last().map(String::as_str), Some("saved"));
    }
}
