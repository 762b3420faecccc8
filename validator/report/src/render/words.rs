//! Texts that several renderers share: outcomes, severities and facts of the machine.

use crate::{Gpu, Report, TestEntry};
use machine::GpuId;
use machine::pcie::model::{Bdf, Device, UNNAMED};
use machine::pcie::tree::Tree;
use outcome::Outcome;
use outcome::finding::Severity;

/// The word for an outcome.
pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "PASS",
        Outcome::Warn => "WARN",
        Outcome::Fail => "FAIL",
        Outcome::Error => "ERROR",
        Outcome::NotApplicable => "N/A",
    }
}

/// The word for a severity.
pub const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "INFO",
        Severity::Warn => "WARN",
        Severity::Fail => "FAIL",
        Severity::Error => "ERROR",
    }
}

/// `12 passed, 1 not applicable`
pub fn counts(tests: &[TestEntry]) -> String {
    let count = |wanted| tests.iter().filter(|t| t.outcome == wanted).count();
    let part = |n: usize, word: &str| (n > 0).then(|| format!("{n} {word}"));
    let counts = [
        part(count(Outcome::Error), "without answer"),
        part(count(Outcome::Fail), "failed"),
        part(count(Outcome::Warn), "warned"),
        part(count(Outcome::Pass), "passed"),
        part(count(Outcome::NotApplicable), "not applicable"),
    ];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    if counts.is_empty() {
        "no test ran".to_owned()
    } else {
        counts.join(", ")
    }
}

/// firstlight's version, and the image's if there is one.
pub fn version(report: &Report) -> &str {
    report
        .appliance
        .as_ref()
        .map_or(env!("CARGO_PKG_VERSION"), |a| a.version.as_str())
}

/// The machine's host name.
pub fn host(report: &Report) -> &str {
    report.machine.host.as_deref().unwrap_or("unknown")
}

/// The machine and its software, by short names; absent parts are omitted.
pub fn facts(report: &Report) -> Vec<(&'static str, String)> {
    all_facts(report)
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Every fact with or without its value. The names are also labels of a metric, which allows letters, digits and `_`.
pub fn all_facts(report: &Report) -> [(&'static str, Option<String>); 18] {
    let driver = &report.driver;
    let dmi = |name: &str| report.machine.dmi.get(name)?.as_deref();
    let product: Vec<_> = ["sys_vendor", "product_name"]
        .into_iter()
        .filter_map(dmi)
        .collect();
    let first = report
        .causes
        .first()
        .map(|cause| format!("{} ({})", cause.remedy, cause.code));
    [
        ("answer", Some(report.answer.clone())),
        ("first", first),
        ("scope", Some(report.scope.to_string())),
        ("covers", Some(report.covers.clone())),
        ("gpus", Some(report.gpu_names())),
        (
            "recorded",
            report.is_recorded().then(|| report.root.clone()),
        ),
        ("product", (!product.is_empty()).then(|| product.join(" "))),
        ("host", Some(host(report).to_owned())),
        ("machine_id", report.machine.machine_id.clone()),
        ("serial", report.machine.serial.clone()),
        ("kernel", report.machine.kernel.clone()),
        (
            "driver",
            Some(driver.module.clone().unwrap_or_else(|| "none".to_owned())),
        ),
        ("cuda", driver.cuda.clone()),
        ("nccl", driver.nccl.clone()),
        ("level", Some(report.level.to_string())),
        ("version", Some(version(report).to_owned())),
        (
            "image",
            report.appliance.as_ref().and_then(|a| a.image_id.clone()),
        ),
        ("fingerprint", Some(report.machine.fingerprint.clone())),
    ]
}

/// `GPU 0, 0000:01:00.0, slot 3`: a GPU by its number in the report; with its slot if the firmware numbers slots.
pub fn gpu(report: &Report, number: GpuId) -> String {
    let Some(gpu) = report.gpus.get(number.index()) else {
        return format!("GPU {number}");
    };
    let slot = slot(report, gpu.bdf)
        .map(|slot| format!(", slot {slot}"))
        .unwrap_or_default();
    format!("GPU {number}, {}{slot}", gpu.bdf)
}

/// A GPU's model: as the driver names it, or by the system's `pci.ids`.
pub fn model<'a>(report: &'a Report, gpu: &'a Gpu) -> &'a str {
    let devices = report.fabric.iter().flat_map(|fabric| &fabric.devices);
    let listed = || {
        devices
            .into_iter()
            .find(|device| device.bdf == gpu.bdf)
            .map_or(UNNAMED, Device::model_name)
    };
    gpu.name.as_deref().unwrap_or_else(listed)
}

/// The number of the slot that a function is in.
pub fn slot(report: &Report, bdf: Bdf) -> Option<u16> {
    Tree::of(report.fabric.as_ref()?).slot(bdf)
}
