//! Is NVIDIA's driver there, of one piece, and made for this kernel? Module, libraries and firmware
//! must be of one version to the last digit: the driver refuses to talk to another. What init says
//! about its own driver stage becomes part of this verdict.

mod parts;

use super::machine::{Machine, known};
use super::{Group, READING, Test};
use crate::config::Level;
use crate::finding::{Code, Finding, Severity};
use crate::host::kmsg;
use crate::host::nvidia::account::Account;
use crate::outcome::Judgement;
use crate::pcie::model::Fabric;

pub(super) const TEST: Test = Test {
    id: "driver",
    title: "NVIDIA driver",
    proves: "module, libraries and GPU firmware of the driver are of one version, built for this kernel, and it has every GPU",
    level: Level::Quick,
    deadline: READING,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(machine: &Machine) -> Result<Judgement, Box<Finding>> {
    let fabric = machine.fabric()?;
    let nvidia = &machine.nvidia;
    let account = known(&nvidia.account)?.as_ref();
    let loaded = known(&nvidia.loaded)?.as_ref();
    let mut findings = account.map(Account::findings).unwrap_or_default();
    let Some(loaded) = loaded.filter(|_| !fabric.gpus.is_empty()) else {
        return Ok(without(fabric, account, findings));
    };
    findings.extend(parts::judge(nvidia, loaded, machine.identity.kernel.as_deref()));
    findings.extend(left_alone(fabric, &findings));
    findings.extend(complaints(machine.log.as_deref().unwrap_or_default()));
    let summary = match worst(&findings) {
        Some(finding) => finding.message.clone(),
        None => parts::summary(nvidia, loaded, machine.identity.kernel.as_deref()),
    };
    Ok(Judgement::of(summary, findings))
}

/// A machine on which the driver does not run. Without a GPU there is nothing to drive. With one,
/// only a person who said `driver.load = false` makes that a thing to leave unjudged; for everyone
/// else a GPU without its driver does not do what it must.
fn without(fabric: &Fabric, account: Option<&Account>, mut findings: Vec<Finding>) -> Judgement {
    let gpus = fabric.gpus.len();
    let why = match account {
        _ if gpus == 0 => match account.and_then(|a| a.module("nvidia")?.error.as_deref()) {
            Some(error) => format!("no NVIDIA GPU; loading nvidia came back with {error}"),
            None => "no NVIDIA GPU".to_owned(),
        },
        Some(account) if !account.load => format!("driver.load = false: {gpus} GPUs without their driver"),
        _ => {
            if worst(&findings).is_none_or(|f| f.severity < Severity::Fail) {
                findings.push(absent(gpus, account.is_some()));
            }
            String::new()
        }
    };
    match worst(&findings) {
        Some(finding) => Judgement::of(finding.message.clone(), findings),
        None => Judgement::not_applicable(why).with(findings),
    }
}

fn absent(gpus: usize, tried: bool) -> Finding {
    let message = format!("no NVIDIA driver is loaded for {gpus} GPUs");
    let finding = Code::DriverMissing
        .finding(Severity::Fail, "nvidia", message)
        .values("not loaded", "loaded", None)
        .seen("/sys/module/nvidia: not there");
    if tried { finding.because("init wanted to load it and does not say why it could not") } else { finding }
}

/// GPUs that answer, and that no driver has although NVIDIA's is loaded. One that another driver
/// holds is told by the test `drivers`, one that init names is told already.
fn left_alone(fabric: &Fabric, told: &[Finding]) -> Vec<Finding> {
    let gpus = fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf));
    let alone = gpus.filter(|d| d.driver.is_none() && !d.config.gone);
    let new = alone
        .filter(|d| !told.iter().any(|f| f.subject == d.bdf.to_string() && f.severity >= Severity::Fail));
    let finding = |bdf| {
        let message = format!("the NVIDIA driver is loaded and has not taken {bdf}");
        Code::GpuInit
            .finding(Severity::Fail, &bdf, message)
            .seen(format!("/sys/bus/pci/devices/{bdf}/driver: not there"))
    };
    new.map(|d| finding(d.bdf)).collect()
}

/// Programs of another version that called the driver since the machine started.
fn complaints(log: &[kmsg::Line]) -> Option<Finding> {
    let lines = kmsg::mentioning(log, &["NVRM: API mismatch"], 8);
    let first = lines.first()?;
    let message = format!("a program of another version called the driver: {first}");
    Some(Code::DriverMismatch.finding(Severity::Warn, "nvidia", message).seen_all(lines))
}

/// The worst finding that is more than information.
fn worst(findings: &[Finding]) -> Option<&Finding> {
    // The first of the worst: `max_by_key` would take the last.
    findings.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity)
}

#[cfg(test)]
mod tests;
