//! Whether any driver other than NVIDIA's holds a GPU, or is ready to bind to one.

use crate::suite::context::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::host::modules;
use machine::pcie::model::{Device, Fabric};
use outcome::Judgement;
use outcome::finding::{Code, Finding, ForeignDriver, Reason, Severity, Subject};
use outcome::test;
use outcome::text::count;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::DRIVERS,
    title: "Kernel drivers",
    proves: "no driver other than NVIDIA's is bound to a GPU or loaded for it, and NVIDIA's has the expected version",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let loaded = modules::loaded(&context.root, modules::FOREIGN)
        .map_err(|e| unreadable("sys/module", &e))?;
    let version = modules::nvidia_version(&context.root)
        .map_err(|e| unreadable("sys/module/nvidia/version", &e))?;
    Ok(judge(
        fabric,
        &loaded,
        version.as_deref(),
        context.config.expect.driver.as_deref(),
    ))
}

fn judge(
    fabric: &Fabric,
    loaded: &[&str],
    version: Option<&str>,
    expected: Option<&str>,
) -> Judgement {
    let on_gpus = fabric
        .devices
        .iter()
        .filter(|d| fabric.gpus.contains(&d.bdf));
    let bound = on_gpus.filter_map(|d| Some((d, d.driver.as_deref().filter(|n| *n != "nvidia")?)));
    let alone = version.is_none();
    let mut findings: Vec<_> = bound
        .map(|(gpu, driver)| held(gpu, driver, alone))
        .collect();
    findings.extend(loaded.iter().map(|module| {
        Code::DriverForeign
            .finding(
                Severity::Fail,
                Subject::part(module),
                format!("{module} is loaded, expected not to be"),
            )
            .values("loaded", "not loaded", None)
            .seen(format!("/sys/module/{module}"))
            .because(Reason::ForeignDriver(ForeignDriver {
                name: (*module).to_owned(),
                bound: false,
                alone,
            }))
    }));
    // A machine without GPUs needs no driver, even if the configuration names one.
    findings.extend(
        expected
            .filter(|_| !fabric.gpus.is_empty())
            .and_then(|e| mismatch(version, e)),
    );
    let guests = findings
        .iter()
        .filter(|f| f.severity == Severity::Info)
        .count();
    let summary = match (
        findings.iter().find(|f| f.severity > Severity::Info),
        version,
    ) {
        (Some(first), _) => first.message.to_string(),
        (None, Some(version)) if guests > 0 => {
            format!(
                "nvidia {version}; {} passed to virtual machines",
                count(guests, "GPU")
            )
        }
        (None, None) if guests > 0 => {
            format!("{} passed to virtual machines", count(guests, "GPU"))
        }
        (None, Some(version)) => format!("nvidia {version}; no other driver on a GPU"),
        (None, None) if fabric.gpus.is_empty() => {
            "no NVIDIA GPU; no driver for one is loaded".to_owned()
        }
        (None, None) => "no driver on a GPU, none loaded for one".to_owned(),
    };
    Judgement::of(summary, findings)
}

/// The finding about a GPU that another driver holds; `alone`: NVIDIA's is not loaded. Passing the GPU to a virtual machine
/// is no fault.
fn held(gpu: &Device, driver: &str, alone: bool) -> Finding {
    let bdf = gpu.bdf;
    let of_guest = gpu.pass_through_driver().is_some();
    let (severity, message) = if of_guest {
        (
            Severity::Info,
            format!("{bdf} is held by {driver} for a virtual machine"),
        )
    } else {
        (
            Severity::Fail,
            format!("{bdf} is held by {driver}, expected nvidia or none"),
        )
    };
    let finding = Code::DriverForeign
        .finding(severity, bdf, message)
        .values(driver, "nvidia", None)
        .seen(format!("/sys/bus/pci/devices/{bdf}/driver: {driver}"));
    finding.because(if of_guest {
        Reason::OfGuest
    } else {
        Reason::ForeignDriver(ForeignDriver {
            name: driver.to_owned(),
            bound: true,
            alone,
        })
    })
}

fn mismatch(version: Option<&str>, expected: &str) -> Option<Finding> {
    let (code, severity, message) = match version {
        Some(version) if version == expected => return None,
        Some(version) => (
            Code::DriverMismatch,
            Severity::Fail,
            format!("the NVIDIA driver is {version}, expected {expected}"),
        ),
        None => (
            Code::ExpectUnchecked,
            Severity::Error,
            format!("no NVIDIA driver is loaded, expected {expected}"),
        ),
    };
    Some(
        code.finding(severity, Subject::part("nvidia"), message)
            .values(version, expected, None),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use outcome::Outcome;

    fn with_driver(driver: Option<&str>) -> Fabric {
        let mut fabric = fixture::machine(2);
        let gpu = fabric.gpus[1];
        fixture::device(&mut fabric, gpu).driver = driver.map(str::to_owned);
        fabric
    }

    #[test]
    fn nvidias_driver_or_none_passes_and_any_other_is_named() {
        for driver in [None, Some("nvidia")] {
            assert_eq!(
                judge(&with_driver(driver), &[], None, None).outcome(),
                Outcome::Pass
            );
        }
        for driver in ["nouveau", "nvidiafb"] {
            let said = judge(&with_driver(Some(driver)), &[], None, None);
            assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::DriverForeign));
            assert!(said.summary.contains(driver), "{}", said.summary);
        }
    }

    #[test]
    fn a_gpu_of_a_virtual_machine_is_information() {
        let said = judge(&with_driver(Some("vfio-pci")), &[], Some("550.1"), None);
        assert_eq!(
            (said.outcome(), said.findings[0].severity),
            (Outcome::Pass, Severity::Info)
        );
        assert_eq!(
            said.summary,
            "nvidia 550.1; 1 GPU passed to virtual machines"
        );
        let worse = judge(&with_driver(Some("vfio-pci")), &["nouveau"], None, None);
        assert_eq!(
            (worse.outcome(), worse.summary.as_str()),
            (Outcome::Fail, "nouveau is loaded, expected not to be")
        );
    }

    #[test]
    fn a_loaded_foreign_driver_fails() {
        let said = judge(&with_driver(None), &["nouveau"], None, None);
        assert_eq!(said.outcome(), Outcome::Fail);
        assert_eq!(said.summary, "nouveau is loaded, expected not to be");
    }

    /// One remedy is one cause for the reader, and it names the module.
    #[test]
    fn a_bound_and_loaded_driver_has_one_remedy_with_its_name() {
        for (version, install) in [(None, true), (Some("550.1"), false)] {
            let said = judge(&with_driver(Some("nouveau")), &["nouveau"], version, None);
            let remedies: Vec<_> = said.findings.iter().map(Finding::shown_remedy).collect();
            assert!(
                remedies.len() == 2 && remedies[0] == remedies[1],
                "{remedies:?}"
            );
            assert!(
                remedies[0].contains("`module_blacklist=nouveau`"),
                "{remedies:?}"
            );
            assert_eq!(
                remedies[0].contains("install NVIDIA's driver"),
                install,
                "{remedies:?}"
            );
        }
    }

    #[test]
    fn the_version_must_be_the_expected_one() {
        let say = |version, expected| judge(&with_driver(Some("nvidia")), &[], version, expected);
        assert_eq!(say(Some("550.1"), Some("550.1")).outcome(), Outcome::Pass);
        assert!(say(Some("555.2"), Some("550.1")).findings[0].is(Code::DriverMismatch));
        assert_eq!(say(None, Some("550.1")).outcome(), Outcome::Error);
        assert_eq!(
            judge(&fixture::machine(0), &[], None, Some("550.1")).outcome(),
            Outcome::Pass
        );
    }
}
