//! Loads the modules: which files, with which parameters, whether they may be loaded, and the kernel's
//! response to each. After the first failure no further module is loaded.

use super::DriverStart;
use crate::driver::candidate::{ModuleCandidate, ModuleFolders, find_candidates};
use crate::driver::causes::ModuleRefusal;
use crate::driver::compatibility;
use crate::driver::parameters::{ModuleParameters, module_parameters};
use crate::driver::report::{Code, Finding, Outcome};
use crate::modules::deps::module_name;
use crate::sys::kernel::error_name;
use std::io;

/// The error number for an error without one.
const EINVAL: i32 = 22;

impl DriverStart<'_, '_> {
    pub(super) fn load_modules(&mut self) {
        let in_image = self.places.image_at.join("modules");
        let folders = ModuleFolders {
            image: self.image.is_some().then_some(&*in_image),
            kernel: &self.places.modules,
        };
        let candidates = find_candidates(&folders, &self.wanted.modules);
        self.report_unknown_modules(&candidates);
        let parts = self
            .image
            .as_ref()
            .map(|(_, parts)| parts.clone())
            .unwrap_or_default();
        let description = self.image.as_ref().map(|(description, _)| description);
        let (findings, may_load) =
            compatibility::check(description, &parts, &candidates, &self.places.release);
        self.report.findings.extend(findings);
        // A damaged image cannot be checked, so nothing is loaded then.
        let mut continues = may_load && !self.is_damaged;
        for candidate in &candidates {
            let (given, findings) = self.parameters_of(&candidate.name);
            self.report.findings.extend(findings);
            if let Some(why) = &candidate.absent {
                self.add_finding(Finding::fail(
                    Code::DriverMissing,
                    &candidate.name,
                    why.clone(),
                ));
                continues = false;
            }
            // Recorded before the attempt: if it hangs, the draft names the module.
            self.report
                .modules
                .push(candidate.report_entry(given.line()));
            if continues {
                let (outcome, errno) = self.insert(candidate, &given.line());
                if let Some(module) = self.report.modules.last_mut() {
                    (module.outcome, module.errno, module.error) =
                        (outcome, errno, errno.map(error_name));
                }
                continues = outcome.is_in();
            }
        }
    }

    /// The parameters of a module on this machine.
    pub(super) fn parameters_of(&self, module: &str) -> (ModuleParameters, Vec<Finding>) {
        let description = self.image.as_ref().map(|(description, _)| description);
        module_parameters(module, description, self.gpus(), &self.wanted.parameters)
    }

    /// Reports parameters for modules that are not loaded.
    fn report_unknown_modules(&mut self, candidates: &[ModuleCandidate]) {
        for module in self.wanted.parameters.keys() {
            if !candidates
                .iter()
                .any(|candidate| module_name(&candidate.name) == module_name(module))
            {
                let message =
                    format!("driver.parameters: {module} is not among the modules that are loaded");
                self.report
                    .findings
                    .push(Finding::fail(Code::DriverParameters, module, message));
            }
        }
    }

    /// Passes one module to the kernel; returns the outcome and the error number.
    fn insert(&mut self, candidate: &ModuleCandidate, parameters: &str) -> (Outcome, Option<i32>) {
        let Some(file) = &candidate.file else {
            return (Outcome::Already, None);
        };
        self.say(&format!("loading {}", candidate.name));
        let result = (self.actions.insert)(file, parameters);
        let lines = self.log.evidence(&candidate.name);
        match result {
            Ok(()) => {
                self.module_log.extend(lines);
                (Outcome::Loaded, None)
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (Outcome::Already, None),
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(EINVAL);
                let gpus = self.hardware.as_ref().map(|_| self.report.gpus.as_slice());
                let finding = ModuleRefusal {
                    module: &candidate.name,
                    errno,
                    lines,
                    gpus,
                }
                .finding();
                self.add_finding(finding);
                (Outcome::Failed, Some(errno))
            }
        }
    }
}
