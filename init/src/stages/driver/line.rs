//! The line that the driver's stage prints: the most important result of the report, within the width of
//! the console.

use crate::driver::report::{Code, Report, Severity};

/// Columns that a stage's line has for what the stage did.
const WIDTH: usize = 58;

/// The most important result of a report.
pub(super) fn summary(report: &Report) -> String {
    let version = report
        .image
        .as_ref()
        .map(|image| version(&image.version, &image.patch));
    if !report.load {
        if report.image.is_none() && report.findings.is_empty() {
            return "this image carries no GPU driver: nothing loaded".to_owned();
        }
        let of = version.map_or_else(String::new, |version| format!(" of {version}"));
        return with_codes(&format!("driver.load = false: nothing loaded{of}"), report);
    }
    let first = report.modules.first();
    let own = first.and_then(|m| {
        Some(self::version(
            m.version.as_deref()?,
            m.patch.as_deref().unwrap_or(""),
        ))
    });
    let name = first.map_or("no module", |module| &module.name);
    let head = own
        .or(version)
        .map_or_else(|| name.to_owned(), |version| format!("{name} {version}"));
    if let Some(failed) = report.modules.iter().find(|module| !module.outcome.is_in()) {
        let error = failed
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(" ({error})"));
        if report
            .findings
            .iter()
            .any(|finding| finding.code == Code::DriverNoGpu)
        {
            return with_codes(&format!("{head}: no GPU{error}"), report);
        }
        let which = if failed.name == name {
            String::new()
        } else {
            format!("{} ", failed.name)
        };
        return with_codes(&format!("{head}: {which}not loaded{error}"), report);
    }
    let (gpus, nodes, held) = (report.gpus.len(), report.nodes.len(), report.held.len());
    let plural = if gpus == 1 { "" } else { "s" };
    with_codes(
        &format!("{head}, {gpus} GPU{plural}, {nodes} nodes, {held} held"),
        report,
    )
}

fn version(version: &str, patch: &str) -> String {
    if patch.is_empty() {
        version.to_owned()
    } else {
        format!("{version}+{patch}")
    }
}

/// Adds the codes of problems, as many as fit.
fn with_codes(line: &str, report: &Report) -> String {
    let wrong = report
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info);
    let mut codes: Vec<_> = wrong.map(|finding| finding.code.to_string()).collect();
    codes.dedup();
    let mut shown = line.to_owned();
    for (n, code) in codes.iter().enumerate() {
        let left = codes.len() - n;
        let more = if left > 1 {
            format!(" +{}", left - 1)
        } else {
            String::new()
        };
        if shown.chars().count() + 2 + code.len() + more.len() > WIDTH {
            let rest = format!(" +{left}");
            let room = WIDTH.saturating_sub(rest.len());
            return shown.chars().take(room).collect::<String>() + &rest;
        }
        shown = format!("{shown}, {code}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::report::{Finding, Image, Module, Node, Outcome};

    fn report(outcome: Outcome, error: Option<&str>) -> Report {
        let mut report = Report::new(true);
        report.image = Some(Image {
            version: "555.58.02".into(),
            source: "debian".into(),
            patch: "1".into(),
            kernel: "k".into(),
            nccl: "2".into(),
        });
        let module = |name: &str, outcome| Module {
            name: name.into(),
            file: String::new(),
            version: Some("555.58.02".into()),
            vermagic: None,
            patch: Some("1".into()),
            srcversion: None,
            parameters: String::new(),
            outcome,
            errno: None,
            error: error.map(str::to_owned),
        };
        report.modules.push(module("nvidia", outcome));
        let uvm = if outcome.is_in() {
            outcome
        } else {
            Outcome::NotTried
        };
        report.modules.push(module("nvidia-uvm", uvm));
        report
    }

    fn with(mut report: Report, codes: &[Code]) -> Report {
        report.findings.extend(
            codes
                .iter()
                .map(|code| Finding::fail(*code, "x", String::new())),
        );
        report
    }

    fn full() -> Report {
        let mut report = report(Outcome::Loaded, None);
        report.gpus = (0..8).map(|n| n.to_string()).collect();
        report.held.clone_from(&report.gpus);
        report.nodes = (0..19)
            .map(|minor| Node {
                path: String::new(),
                major: 195,
                minor,
            })
            .collect();
        report
    }

    #[test]
    fn the_line_has_version_patch_level_and_counts() {
        assert_eq!(
            summary(&full()),
            "nvidia 555.58.02+1, 8 GPUs, 19 nodes, 8 held"
        );
        let mut one = full();
        one.gpus.truncate(1);
        assert_eq!(summary(&one), "nvidia 555.58.02+1, 1 GPU, 19 nodes, 8 held");
        assert_eq!(
            summary(&with(full(), &[Code::GspMissing; 8])),
            "nvidia 555.58.02+1, 8 GPUs, 19 nodes, 8 held, GSP-MISSING"
        );
    }

    #[test]
    fn the_line_has_the_reason_why_a_module_is_not_loaded() {
        let none = report(Outcome::Failed, Some("ENODEV"));
        let mut no_gpu = with(none.clone(), &[Code::DriverNoGpu]);
        no_gpu.findings[0].severity = Severity::Info;
        assert_eq!(summary(&no_gpu), "nvidia 555.58.02+1: no GPU (ENODEV)");
        let no_irq = with(none, &[Code::GpuNoIrq]);
        assert_eq!(
            summary(&no_irq),
            "nvidia 555.58.02+1: not loaded (ENODEV), GPU-NO-IRQ"
        );
        let untried = with(report(Outcome::NotTried, None), &[Code::DriverMismatch]);
        assert_eq!(
            summary(&untried),
            "nvidia 555.58.02+1: not loaded, DRIVER-MISMATCH"
        );
        let mut uvm = report(Outcome::Loaded, None);
        uvm.modules[1].outcome = Outcome::Failed;
        uvm.modules[1].error = Some("ENOMEM".into());
        assert_eq!(
            summary(&with(uvm, &[])),
            "nvidia 555.58.02+1: nvidia-uvm not loaded (ENOMEM)"
        );
    }

    #[test]
    fn the_line_states_that_there_is_no_driver_or_that_none_was_wanted() {
        let mut off = Report::new(false);
        assert_eq!(
            summary(&off),
            "this image carries no GPU driver: nothing loaded"
        );
        let damaged = with(off.clone(), &[Code::DriverMissing]);
        assert_eq!(
            summary(&damaged),
            "driver.load = false: nothing loaded, DRIVER-MISSING"
        );
        off.image = full().image;
        assert_eq!(
            summary(&off),
            "driver.load = false: nothing loaded of 555.58.02+1"
        );
    }

    #[test]
    fn no_line_is_longer_than_its_column() {
        let all = [
            Code::DriverParameters,
            Code::NvswitchNoManager,
            Code::GspMissing,
            Code::GpuGone,
        ];
        for count in 0..=4 {
            for report in [
                full(),
                report(Outcome::Failed, Some("EKEYREJECTED")),
                Report::new(true),
            ] {
                let line = summary(&with(report, &all[..count]));
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
        assert!(
            summary(&with(full(), &all)).ends_with(" +4"),
            "{}",
            summary(&with(full(), &all))
        );
    }
}
