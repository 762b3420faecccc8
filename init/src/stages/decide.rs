//! The stage `decide`: from the validator's results and the errors of earlier stages to a verdict, and from the verdict
//! and the policy to one action. Pure.

use crate::config::types::{Action, Policy};
use crate::stages::recover::RecoveryResult;
use crate::verdict::{Judgement, Met, StageError, Validation, Verdict, judge};
use std::fmt;

/// The verdict and the action.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The verdict with its grounds.
    pub judgement: Judgement,
    /// The action: the policy's for it, or the recovery's.
    pub action: Action,
    /// The result of recovering GPUs that no longer worked.
    pub recovery: RecoveryResult,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, worst, action) = (self.judgement.verdict, self.judgement.worst(), self.action);
        match self.recovery {
            RecoveryResult::NotTried => {
                let nodes = self.judgement.nodes.as_ref().map(|met| format!(", nodes {}", met.verdict));
                write!(f, "{verdict}{}: policy.{} = {action}", nodes.unwrap_or_default(), key(worst))
            }
            _ => write!(f, "{verdict}: {action}, after a recovery"),
        }
    }
}

const fn key(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "on_pass",
        Verdict::Degraded => "on_degraded",
        Verdict::Fail => "on_fail",
        Verdict::Error => "on_error",
    }
}

impl Policy {
    /// The action after a verdict.
    #[must_use]
    pub const fn after(&self, verdict: Verdict) -> Action {
        match verdict {
            Verdict::Pass => self.on_pass,
            Verdict::Degraded => self.on_degraded,
            Verdict::Fail => self.on_fail,
            Verdict::Error => self.on_error,
        }
    }
}

/// Derives verdict and action from the validation, the stages' errors, the recovery and the meeting with other nodes.
#[must_use]
pub fn decide(
    policy: &Policy,
    validation: &Validation,
    stage_errors: &[StageError],
    recovery: RecoveryResult,
    nodes: Option<Met>,
) -> Decision {
    let judgement = Judgement { nodes, ..judge(validation, stage_errors) };
    let action = recovery.action(policy.after(judgement.worst()));
    Decision { judgement, action, recovery }
}

impl Decision {
    /// Makes the verdict ERROR because of an error after the decision.
    pub fn add_stage_error(&mut self, policy: &Policy, stage_error: &StageError) {
        self.judgement.add_stage_error(stage_error);
        self.action = self.recovery.action(policy.after(Verdict::Error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::End;
    use crate::config::types::Recover;

    const POLICY: Policy = Policy {
        on_pass: Action::Workload,
        on_degraded: Action::WorkloadWithoutP2p,
        on_fail: Action::Shell,
        on_error: Action::PowerOff,
        recover: Recover::Off,
        allow_shell: false,
    };

    #[test]
    fn each_verdict_has_its_own_action() {
        let actions = [Verdict::Pass, Verdict::Degraded, Verdict::Fail, Verdict::Error].map(|v| POLICY.after(v));
        assert_eq!(actions, [Action::Workload, Action::WorkloadWithoutP2p, Action::Shell, Action::PowerOff]);
    }

    #[test]
    fn a_crash_is_followed_by_on_error_and_the_line_shows_it() {
        let validation = Validation {
            end: End::Signalled(11),
            reason: String::new(),
            report: Err(String::new()),
            lines: vec![],
            seconds: 0.0,
        };
        assert_eq!(
            decide(&POLICY, &validation, &[], RecoveryResult::NotTried, None).to_string(),
            "ERROR: policy.on_error = poweroff"
        );
    }
}
