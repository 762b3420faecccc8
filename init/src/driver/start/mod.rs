//! Starts the driver step by step; each step adds to the report: image, hardware, modules (`load`), and the
//! steps after them (`bring_up`). A step that fails is a finding, and the steps that need it are skipped.

mod bring_up;
mod daemon;
mod fabric_manager;
pub mod inputs;
mod load;
mod make_nodes;
mod nvlink5;
mod open_gpus;

use crate::driver::compatibility::ImageContent;
use crate::driver::description::Description;
use crate::driver::hardware::{Gpu, Hardware};
use crate::driver::image;
use crate::driver::kernel_lines::{LogCursor, initrd_unpack_time};
use crate::driver::nvlink5::bridges;
use crate::driver::report::{Code, Finding, Image, Report, Severity};
use crate::file_io::write_atomically;
use crate::modules::{deps, insert};
use crate::paths;
use inputs::{DriverPaths, DriverSettings, MachineActions};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Prefix of the line with the time that unpacking the initrd took.
pub const INITRD: &str = "initrd ";

/// One start of the driver.
struct DriverStart<'a, 'b> {
    places: &'a DriverPaths,
    wanted: &'a DriverSettings,
    actions: &'a mut MachineActions<'b>,
    report: Report,
    log: LogCursor,
    image: Option<(Description, ImageContent)>,
    /// Whether there is an image that cannot be used.
    is_damaged: bool,
    hardware: Option<Hardware>,
    /// The kernel's log lines from the time while the modules were loaded.
    module_log: Vec<String>,
    began: Instant,
}

/// Starts the driver as far as possible.
pub fn start(
    places: &DriverPaths,
    wanted: &DriverSettings,
    actions: &mut MachineActions<'_>,
) -> Report {
    let (report, log) = (Report::new(wanted.load), LogCursor::at_start(&places.log));
    let mut run = DriverStart {
        places,
        wanted,
        actions,
        report,
        log,
        image: None,
        is_damaged: false,
        hardware: None,
        module_log: Vec::new(),
        began: Instant::now(),
    };
    run.report_initrd_time();
    run.step("mounting the driver image", DriverStart::mount_image);
    run.step("looking for GPUs", DriverStart::look_for_gpus);
    if wanted.load {
        run.step("loading modules", DriverStart::load_modules);
    }
    if run.is_loaded("nvidia") {
        run.step("reading parameters back", DriverStart::read_parameters_back);
        run.step("making device nodes", DriverStart::make_nodes);
        run.step(
            "starting the fabric manager",
            DriverStart::start_fabric_manager,
        );
    }
    run.report.seconds = seconds(run.began.elapsed());
    run.report
}

/// Starts the driver on this machine and writes the report.
///
/// # Errors
/// A line with the reason why the report could not be written.
pub fn start_here(
    wanted: &DriverSettings,
    say: &mut dyn FnMut(&str),
    socket: BorrowedFd<'_>,
    loopback: &mut dyn FnMut(),
) -> Result<(), String> {
    let mut actions = MachineActions {
        insert: &mut insert,
        say,
        loopback,
        socket: Some(socket),
    };
    let report = start(&DriverPaths::of_this_machine(), wanted, &mut actions);
    write(Path::new(paths::DRIVER), &report)
}

/// Writes a report.
///
/// # Errors
/// A line with the file and the system's error.
pub fn write(path: &Path, report: &Report) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let text = serde_json::to_string(report).map_err(|e| failed(e.to_string()))?;
    write_atomically(path, (text + "\n").as_bytes()).map_err(|e| failed(e.to_string()))
}

/// Rounds to milliseconds.
pub(super) fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

impl DriverStart<'_, '_> {
    fn step(&mut self, name: &str, step: impl FnOnce(&mut Self)) {
        self.say(name);
        step(self);
    }

    /// Announces the next step and saves the report so far: if the step hangs, both are available.
    fn say(&mut self, next: &str) {
        self.report.seconds = seconds(self.began.elapsed());
        let draft = paths::DRIVER_DRAFT.rsplit('/').next().unwrap_or_default();
        // Process 1 reads the draft only if this hangs.
        let _only_a_draft = write(&self.places.run.join(draft), &self.report);
        (self.actions.say)(next);
    }

    fn add_finding(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    /// Reads the log from its beginning, once: later reads continue from here.
    fn report_initrd_time(&mut self) {
        if let Some(took) = self
            .log
            .new_lines()
            .ok()
            .and_then(|lines| initrd_unpack_time(&lines))
        {
            (self.actions.say)(&format!("{INITRD}{}", took.as_millis()));
        }
    }

    fn mount_image(&mut self) {
        if !self.places.image.exists() {
            return;
        }
        let (file, at) = (&self.places.image, &self.places.image_at);
        let read = image::mount(file, at).and_then(|()| image::read(at));
        let (description, parts) = match read {
            Ok(read) => read,
            Err(why) => {
                self.is_damaged = true;
                return self.add_finding(Finding::fail(Code::DriverMissing, "driver image", why));
            }
        };
        if let Err(why) = image::set_firmware_path(&self.places.at("sys"), at) {
            let message = format!("firmware will not be found after a switch of the root: {why}");
            let finding = Finding::fail(Code::DriverMissing, "firmware", message);
            self.add_finding(finding.as_severe_as(Severity::Warn));
        }
        self.report.image = Some(Image {
            version: description.version.clone(),
            source: description.source.clone(),
            patch: description.patch.clone(),
            kernel: description.kernel.clone(),
            nccl: description.nccl.clone(),
        });
        self.image = Some((description, parts));
    }

    fn look_for_gpus(&mut self) {
        match Hardware::read(&self.places.at("sys")) {
            Ok(hardware) => {
                self.report.gpus = hardware.addresses();
                self.report.nvswitches.clone_from(&hardware.nvswitches);
                // Only GPUs of data centers have NVSwitches, and only those of NVLink 5 hide them.
                let is_candidate = hardware.gpus.iter().any(|gpu| gpu.is_without_display);
                if is_candidate && hardware.nvswitches.is_empty() {
                    self.report.bridges = bridges(&self.places.at("sys")).unwrap_or_default();
                }
                self.hardware = Some(hardware);
                let families = self
                    .image
                    .as_ref()
                    .map_or_else(Vec::new, |(image, _)| image.families(self.gpus()));
                self.report.families = families.iter().map(|family| family.name.clone()).collect();
            }
            Err(why) => {
                let finding = Finding::fail(
                    Code::DriverFailed,
                    "PCI",
                    format!("GPUs cannot be listed: {why}"),
                );
                self.add_finding(finding.as_severe_as(Severity::Error));
            }
        }
    }

    /// Whether the module of that name is in the kernel.
    fn is_loaded(&self, module: &str) -> bool {
        self.report
            .modules
            .iter()
            .any(|m| m.outcome.is_in() && deps::module_name(&m.name) == module)
    }

    fn gpus(&self) -> &[Gpu] {
        self.hardware
            .as_ref()
            .map_or(&[], |hardware| &hardware.gpus)
    }

    /// How much of its time the start has left.
    fn time_left(&self) -> Duration {
        self.wanted.deadline.saturating_sub(self.began.elapsed())
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
