//! Words that several forms of a report share: outcomes, severities, the machine.

use crate::outcome::Outcome;
use crate::outcome::finding::Severity;
use crate::report::{Report, TestEntry};

/// An outcome as rows show it.
pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "PASS",
        Outcome::Warn => "WARN",
        Outcome::Fail => "FAIL",
        Outcome::Error => "ERROR",
        Outcome::NotApplicable => "N/A",
    }
}

/// A severity as findings show it.
pub(super) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "INFO",
        Severity::Warn => "WARN",
        Severity::Fail => "FAIL",
        Severity::Error => "ERROR",
    }
}

/// `12 passed, 1 not applicable`
pub(super) fn counts(tests: &[TestEntry]) -> String {
    let count = |wanted| tests.iter().filter(|t| t.outcome == wanted).count();
    let told = |n: usize, word: &str| (n > 0).then(|| format!("{n} {word}"));
    let counts = [
        told(count(Outcome::Error), "without answer"),
        told(count(Outcome::Fail), "failed"),
        told(count(Outcome::Warn), "warned"),
        told(count(Outcome::Pass), "passed"),
        told(count(Outcome::NotApplicable), "not applicable"),
    ];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    if counts.is_empty() { "no test ran".to_owned() } else { counts.join(", ") }
}

/// firstlight's version, and the image's if there is one.
pub(super) fn version(report: &Report) -> &str {
    report.appliance.as_ref().map_or(env!("CARGO_PKG_VERSION"), |a| a.version.as_str())
}

/// The machine's host name.
pub(super) fn host(report: &Report) -> &str {
    report.machine.host.as_deref().unwrap_or("unknown")
}

/// The machine and its software, by short names; absent parts are omitted.
pub(super) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let driver = &report.driver;
    let dmi = |name: &str| report.machine.dmi.get(name)?.as_deref();
    let product: Vec<_> = ["sys_vendor", "product_name"].into_iter().filter_map(dmi).collect();
    let first = report.causes.first().map(|cause| format!("{} ({})", cause.remedy, cause.code));
    let facts = [
        ("answer", Some(report.answer.clone())),
        ("first", first),
        ("scope", Some(report.scope.to_string())),
        ("covers", Some(report.covers.clone())),
        ("gpus", Some(report.gpu_names())),
        ("recorded", report.is_recorded().then(|| report.root.clone())),
        ("product", (!product.is_empty()).then(|| product.join(" "))),
        ("host", Some(host(report).to_owned())),
        ("machine-id", report.machine.machine_id.clone()),
        ("serial", report.machine.serial.clone()),
        ("kernel", report.machine.kernel.clone()),
        ("driver", Some(driver.module.clone().unwrap_or_else(|| "none".to_owned()))),
        ("cuda", driver.cuda.clone()),
        ("nccl", driver.nccl.clone()),
        ("level", Some(report.level.to_string())),
        ("version", Some(version(report).to_owned())),
        ("image", report.appliance.as_ref().and_then(|a| a.image_id.clone())),
        ("fingerprint", Some(report.machine.fingerprint.clone())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
