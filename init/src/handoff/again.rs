//! A machine that holds in front of a person: the menu of its screen, tests at another level, and the report kept again.
//! Whatever they find, the machine goes on holding: the workload was decided on by the boot's own tests.

use super::After;
use super::menu::{Wish, ask};
use crate::config::types::{Action, Config};
use crate::fault::Fault;
use crate::machine::Machine;
use crate::stages::decide::{Decision, decide};
use crate::stages::keep::keep;
use crate::stages::recover::Recovery;
use crate::stages::reset::{self, Reset};
use crate::stages::{publish, validate};
use crate::verdict::Trouble;
use contract::mark::Step;

/// What the boot knows.
#[derive(Debug)]
pub struct Boot<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// What an earlier boot left.
    pub reset: &'a Reset,
    /// The troubles of the stages before the tests.
    pub troubles: &'a [Trouble],
}

/// Shows the menu while the machine holds; returns what follows. `decision` is the one that applies.
///
/// # Errors
/// A stage's, or an interruption.
pub fn stay(m: &mut Machine, after: After, boot: &Boot<'_>, decision: Decision) -> Result<After, Fault> {
    let (mut decision, mut note) = (decision, None);
    while after == After::Hold && m.full_screen {
        match ask(m, boot.config.policy.allow_shell, note.take().as_deref()) {
            Wish::Then(after) => return Ok(after),
            Wish::Test(level) => decision = test(m, boot, level)?,
            Wish::Save => {
                // A configuration that came too late changes nothing any more.
                note = Some(m.stage("publish", |m| Ok(keep(m, boot.config, &decision.judgement)?.0))?);
            }
        }
    }
    Ok(after)
}

/// Runs the tests of this level and publishes their verdict.
fn test(m: &mut Machine, boot: &Boot<'_>, level: &'static str) -> Result<Decision, Fault> {
    let Boot { config, reset, troubles } = boot;
    let proof = m.stage("validate", |m| {
        reset.guard(m, Step::Validate, validate::skipped, |m| {
            validate::prove_again(m, &config.validator, reset.tests(), level)
        })
    })?;
    reset::settle(m)?;
    let mut decision = decide(&config.policy, &proof, troubles, Recovery::NotTried);
    decision.action = Action::Hold;
    m.stage("decide", |_| Ok(format!("{}: hold, as before these tests", decision.judgement.verdict)))?;
    let published = m.stage("publish", |m| publish::publish(m, config, decision))?;
    m.announced = false;
    m.announce(&published.decision.judgement);
    Ok(published.decision)
}
