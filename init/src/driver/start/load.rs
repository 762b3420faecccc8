//! Loads the modules: which files, with which parameters, whether they may be loaded, and the kernel's
//! response to each. After the first failure no further module is loaded.

use super::Run;
use crate::driver::candidate::{Candidate, Folders, find};
use crate::driver::causes::Refusal;
use crate::driver::parameters::{Given, given};
use crate::driver::report::{Code, Finding, Outcome};
use crate::driver::triplet;
use crate::modules::deps::name_of;
use crate::sys::kernel::error_name;
use std::io;

/// The error number for an error without one.
const EINVAL: i32 = 22;

impl Run<'_, '_> {
    pub(super) fn load_modules(&mut self) {
        let in_image = self.places.image_at.join("modules");
        let folders =
            Folders { image: self.image.is_some().then_some(&*in_image), kernel: &self.places.modules };
        let candidates = find(&folders, &self.wanted.modules);
        self.strangers(&candidates);
        let parts = self.image.as_ref().map(|(_, parts)| parts.clone()).unwrap_or_default();
        let description = self.image.as_ref().map(|(description, _)| description);
        let (findings, may_load) = triplet::check(description, &parts, &candidates, &self.places.release);
        self.report.findings.extend(findings);
        // A damaged image cannot be checked, so nothing is loaded then.
        let mut continues = may_load && !self.is_damaged;
        for candidate in &candidates {
            let (given, findings) = self.given(&candidate.name);
            self.report.findings.extend(findings);
            if let Some(why) = &candidate.absent {
                self.finds(Finding::fail(Code::DriverMissing, &candidate.name, why.clone()));
                continues = false;
            }
            // Recorded before the attempt: if it hangs, the draft names the module.
            self.report.modules.push(candidate.untried(given.line()));
            if continues {
                let (outcome, errno) = self.insert(candidate, &given.line());
                if let Some(module) = self.report.modules.last_mut() {
                    (module.outcome, module.errno, module.error) = (outcome, errno, errno.map(error_name));
                }
                continues = outcome.is_in();
            }
        }
    }

    /// The parameters of a module on this machine.
    pub(super) fn given(&self, module: &str) -> (Given, Vec<Finding>) {
        let description = self.image.as_ref().map(|(description, _)| description);
        given(module, description, self.gpus(), &self.wanted.parameters)
    }

    /// Reports parameters for modules that are not loaded.
    fn strangers(&mut self, candidates: &[Candidate]) {
        for module in self.wanted.parameters.keys() {
            if !candidates.iter().any(|candidate| name_of(&candidate.name) == name_of(module)) {
                let message = format!("driver.parameters: {module} is not among the modules that are loaded");
                self.report.findings.push(Finding::fail(Code::DriverParameters, module, message));
            }
        }
    }

    /// Passes one module to the kernel; returns the outcome and the error number.
    fn insert(&mut self, candidate: &Candidate, parameters: &str) -> (Outcome, Option<i32>) {
        let Some(file) = &candidate.file else { return (Outcome::Already, None) };
        self.say(&format!("loading {}", candidate.name));
        let result = (self.actions.insert)(file, parameters);
        let lines = self.log.evidence(&candidate.name);
        match result {
            Ok(()) => {
                self.said.extend(lines);
                (Outcome::Loaded, None)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (Outcome::Already, None),
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(EINVAL);
                let gpus = self.hardware.as_ref().map(|_| self.report.gpus.as_slice());
                let finding = Refusal { module: &candidate.name, errno, lines, gpus }.finding();
                self.finds(finding);
                (Outcome::Failed, Some(errno))
            }
        }
    }
}
