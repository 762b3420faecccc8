//! Observes the GPUs while tests run, from sources outside the tests: NVML before and after, and the kernel
//! log. Adds the observations to the test during which they occurred, and corrects failures that have another
//! cause: a lost GPU, a setting that prevents tests, or other programs on a GPU.

mod change;
mod explain;
mod users;

use crate::gpu::{Look, Presence, Standing};
use crate::outcome::finding::{Code, Finding, Severity};
use crate::outcome::{Judgement, Outcome};
use crate::suite::{Group, Test};
use std::collections::{BTreeMap, BTreeSet};
use users::Users;

/// The observations so far.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// The last observation of each GPU.
    last: Vec<Standing>,
    /// Observations since the last test's end.
    news: Vec<Finding>,
    users: Users,
    /// Whether our own work may still be on the GPUs: then a busy GPU does not indicate other programs.
    hung: bool,
    /// Lost GPUs, each with the test during which it was noticed.
    lost: BTreeMap<String, String>,
    /// Persistent findings that are reported once, by code and message.
    reported: BTreeSet<(String, String)>,
}

impl Witness {
    /// Whether NVML was ever queried.
    pub(super) fn has_looked(&self) -> bool {
        !self.last.is_empty()
    }

    /// Adds a look at NVML.
    pub(super) fn see(&mut self, look: &Look) {
        let mut news = match &look.gpus {
            Ok(now) => {
                let mut news = change::conditions(now);
                news.extend(change::since(&self.last, now));
                self.users.see(now, look.quiet && !self.hung, self.last.is_empty());
                self.last.clone_from(now);
                news
            }
            Err(why) => vec![change::unseen(why)],
        };
        news.retain(|f| !change::persists(f) || self.reported.insert((f.code.clone(), f.message.clone())));
        self.news.extend(news);
    }

    /// A test's judgement, with the observations during it and their consequences. `kernel` has the findings
    /// from the kernel log and counters.
    pub(super) fn settle(&mut self, test: &Test, said: Judgement, kernel: Vec<Finding>) -> Judgement {
        let kernel = explain::of_the_same_fault(&said, kernel);
        let said = said.with(kernel);
        let mut news = std::mem::take(&mut self.news);
        news.retain(|new| {
            !said
                .findings
                .iter()
                .any(|f| explain::is_loss(new) && explain::is_loss(f) && f.subject == new.subject)
        });
        let said = said.with(news);
        // Test `xid` reads the earlier log, and its losses may be over.
        for gone in said.findings.iter().filter(|f| test.id != "xid" && explain::is_loss(f)) {
            self.lost.entry(without_function(&gone.subject)).or_insert_with(|| test.id.to_owned());
        }
        let users = self.users.take();
        self.hung |= said.findings.iter().any(explain::is_hang);
        if test.group != Group::Gpu || !matches!(said.outcome(), Outcome::Fail | Outcome::Error) {
            return said;
        }
        if !self.lost.is_empty() {
            return explain::by_loss(said, &self.lost);
        }
        let said = explain::by_setting(said, &self.last);
        explain::by_users(said, &users)
    }
}

/// The name of a lost GPU in all findings: its address without the function, which Xid lines omit.
fn without_function(address: &str) -> String {
    address.rsplit_once('.').map_or(address, |(place, _)| place).to_owned()
}

/// The finding about a GPU that NVML reports as lost.
fn gone(gpu: &Standing) -> Option<Finding> {
    let message = format!("{} ({}) is lost: NVML no longer reaches it", gpu.name(), gpu.gpu);
    let finding = || {
        let seen = "NVML: GPU is lost (NVML_ERROR_GPU_IS_LOST)";
        Code::GpuGone.finding(Severity::Fail, &without_function(&gpu.gpu.to_string()), message).seen(seen)
    };
    (gpu.presence == Presence::Lost).then(finding)
}

#[cfg(test)]
mod tests;
