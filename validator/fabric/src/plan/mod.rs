//! What the fabric pass would write, as data: which ACS control registers get which value, and what it does
//! not change and why. Pure; `fabric::apply` carries it out.

use super::acs::{self, AcsPolicy, AcsState};
use super::pass_through;
use super::turn::{Effect, Turns};
use machine::pcie::model::{Acs, Bdf, Device, Fabric};
use outcome::finding::{Code, Finding, Severity, Subject};
use serde::{Deserialize, Serialize};
use std::fmt;

/// ACS Control, from the start of the capability.
pub const ACS_CONTROL: u16 = 0x06;
/// The name of the register in the journal and in text output.
pub const ACS_CONTROL_NAME: &str = "ACS control";
/// One register to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The function.
    pub bdf: Bdf,
    /// The register, by name.
    pub register: String,
    /// Its offset in configuration space, bytes.
    pub offset: u16,
    /// Its present value.
    pub before: u16,
    /// Its new value. NVIDIA's own script clears the whole word.
    pub after: u16,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {:#06x} -> {:#06x}",
            self.bdf, self.register, self.before, self.after
        )
    }
}

/// What the pass would do to a fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The policy that it follows.
    pub policy: AcsPolicy,
    /// How many functions with ACS the policy covers.
    pub covered: usize,
    /// What to write, ordered by address.
    pub actions: Vec<Action>,
    /// What is not changed although the policy covers it.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// What to do about `fabric` under `policy`.
#[must_use]
pub fn plan(fabric: &Fabric, policy: AcsPolicy) -> Plan {
    let turns = Turns::of(fabric);
    let kept = pass_through::functions_keeping_acs(fabric);
    let asked = |d: &&Device| match policy {
        AcsPolicy::Path => turns.contains(d.bdf),
        AcsPolicy::All => true,
        AcsPolicy::Off => false,
    };
    let keep = |step: Step| match &step {
        Step::Write(action) => match kept.get(&action.bdf) {
            Some((device, why)) => Step::Leave(acs_kept(action, *device, why)),
            None => step,
        },
        _ => step,
    };
    let devices = fabric.devices.iter().filter(asked);
    let steps: Vec<Step> = devices.map(|d| keep(step(d, &turns))).collect();
    let covered = steps
        .iter()
        .filter(|s| matches!(s, Step::AlreadyDirect | Step::Write(_) | Step::Leave(_)))
        .count();
    let mut plan = Plan {
        policy,
        covered,
        actions: Vec::new(),
        findings: Vec::new(),
    };
    for step in steps {
        match step {
            Step::Write(action) => plan.actions.push(action),
            Step::Leave(finding) | Step::Unknown(finding) => plan.findings.push(finding),
            Step::AlreadyDirect | Step::Nothing => {}
        }
    }
    match lockdown(fabric) {
        Some(finding) if !plan.actions.is_empty() => {
            plan.actions.clear();
            plan.findings.push(finding);
        }
        _ => {}
    }
    plan
}

/// What to do about one function.
enum Step {
    /// It has no ACS.
    Nothing,
    /// It redirects nothing: its ACS is off, or only checks.
    AlreadyDirect,
    /// Its ACS redirects and must be disabled.
    Write(Action),
    /// Its ACS is on and must not be written.
    Leave(Finding),
    /// Its ACS state is unknown.
    Unknown(Finding),
}

fn step(device: &Device, turns: &Turns) -> Step {
    let on_path = turns.contains(device.bdf);
    match acs::state(device) {
        AcsState::Absent => Step::Nothing,
        AcsState::Known(acs) if acs.ctrl == 0 => Step::AlreadyDirect,
        AcsState::Known(acs) if acs.quirk => {
            let harmful = on_path && turns.effect(device.bdf, acs) != Effect::Direct;
            let severity = if harmful {
                Severity::Fail
            } else {
                Severity::Info
            };
            Step::Leave(acs::quirk(device, acs, severity))
        }
        AcsState::Known(acs) => match turns.effect(device.bdf, acs) {
            Effect::Redirects => Step::Write(clear(device.bdf, acs)),
            Effect::TranslatedPass => Step::Leave(acs::translated(device, acs)),
            Effect::Direct => Step::AlreadyDirect,
        },
        AcsState::NoEcam if !on_path => Step::Unknown(acs::no_ecam(device, Severity::Info)),
        AcsState::Unknown if !on_path => Step::Nothing,
        AcsState::NoEcam | AcsState::Unknown => {
            acs::judge_port(turns, device).map_or(Step::Nothing, Step::Unknown)
        }
    }
}

fn clear(bdf: Bdf, acs: &Acs) -> Action {
    let offset = acs.offset.saturating_add(ACS_CONTROL);
    Action {
        bdf,
        register: ACS_CONTROL_NAME.to_owned(),
        offset,
        before: acs.ctrl,
        after: 0,
    }
}

/// Whether the kernel forbids all writes on this machine.
#[must_use]
pub fn lockdown(fabric: &Fabric) -> Option<Finding> {
    fabric
        .lockdown
        .as_deref()
        .filter(|mode| *mode != "none")
        .map(locked_down)
}

fn locked_down(mode: &str) -> Finding {
    let message =
        format!("the kernel is locked down ({mode}): it refuses writes to configuration space");
    Code::Lockdown
        .finding(Severity::Fail, Subject::Machine, message)
        .values(mode, "none", None)
        .seen(format!("/sys/kernel/security/lockdown: {mode}"))
}

/// Pass-through needs the isolation that ACS gives; Data Direct needs its own setting.
fn acs_kept(action: &Action, device: Bdf, why: &str) -> Finding {
    let message = format!("ACS of {} was not changed: {device} {why}", action.bdf);
    let finding = Code::AcsKept.finding(Severity::Warn, action.bdf, message);
    finding.values(action.before, action.after, None)
}

#[cfg(test)]
mod tests;
