//! Starts the driver step by step; each step adds to the report: image, hardware, modules (`load`), and the
//! steps after them (`bring_up`). A step that fails is a finding, and the steps that need it are skipped.

mod bring_up;
mod fabric_manager;
mod load;
mod make_nodes;
mod open_gpus;
pub mod places;

use crate::driver::description::Description;
use crate::driver::hardware::{Gpu, Hardware};
use crate::driver::image;
use crate::driver::kernel_lines::{Cursor, unpacking};
use crate::driver::report::{Code, Finding, Image, Report, Severity};
use crate::driver::triplet::Parts;
use crate::file_io::write_atomically;
use crate::modules::{deps, insert};
use crate::paths;
use places::{Actions, Places, Wanted};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Prefix of the line with the time that unpacking the initrd took.
pub const INITRD: &str = "initrd ";

/// One start of the driver.
struct Run<'a, 'b> {
    places: &'a Places,
    wanted: &'a Wanted,
    actions: &'a mut Actions<'b>,
    report: Report,
    log: Cursor,
    image: Option<(Description, Parts)>,
    /// Whether there is an image that cannot be used.
    is_damaged: bool,
    hardware: Option<Hardware>,
    /// The kernel's lines while the modules were loaded.
    said: Vec<String>,
    began: Instant,
}

/// Starts the driver as far as possible.
pub fn start(places: &Places, wanted: &Wanted, actions: &mut Actions<'_>) -> Report {
    let (report, log) = (Report::new(wanted.load), Cursor::at_start(&places.log));
    let mut run = Run {
        places,
        wanted,
        actions,
        report,
        log,
        image: None,
        is_damaged: false,
        hardware: None,
        said: Vec::new(),
        began: Instant::now(),
    };
    run.initrd();
    run.step("mounting the driver image", Run::mount_image);
    run.step("looking for GPUs", Run::look_for_gpus);
    if wanted.load {
        run.step("loading modules", Run::load_modules);
    }
    if run.has("nvidia") {
        run.step("reading parameters back", Run::read_parameters_back);
        run.step("making device nodes", Run::make_nodes);
        run.step("starting the fabric manager", Run::start_fabric_manager);
    }
    run.report.seconds = seconds(run.began.elapsed());
    run.report
}

/// Starts the driver on this machine and writes the report.
///
/// # Errors
/// A line with the reason why the report could not be written.
pub fn start_here(
    wanted: &Wanted,
    say: &mut dyn FnMut(&str),
    keeper: BorrowedFd<'_>,
    loopback: &mut dyn FnMut(),
) -> Result<(), String> {
    let mut actions = Actions { insert: &mut insert, say, loopback, keeper: Some(keeper) };
    let report = start(&Places::of_this_machine(), wanted, &mut actions);
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

impl Run<'_, '_> {
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

    fn finds(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }

    /// Reads the log from its beginning, once: later reads continue from here.
    fn initrd(&mut self) {
        if let Some(took) = self.log.new_lines().ok().and_then(|lines| unpacking(&lines)) {
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
                return self.finds(Finding::fail(Code::DriverMissing, "driver image", why));
            }
        };
        if let Err(why) = image::show_firmware(&self.places.at("sys"), at) {
            let message = format!("firmware will not be found after a switch of the root: {why}");
            let finding = Finding::fail(Code::DriverMissing, "firmware", message);
            self.finds(finding.as_severe_as(Severity::Warn));
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
                self.hardware = Some(hardware);
                let families =
                    self.image.as_ref().map_or_else(Vec::new, |(image, _)| image.families(self.gpus()));
                self.report.families = families.iter().map(|family| family.name.clone()).collect();
            }
            Err(why) => {
                let finding =
                    Finding::fail(Code::DriverFailed, "PCI", format!("GPUs cannot be listed: {why}"));
                self.finds(finding.as_severe_as(Severity::Error));
            }
        }
    }

    /// Whether the module of that name is in the kernel.
    fn has(&self, module: &str) -> bool {
        self.report.modules.iter().any(|m| m.outcome.is_in() && deps::name_of(&m.name) == module)
    }

    fn gpus(&self) -> &[Gpu] {
        self.hardware.as_ref().map_or(&[], |hardware| &hardware.gpus)
    }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
