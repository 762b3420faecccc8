//! Whether NVIDIA's driver is loaded, consistent, and built for this kernel. Module, libraries and firmware
//! must have exactly the same version: the driver refuses any other. init's findings about its driver stage
//! become part of this verdict.

mod parts;
mod refused;

use crate::suite::context::{TestContext, known};
use crate::suite::{FILE_DEADLINE, Group, Test};
use machine::host::kmsg;
use machine::host::nvidia::account::{self, Account};
use machine::pcie::model::{Bdf, Device, Fabric};
use outcome::Judgement;
use outcome::finding::{Code, Finding, ForeignDriver, Reason, Severity, Subject};
use outcome::test;
use outcome::text::count;
use report::Level;
use std::collections::BTreeMap;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::DRIVER,
    title: "NVIDIA driver",
    proves: "module, libraries and GPU firmware of the driver have one version, the module was built for this kernel, and it is bound to every GPU",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let nvidia = &context.nvidia;
    let account = known(&nvidia.account)?.as_ref();
    let loaded = known(&nvidia.loaded)?.as_ref();
    let mut findings = account.map(account::findings).unwrap_or_default();
    let lines = context.log.as_deref().unwrap_or_default();
    let mut refused = refused::findings(fabric, nvidia, loaded, lines);
    // On the appliance init has read the same lines.
    refused.retain(|new| !findings.iter().any(|known| known.is(new.code)));
    let Some(loaded) = loaded.filter(|_| fabric.gpus.len() > of_guests(fabric)) else {
        return Ok(judge_unloaded(fabric, account, findings, refused));
    };
    findings.extend(refused);
    findings.extend(parts::judge(
        nvidia,
        loaded,
        context.identity.kernel.as_deref(),
    ));
    findings.extend(unbound_gpus(fabric, &findings));
    findings.extend(api_mismatch(lines));
    let summary = match worst(&findings) {
        Some(finding) => finding.message.to_string(),
        None => parts::summary(nvidia, loaded, context.identity.kernel.as_deref()),
    };
    Ok(Judgement::of(summary, findings))
}

/// Judges a machine on which the driver does not run. Without a GPU no driver is needed. With a GPU only an image without a
/// driver and `driver.load = false` excuse that; otherwise a GPU without its driver fails. `refused` are those that a module did
/// not accept, so that it was not loaded.
fn judge_unloaded(
    fabric: &Fabric,
    account: Option<&Account>,
    mut findings: Vec<Finding>,
    refused: Vec<Finding>,
) -> Judgement {
    let passed = of_guests(fabric);
    let gpus = fabric.gpus.len().saturating_sub(passed);
    let why = match account {
        _ if gpus == 0 && passed > 0 => format!(
            "{} passed to virtual machines, no other",
            count(passed, "GPU")
        ),
        _ if gpus == 0 => match account.and_then(|a| a.module("nvidia")?.error.as_deref()) {
            Some(error) => format!("no NVIDIA GPU; loading nvidia failed with {error}"),
            None => "no NVIDIA GPU".to_owned(),
        },
        Some(account) if !account.load => {
            let cause = if account.image.is_some() {
                "driver.load = false"
            } else {
                "the image carries no GPU driver"
            };
            format!("{cause}: {} without a driver", count(gpus, "GPU"))
        }
        _ => {
            if worst(&findings).is_none_or(|f| f.severity < Severity::Fail) {
                let held = held_by_others(fabric);
                let free = gpus.saturating_sub(held.values().sum::<usize>() + refused.len());
                findings.extend(refused);
                findings.extend((free > 0).then(|| not_loaded(free, account.is_some())));
                findings.extend(
                    held.into_iter()
                        .map(|(driver, gpus)| held_instead(driver, gpus)),
                );
            }
            String::new()
        }
    };
    match worst(&findings) {
        Some(finding) => Judgement::of(finding.message.to_string(), findings),
        None => Judgement::not_applicable(why).with(findings),
    }
}

/// How many GPUs are passed to virtual machines, where their driver is.
fn of_guests(fabric: &Fabric) -> usize {
    let passed =
        |gpu: &&Device| fabric.gpus.contains(&gpu.bdf) && gpu.pass_through_driver().is_some();
    fabric.devices.iter().filter(passed).count()
}

/// How many GPUs each other driver holds, other than for virtual machines.
fn held_by_others(fabric: &Fabric) -> BTreeMap<&str, usize> {
    let mut held = BTreeMap::new();
    for gpu in fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf) && d.pass_through_driver().is_none())
    {
        if let Some(driver) = gpu.driver.as_deref().filter(|name| *name != "nvidia") {
            *held.entry(driver).or_default() += 1;
        }
    }
    held
}

/// GPUs that another driver holds lack NVIDIA's because of it: their finding is that of the test `drivers`.
fn held_instead(driver: &str, gpus: usize) -> Finding {
    let message = format!(
        "no NVIDIA driver is loaded: {driver} holds {}",
        count(gpus, "GPU")
    );
    Code::DriverForeign
        .finding(Severity::Fail, Subject::part(driver), message)
        .values(driver, "nvidia", None)
        .seen("/sys/module/nvidia: missing")
        .because(Reason::ForeignDriver(ForeignDriver {
            name: driver.to_owned(),
            bound: true,
            alone: true,
        }))
}

fn not_loaded(gpus: usize, tried: bool) -> Finding {
    let message = format!("no NVIDIA driver is loaded for {}", count(gpus, "GPU"));
    let finding = Code::DriverMissing
        .finding(Severity::Fail, Subject::part("nvidia"), message)
        .values("not loaded", "loaded", None)
        .seen("/sys/module/nvidia: missing");
    finding.because(if tried {
        Reason::LoadFailed
    } else {
        Reason::NotLoaded
    })
}

/// GPUs that respond but are not bound although NVIDIA's driver is loaded. The test `drivers` reports those
/// that another driver holds; those in `known`, which init names, are reported already.
fn unbound_gpus(fabric: &Fabric, known: &[Finding]) -> Vec<Finding> {
    let gpus = fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf));
    let alone = gpus.filter(|d| d.driver.is_none() && !d.config.gone);
    let is_known = |bdf| {
        known
            .iter()
            .any(|f| f.subject == Subject::from(bdf) && f.severity >= Severity::Fail)
    };
    let new = alone.filter(|d| !is_known(d.bdf));
    let finding = |bdf: Bdf| {
        let message = format!("the NVIDIA driver is loaded but not bound to {bdf}");
        let finding = Code::GpuInit
            .finding(Severity::Fail, bdf, message)
            .because(Reason::NotBound);
        finding.seen(format!("/sys/bus/pci/devices/{bdf}/driver: missing"))
    };
    new.map(|d| finding(d.bdf)).collect()
}

/// Programs of another version that called the driver since the machine started.
fn api_mismatch(log: &[kmsg::Line]) -> Option<Finding> {
    let lines = kmsg::mentioning(log, &["NVRM: API mismatch"], 8);
    let first = lines.first()?;
    let message = format!("a program of another version called the driver: {first}");
    Some(
        Code::DriverMismatch
            .finding(Severity::Warn, Subject::part("nvidia"), message)
            .seen_all(lines),
    )
}

/// The worst finding, if it is more than information.
fn worst(findings: &[Finding]) -> Option<&Finding> {
    // The first of the worst: `max_by_key` would return the last.
    findings
        .iter()
        .rev()
        .filter(|f| f.severity > Severity::Info)
        .max_by_key(|f| f.severity)
}

#[cfg(test)]
mod tests {
    //! With and without GPUs, with and without a driver, with and without init's report.

    use super::*;
    use crate::suite::shared::fixture;
    use machine::host::nvidia::fixture::account_with as with;
    use outcome::Outcome;
    use serde_json::json;
    use std::time::Duration;

    fn noted(code: &str, severity: &str) -> Vec<Finding> {
        let noted = json!([{ "code": code, "severity": severity, "subject": "nvidia", "message": "said", "evidence": [] }]);
        account::findings(&with("/findings", noted))
    }

    fn enodev() -> Account {
        with("/modules/0/error", json!("ENODEV"))
    }

    #[test]
    fn no_gpu_is_not_applicable_and_enodev_is_named() {
        let none = fixture::machine(0);
        assert_eq!(
            judge_unloaded(&none, None, vec![], vec![]),
            Judgement::not_applicable("no NVIDIA GPU")
        );
        let said = judge_unloaded(
            &none,
            Some(&enodev()),
            noted("DRIVER-NO-GPU", "info"),
            vec![],
        );
        assert_eq!(
            (said.outcome(), said.findings.len()),
            (Outcome::NotApplicable, 1)
        );
        assert_eq!(
            said.summary,
            "no NVIDIA GPU; loading nvidia failed with ENODEV"
        );
    }

    #[test]
    fn a_failed_stage_is_reported_even_without_a_gpu() {
        let said = judge_unloaded(
            &fixture::machine(0),
            Some(&enodev()),
            noted("DRIVER-TIMEOUT", "error"),
            vec![],
        );
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Error, "said")
        );
    }

    #[test]
    fn a_gpu_without_its_driver_fails_unless_configured() {
        let two = fixture::machine(2);
        let said = judge_unloaded(&two, None, vec![], vec![]);
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::DriverMissing));
        let left_out = with("/load", json!(false));
        let said = judge_unloaded(&two, Some(&left_out), vec![], vec![]);
        assert_eq!(said.outcome(), Outcome::NotApplicable);
        assert_eq!(said.summary, "driver.load = false: 2 GPUs without a driver");
        let without = Account {
            image: None,
            ..left_out
        };
        let said = judge_unloaded(&two, Some(&without), vec![], vec![]);
        assert_eq!(said.outcome(), Outcome::NotApplicable);
        assert_eq!(
            said.summary,
            "the image carries no GPU driver: 2 GPUs without a driver"
        );
    }

    #[test]
    fn a_gpu_that_another_driver_holds_lacks_nothing_else() {
        let mut two = fixture::machine(2);
        let [first, second] = two.gpus[..] else {
            panic!("two")
        };
        fixture::device(&mut two, first).driver = Some("nouveau".into());
        let said = judge_unloaded(&two, None, vec![], vec![]);
        let found: Vec<_> = said
            .findings
            .iter()
            .map(|f| (f.code, f.message.as_str()))
            .collect();
        let foreign = (
            Code::DriverForeign,
            "no NVIDIA driver is loaded: nouveau holds 1 GPU",
        );
        assert_eq!(
            found,
            [
                (Code::DriverMissing, "no NVIDIA driver is loaded for 1 GPU"),
                foreign
            ]
        );
        fixture::device(&mut two, second).driver = Some("nouveau".into());
        let said = judge_unloaded(&two, None, vec![], vec![]);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Fail, 1));
        assert_eq!(
            said.summary,
            "no NVIDIA driver is loaded: nouveau holds 2 GPUs"
        );
    }

    #[test]
    fn a_driver_that_init_could_not_load_is_never_a_pass() {
        let two = fixture::machine(2);
        for (severity, outcome) in [("fail", Outcome::Fail), ("error", Outcome::Error)] {
            let said = judge_unloaded(
                &two,
                Some(&enodev()),
                noted("DRIVER-VERMAGIC", severity),
                vec![],
            );
            assert_eq!((said.outcome(), said.findings.len()), (outcome, 1));
        }
        let silent = judge_unloaded(
            &two,
            Some(&enodev()),
            noted("DRIVER-NO-GPU", "info"),
            vec![],
        );
        assert_eq!(
            (silent.outcome(), silent.findings.len()),
            (Outcome::Fail, 2)
        );
        assert_eq!(silent.findings[1].reason, Some(Reason::LoadFailed));
    }

    #[test]
    fn a_gpu_that_the_module_refused_does_not_lack_a_driver_too() {
        let two = fixture::machine(2);
        let of = |gpu: &Bdf| Code::GpuNoGsp.finding(Severity::Fail, *gpu, "refused");
        let both = two.gpus.iter().map(of).collect();
        let said = judge_unloaded(&two, None, vec![], both);
        assert!(said.findings.len() == 2 && said.findings.iter().all(|f| f.is(Code::GpuNoGsp)));
        let said = judge_unloaded(&two, None, vec![], vec![of(&two.gpus[0])]);
        let codes: Vec<_> = said.findings.iter().map(|f| f.code).collect();
        assert_eq!(codes, [Code::GpuNoGsp, Code::DriverMissing]);
    }

    #[test]
    fn an_unbound_gpu_fails_once() {
        let mut fabric = fixture::machine(3);
        let [first, second, gone] = fabric.gpus[..] else {
            panic!("three")
        };
        fixture::device(&mut fabric, first).driver = Some("nvidia".into());
        fixture::device(&mut fabric, gone).config.gone = true;
        let found = unbound_gpus(&fabric, &[]);
        assert!(
            found.len() == 1
                && found[0].is(Code::GpuInit)
                && found[0].subject == Subject::from(second)
        );
        assert_eq!(unbound_gpus(&fabric, &found), vec![]);
    }

    #[test]
    fn a_program_of_another_version_warns() {
        let line = |text: &str| kmsg::Line {
            seq: 0,
            at: Duration::ZERO,
            text: text.into(),
        };
        let log = [line("NVRM: API mismatch: the client has the version 1.0")];
        assert_eq!(api_mismatch(&log).map(|f| f.severity), Some(Severity::Warn));
        assert_eq!(api_mismatch(&[line("NVRM: fine")]), None);
    }

    #[test]
    fn the_first_of_the_worst_is_reported() {
        let found = [
            noted("DRIVER-NO-GPU", "info"),
            noted("GPU-INIT", "fail"),
            noted("GPU-VBIOS", "fail"),
        ]
        .concat();
        assert!(worst(&found).is_some_and(|f| f.is(Code::GpuInit)));
        assert_eq!(worst(&found[..1]), None);
    }

    #[test]
    fn gpus_of_virtual_machines_need_no_driver_here() {
        let mut fabric = fixture::machine(2);
        for (gpu, others) in fabric.gpus.clone().into_iter().zip([1, 0]) {
            fixture::device(&mut fabric, gpu).driver = Some("vfio-pci".into());
            let said = judge_unloaded(&fabric, None, vec![], vec![]);
            let outcome = if others == 0 {
                Outcome::NotApplicable
            } else {
                Outcome::Fail
            };
            assert_eq!(said.outcome(), outcome, "{said:?}");
        }
    }

    #[test]
    fn a_gpu_that_is_not_bound_has_a_cause_that_names_no_line_of_the_log() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu).driver = None;
        let found = unbound_gpus(&fabric, &[]);
        assert!(
            found[0].is(Code::GpuInit) && !found[0].shown_cause().contains("log line"),
            "{found:?}"
        );
    }
}
