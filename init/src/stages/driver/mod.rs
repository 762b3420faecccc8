//! The stage `driver`: a child starts the GPU driver, because every step of it can hang. The validator
//! judges the child's report, driver.json; here only its existence counts. Process 1 receives the open GPUs
//! and keeps them, so that they stay initialised without a daemon.

mod line;

use crate::child::{ChildResult, End, on_output};
use crate::config::types::Driver;
use crate::driver::hardware::Hardware;
use crate::driver::kernel_lines::{KMSG, LogCursor};
use crate::driver::report::Report;
use crate::driver::start::{INITRD, write};
use crate::driver::unfinished::UnfinishedStart;
use crate::fault::Fault;
use crate::file_io::{read_at_most, remove};
use crate::helper;
use crate::machine::Machine;
use crate::paths;
use crate::stages::result::StageResult;
use crate::sys::descriptors;
use contract::schema;
use log::debug;
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Additional time for each GPU, on top of `driver.timeout_s`.
const EACH_GPU: Duration = Duration::from_secs(15);
/// Size limit of the child's report.
const LARGEST: u64 = 16 << 20;

/// Starts the driver.
///
/// # Errors
/// Only an interruption.
pub fn load(m: &mut Machine, config: &Driver) -> Result<StageResult, Fault> {
    // Only a report of this boot counts.
    for old in [paths::DRIVER, paths::DRIVER_DRAFT] {
        let _not_there = remove(Path::new(old));
    }
    let (ours, theirs) = match descriptors::pair() {
        Ok(pair) => pair,
        Err(e) => return Ok(StageResult::Failed(format!("socketpair: {e}"))),
    };
    let mut log = LogCursor::at_end(Path::new(KMSG));
    let mut progress = Progress::default();
    // What is there decides, unless the configuration does: a driver can be added to a finished image.
    let load = config
        .load
        .unwrap_or_else(|| Path::new(paths::DRIVER_IMAGE).exists());
    let limit = if load {
        deadline(config.timeout_s, Path::new("/sys"))
    } else {
        config.timeout_s
    };
    let spec = helper::load_driver(config, load, limit, theirs);
    let done = m.run(&spec, &mut on_output(|line| progress.record(line)), |_| {
        true
    });
    drop(spec);
    // Done even if the boot was interrupted: closing an open GPU here could take long.
    let held = descriptors::receive_all(ours.as_fd());
    let received = held.len();
    m.held_devices.extend(held);
    m.initrd_unpack_time = progress.initrd;
    let done = done?;
    Ok(match read_report() {
        Ok(report) if done.end == End::Exited(helper::SUCCESS) => check_report(&report, received),
        _ => write_failure_report(load, &done, &progress.doing, log.evidence("")),
    })
}

/// `driver.timeout_s` and 15 seconds for each NVIDIA GPU on the bus.
fn deadline(timeout: Duration, sys: &Path) -> Duration {
    // If the bus cannot be read, the report says so.
    let gpus = Hardware::read(sys).map_or(0, |hardware| hardware.gpus.len());
    timeout.saturating_add(EACH_GPU.saturating_mul(u32::try_from(gpus).unwrap_or(u32::MAX)))
}

/// What the child reported while it ran.
#[derive(Debug, Default)]
struct Progress {
    doing: String,
    initrd: Option<Duration>,
}

impl Progress {
    fn record(&mut self, line: &str) {
        if let Some(milliseconds) = line.strip_prefix(INITRD) {
            self.initrd = milliseconds.parse().ok().map(Duration::from_millis);
        } else {
            debug!("driver: {line}");
            line.clone_into(&mut self.doing);
        }
    }
}

/// The report of the driver's start.
///
/// # Errors
/// A line with the file and what is wrong with it.
pub(super) fn read_report() -> Result<Report, String> {
    let bytes = read_at_most(Path::new(paths::DRIVER), LARGEST)
        .map_err(|e| format!("{}: {e}", paths::DRIVER))?;
    let report: Report =
        serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", paths::DRIVER))?;
    if report.schema == schema::DRIVER {
        Ok(report)
    } else {
        Err(format!("{}: schema {}", paths::DRIVER, report.schema))
    }
}

/// Checks that process 1 has the devices that the report says it holds: /dev/nvidiactl and the GPUs.
fn check_report(report: &Report, received: usize) -> StageResult {
    let _not_there = fs::remove_file(paths::DRIVER_DRAFT);
    let sent = if report.held.is_empty() {
        0
    } else {
        report.held.len() + 1
    };
    if received < sent {
        return StageResult::Failed(format!("{received} of {sent} open devices arrived"));
    }
    StageResult::Done(line::summary(report))
}

/// The child did not finish: writes the report in its place.
fn write_failure_report(
    load: bool,
    done: &ChildResult,
    doing: &str,
    lines: Vec<String>,
) -> StageResult {
    let draft = read_at_most(Path::new(paths::DRIVER_DRAFT), LARGEST)
        .map_err(|e| format!("{}: {e}", paths::DRIVER_DRAFT));
    let report = UnfinishedStart {
        load,
        draft,
        end: done.end,
        doing,
        lines,
        took: done.took,
    }
    .report();
    let cause = match done.end {
        End::Exited(_) => done.reason(),
        _ => report
            .findings
            .last()
            .map_or_else(|| done.end.to_string(), |finding| finding.message.clone()),
    };
    let written = write(Path::new(paths::DRIVER), &report);
    let _not_there = fs::remove_file(paths::DRIVER_DRAFT);
    StageResult::Failed(written.err().unwrap_or(cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;

    #[test]
    fn the_deadline_grows_with_the_gpus() {
        let device = |n: u32, file: &str| format!("bus/pci/devices/0000:0{n}:00.0/{file}");
        let text = [
            ("vendor", "0x10de\n"),
            ("class", "0x030000\n"),
            ("device", "0x2684\n"),
        ];
        let all: Vec<_> = (1..=8)
            .flat_map(|n| text.map(|(file, text)| (device(n, file), text)))
            .collect();
        let all: Vec<_> = all
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let limit = Duration::from_secs(300);
        assert_eq!(
            deadline(limit, files(&all).path()),
            Duration::from_secs(420)
        );
        assert_eq!(deadline(limit, Path::new("/none")), limit);
    }

    #[test]
    fn gpus_that_did_not_arrive_are_an_error_of_init() {
        let mut report = Report::new(true);
        report.held = (0..8).map(|n| n.to_string()).collect();
        assert!(matches!(check_report(&report, 9), StageResult::Done(_)));
        let lost = check_report(&report, 8);
        assert_eq!(
            lost.stage_error("driver").unwrap().cause,
            "8 of 9 open devices arrived"
        );
    }

    #[test]
    fn the_childs_progress_is_recorded() {
        let mut progress = Progress::default();
        progress.record("initrd 312");
        progress.record("opening /dev/nvidia3");
        assert_eq!(
            (progress.initrd, progress.doing.as_str()),
            (Some(Duration::from_millis(312)), "opening /dev/nvidia3")
        );
    }
}
