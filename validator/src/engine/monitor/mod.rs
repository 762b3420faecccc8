//! Observes the GPUs while tests run, from sources outside the tests: NVML before and after, and the kernel
//! log. Adds the observations to the test during which they occurred, and corrects failures that have another
//! cause: a lost GPU, a setting that prevents tests, or other programs on a GPU.

mod change;
mod explain;
mod tally;
mod users;

use crate::suite::{Group, Test};
use gpu::{GpuSnapshot, GpuStatus, Presence};
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Severity, Subject, Words};
use outcome::{Judgement, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use tally::TallyHistory;
use users::UserHistory;

/// What was observed about the GPUs so far.
#[derive(Debug, Default)]
pub(super) struct GpuMonitor {
    /// The last observation of each GPU.
    last: Vec<GpuStatus>,
    /// Findings since the last test ended.
    new_findings: Vec<Finding>,
    users: UserHistory,
    tallies: TallyHistory,
    /// Whether our own work may still be on the GPUs: then a busy GPU does not indicate other programs.
    has_hung: bool,
    /// Lost GPUs, each with the test during which it was noticed.
    lost: BTreeMap<Bdf, String>,
    /// Persistent findings that are reported once, by code and message.
    reported: BTreeSet<(Code, Words)>,
}

impl GpuMonitor {
    /// Whether NVML was ever queried.
    pub(super) fn has_snapshot(&self) -> bool {
        !self.last.is_empty()
    }

    /// Adds a snapshot of the GPUs.
    pub(super) fn add_snapshot(&mut self, snapshot: &GpuSnapshot) {
        let mut new_findings = match &snapshot.gpus {
            Ok(now) => {
                let mut new_findings = change::condition_findings(now);
                new_findings.extend(change::increase_findings(&self.last, now));
                new_findings.extend(self.tallies.add_snapshot(now));
                new_findings.extend(self.users.started(now));
                self.users.add_snapshot(
                    now,
                    snapshot.quiet && !self.has_hung,
                    self.last.is_empty(),
                );
                self.last.clone_from(now);
                new_findings
            }
            Err(why) => vec![change::unknown_state_finding(why)],
        };
        new_findings
            .retain(|f| !change::persists(f) || self.reported.insert((f.code, f.message.clone())));
        self.new_findings.extend(new_findings);
    }

    /// Adds the observations during a test to its judgement, and corrects the judgement if they explain it. `kernel`
    /// contains the findings from the kernel log and from counters.
    pub(super) fn explain(
        &mut self,
        test: &Test,
        judgement: Judgement,
        kernel: Vec<Finding>,
    ) -> Judgement {
        let kernel = explain::attribute_xids(&judgement, kernel);
        let judgement = judgement.with(kernel);
        let mut new_findings = std::mem::take(&mut self.new_findings);
        new_findings.retain(|new| !tally::is_told(new, &judgement.findings));
        new_findings.retain(|new| {
            !judgement.findings.iter().any(|f| {
                explain::is_loss(new)
                    && explain::is_loss(f)
                    && f.subject.without_function() == new.subject.without_function()
            })
        });
        let judgement = judgement.with(new_findings);
        // Test `xid` reads the earlier log, and its losses may be over.
        for gone in judgement
            .findings
            .iter()
            .filter(|f| test.id() != "xid" && explain::is_loss(f))
        {
            if let Some(gpu) = gone.subject.without_function().address() {
                self.lost.entry(gpu).or_insert_with(|| test.id().to_owned());
            }
        }
        let users = self.users.take();
        self.has_hung |= judgement.findings.iter().any(explain::is_hang);
        if test.group != Group::Gpu
            || !matches!(judgement.outcome(), Outcome::Fail | Outcome::Error)
        {
            return judgement;
        }
        if !self.lost.is_empty() {
            return explain::by_loss(judgement, &self.lost);
        }
        let judgement = explain::by_setting(judgement, &self.last);
        explain::by_users(judgement, &users)
    }
}

/// The finding about a GPU that NVML reports as lost.
fn lost_gpu_finding(gpu: &GpuStatus) -> Option<Finding> {
    let message = format!(
        "{} ({}) is lost: NVML no longer reaches it",
        gpu.name(),
        gpu.gpu
    );
    let finding = || {
        let seen = "NVML: GPU is lost (NVML_ERROR_GPU_IS_LOST)";
        Code::GpuGone
            .finding(
                Severity::Fail,
                Subject::from(gpu.gpu).without_function(),
                message,
            )
            .seen(seen)
    };
    (gpu.presence == Presence::Lost).then(finding)
}

#[cfg(test)]
mod tests;
