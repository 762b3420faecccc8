//! The stage `decide`: from the validator's results and the errors of earlier stages to a verdict, and from the verdict
//! and the policy to one action. Pure.

use crate::config::types::{Action, Policy};
use crate::stages::recover::RecoveryResult;
use crate::stages::reset::Reboots;
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
    /// The reboots before this boot.
    pub reboots: Reboots,
    /// Why the machine holds where the policy says `reboot`.
    pub objection: Option<String>,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, worst, action) =
            (self.judgement.verdict, self.judgement.worst(), self.action);
        match self.recovery {
            RecoveryResult::NotTried => {
                let nodes = self
                    .judgement
                    .nodes
                    .as_ref()
                    .map(|met| format!(", nodes {}", met.verdict));
                let (nodes, key) = (nodes.unwrap_or_default(), key(worst));
                match &self.objection {
                    None => write!(f, "{verdict}{nodes}: policy.{key} = {action}"),
                    Some(why) => write!(
                        f,
                        "{verdict}{nodes}: policy.{key} = reboot, but {why}: {action}"
                    ),
                }
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
    reboots: Reboots,
    nodes: Option<Met>,
) -> Decision {
    let judgement = Judgement {
        nodes,
        ..judge(validation, stage_errors)
    };
    let asked = policy.after(judgement.worst());
    let mut decision = Decision {
        judgement,
        action: asked,
        recovery,
        reboots,
        objection: None,
    };
    decision.follow(asked);
    decision
}

impl Decision {
    /// Makes the verdict ERROR because of an error after the decision.
    pub fn add_stage_error(&mut self, policy: &Policy, stage_error: &StageError) {
        self.judgement.add_stage_error(stage_error);
        self.follow(policy.after(Verdict::Error));
    }

    /// Takes the policy's action, unless a recovery decides otherwise, or something speaks against a reboot.
    fn follow(&mut self, policy: Action) {
        self.action = self.recovery.action(policy);
        self.objection = None;
        if self.reboots_by_policy()
            && let Some(why) = self.reboots.objection()
        {
            self.hold_instead(why);
        }
    }

    /// Whether the machine reboots because the policy says so, and not once to recover its GPUs.
    #[must_use]
    pub const fn reboots_by_policy(&self) -> bool {
        matches!(self.action, Action::Reboot)
            && !matches!(self.recovery, RecoveryResult::Reboots(_))
    }

    /// Holds instead of rebooting, for this reason.
    pub fn hold_instead(&mut self, why: String) {
        (self.action, self.objection) = (Action::Hold, Some(why));
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
        max_reboots: 3,
    };

    #[test]
    fn each_verdict_has_its_own_action() {
        let actions = [
            Verdict::Pass,
            Verdict::Degraded,
            Verdict::Fail,
            Verdict::Error,
        ]
        .map(|v| POLICY.after(v));
        assert_eq!(
            actions,
            [
                Action::Workload,
                Action::WorkloadWithoutP2p,
                Action::Shell,
                Action::PowerOff
            ]
        );
    }

    fn crashed(on_error: Action, recovery: RecoveryResult, reboots: Reboots) -> Decision {
        let validation = Validation {
            end: End::Signalled(11),
            reason: String::new(),
            report: Err(String::new()),
            lines: vec![],
            seconds: 0.0,
        };
        decide(
            &Policy { on_error, ..POLICY },
            &validation,
            &[],
            recovery,
            reboots,
            None,
        )
    }

    #[test]
    fn a_crash_is_followed_by_on_error_and_the_line_shows_it() {
        let decision = crashed(
            Action::PowerOff,
            RecoveryResult::NotTried,
            Reboots::default(),
        );
        assert_eq!(decision.to_string(), "ERROR: policy.on_error = poweroff");
    }

    #[test]
    fn the_machine_reboots_so_often_and_then_holds() {
        for (so_far, action, line) in [
            (None, Action::Reboot, "ERROR: policy.on_error = reboot"),
            (Some(0), Action::Reboot, "ERROR: policy.on_error = reboot"),
            (Some(2), Action::Reboot, "ERROR: policy.on_error = reboot"),
            (
                Some(3),
                Action::Hold,
                "ERROR: policy.on_error = reboot, but it has rebooted 3 times in a row (policy.max_reboots): hold",
            ),
        ] {
            let reboots = Reboots {
                so_far,
                allowed: 3,
                was_reset: false,
            };
            let decision = crashed(Action::Reboot, RecoveryResult::NotTried, reboots);
            assert_eq!(
                (decision.action, decision.to_string().as_str()),
                (action, line)
            );
        }
        let reset = Reboots {
            so_far: Some(0),
            allowed: 3,
            was_reset: true,
        };
        let decision = crashed(Action::Reboot, RecoveryResult::NotTried, reset);
        assert_eq!(decision.action, Action::Hold);
        assert!(
            decision
                .to_string()
                .contains("reboot, but RESET-DURING is for a person to clear: hold"),
            "{decision}"
        );
        // A reboot to recover GPUs is counted by its own mark, and happens once.
        let often = Reboots {
            so_far: Some(9),
            allowed: 3,
            was_reset: false,
        };
        let decision = crashed(
            Action::Reboot,
            RecoveryResult::Reboots("x".to_owned()),
            often,
        );
        assert_eq!(
            (decision.action, decision.objection),
            (Action::Reboot, None)
        );
    }

    #[test]
    fn an_error_after_the_decision_counts_as_well() {
        let mut decision = crashed(
            Action::Hold,
            RecoveryResult::NotTried,
            Reboots {
                so_far: Some(3),
                allowed: 3,
                was_reset: false,
            },
        );
        let stage_error = StageError {
            stage: "publish",
            code: None,
            cause: "x".to_owned(),
        };
        decision.add_stage_error(
            &Policy {
                on_error: Action::Reboot,
                ..POLICY
            },
            &stage_error,
        );
        assert_eq!(
            (decision.action, decision.objection.is_some()),
            (Action::Hold, true)
        );
    }
}
