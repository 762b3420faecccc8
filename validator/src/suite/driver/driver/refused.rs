//! GPUs that NVIDIA's module did not accept, with the reason that it logged. A line counts as long as nothing shows that the
//! module of now is another one or has started the GPU.

use machine::host::faults::{Refused, refusals};
use machine::host::kmsg::Line;
use machine::host::nvidia::Nvidia;
use machine::host::nvidia::chip;
use machine::host::nvidia::module::LoadedModule;
use machine::pcie::model::{Device, Fabric};
use outcome::finding::{Code, DriverRefusal, Finding, Reason, Severity};

/// One finding for each GPU that the module refused and that no other driver holds. `loaded` is the module of now.
pub(super) fn findings(
    fabric: &Fabric,
    nvidia: &Nvidia,
    loaded: Option<&LoadedModule>,
    lines: &[Line],
) -> Vec<Finding> {
    let all = refusals(lines);
    let free = |gpu: &&Device| matches!(gpu.driver.as_deref(), None | Some("nvidia"));
    let gpus: Vec<_> = fabric
        .devices
        .iter()
        .filter(|gpu| fabric.gpus.contains(&gpu.bdf) && !gpu.config.gone)
        .collect();
    let held = gpus.iter().any(|gpu| !free(gpu));
    let of = |gpu: &Device| {
        let own = all.iter().rfind(|refused| refused.concerns(gpu));
        // A line that names no GPU is about one that is held even now, if there is one.
        let unnamed = || {
            let alone = gpu.driver.is_none() && loaded.is_some() && !held;
            all.iter().rfind(|refused| alone && refused.is_unnamed())
        };
        let refused = own.or_else(unnamed)?;
        counts(refused, gpu, nvidia, loaded).then(|| finding(refused, gpu))
    };
    gpus.iter().copied().filter(free).filter_map(of).collect()
}

/// Whether the refusal holds still.
fn counts(
    refused: &Refused<'_>,
    gpu: &Device,
    nvidia: &Nvidia,
    loaded: Option<&LoadedModule>,
) -> bool {
    // The driver knows the identity of a GPU that it has started.
    let known = nvidia
        .gpus
        .as_ref()
        .ok()
        .and_then(|gpus| gpus.get(&gpu.bdf.to_string()));
    let started = gpu.driver.is_some() && known.is_some_and(|gpu| gpu.uuid.is_some());
    let open = loaded.map(|module| module.open);
    let other_module = match refused.why {
        DriverRefusal::NeedsOpen => open == Some(true),
        DriverRefusal::NoGsp | DriverRefusal::NoVgpu => open == Some(false),
        DriverRefusal::Held(_) => gpu.driver.is_some(),
        DriverRefusal::OtherRelease | DriverRefusal::Legacy(_) => false,
    };
    !started && !other_module
}

fn finding(refused: &Refused<'_>, gpu: &Device) -> Finding {
    let code = match refused.why {
        DriverRefusal::NoGsp => Code::GpuNoGsp,
        DriverRefusal::Held(_) => Code::GpuInit,
        _ => Code::GpuUnsupported,
    };
    let message = format!(
        "NVIDIA's module did not accept {}: kmsg: {}",
        gpu.bdf, refused.message
    );
    let seen = refused.lines.iter().map(|line| format!("kmsg: {line}"));
    let finding = code
        .finding(Severity::Fail, gpu.bdf, message)
        .seen_all(seen.collect());
    // A newer GPU has a system processor: then the module could not read the GPU's registers.
    let has_gsp = refused.why == DriverRefusal::NoGsp
        && !chip::number(&gpu.device).is_some_and(chip::is_before_turing);
    if has_gsp {
        finding
    } else {
        finding.because(Reason::Refused(refused.why.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use machine::host::kmsg::sample as log;
    use machine::host::nvidia::fixture::nvidia;
    use machine::pcie::model::Bdf;

    const GPU: &str = "NVRM: The NVIDIA GPU 0000:10:00.0 (PCI ID: 10de:1b80)";
    const NEEDS_OPEN: &str =
        "NVRM: installed in this system requires use of the NVIDIA open kernel modules.";
    const NO_GSP: &str = "NVRM: installed in this system is not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP).";

    /// The findings about two GPUs: the first has this device id and driver; `open`: the flavour of the loaded module.
    fn said(lines: &[&str], id: &str, driver: Option<&str>, open: Option<bool>) -> Vec<Finding> {
        let mut fabric = fixture::machine(2);
        let first = fabric.gpus[0];
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).driver = Some("nvidia".to_owned());
        }
        let gpu = fixture::device(&mut fabric, first);
        (gpu.device, gpu.driver) = (id.to_owned(), driver.map(str::to_owned));
        // It has started none.
        let nvidia = nvidia("580.95.05", 0);
        let mut module = nvidia.loaded.clone().unwrap().unwrap();
        module.open = open.unwrap_or_default();
        findings(&fabric, &nvidia, open.map(|_| &module), &log(lines))
    }

    #[track_caller]
    fn one(found: &[Finding]) -> (Code, Option<Reason>) {
        let [finding] = found else {
            panic!("one of {found:?}")
        };
        let at: Bdf = "0000:10:00.0".parse().unwrap();
        assert_eq!(
            (finding.subject.address(), finding.severity),
            (Some(at), Severity::Fail)
        );
        (finding.code, finding.reason.clone())
    }

    #[test]
    fn the_flavour_that_drives_the_gpu_is_the_remedy() {
        let found = said(&[GPU, NEEDS_OPEN], "0x2b85", None, Some(false));
        let needs = (
            Code::GpuUnsupported,
            Some(Reason::Refused(DriverRefusal::NeedsOpen)),
        );
        assert_eq!(one(&found), needs);
        assert!(
            found[0].shown_remedy().contains("install the open flavour"),
            "{found:?}"
        );
        let found = said(&[GPU, NO_GSP], "0x1b80", None, Some(true));
        let lacks = (Code::GpuNoGsp, Some(Reason::Refused(DriverRefusal::NoGsp)));
        assert_eq!(one(&found), lacks);
        assert!(
            found[0]
                .shown_remedy()
                .contains("closed flavour of NVIDIA's driver 580 or older")
        );
        // The module was not loaded at all, or the GPU is bound and was never started.
        assert_eq!(one(&said(&[GPU, NO_GSP], "0x1b80", None, None)), lacks);
        let init = "NVRM: GPU 0000:10:00.0: RmInitAdapter failed! (0x24:0x72:1603)";
        assert_eq!(
            one(&said(
                &[GPU, NO_GSP, init],
                "0x1b80",
                Some("nvidia"),
                Some(true)
            )),
            lacks
        );
    }

    #[test]
    fn a_newer_gpu_whose_registers_cannot_be_read_needs_no_other_flavour() {
        let found = said(&[GPU, NO_GSP], "0x2331", None, Some(true));
        assert_eq!(one(&found), (Code::GpuNoGsp, None));
    }

    #[test]
    fn a_refusal_of_another_module_or_of_a_gpu_that_another_driver_holds_is_none() {
        assert_eq!(said(&[GPU, NEEDS_OPEN], "0x2b85", None, Some(true)), []);
        assert_eq!(said(&[GPU, NO_GSP], "0x1b80", None, Some(false)), []);
        assert_eq!(
            said(&[GPU, NO_GSP], "0x1b80", Some("vfio-pci"), Some(true)),
            []
        );
    }

    #[test]
    fn a_gpu_that_was_held_when_the_module_came_is_loaded_again() {
        let uncalled = "NVRM: The NVIDIA probe routine was not called for 1 device(s).";
        let held = |name: Option<&str>| {
            let name = name.map(Into::into);
            (
                Code::GpuInit,
                Some(Reason::Refused(DriverRefusal::Held(name))),
            )
        };
        assert_eq!(
            one(&said(&[uncalled], "0x2684", None, Some(true))),
            held(None)
        );
        assert_eq!(
            said(&[uncalled], "0x2684", Some("vfio-pci"), Some(true)),
            []
        );
        assert_eq!(said(&[uncalled], "0x2684", Some("nvidia"), Some(true)), []);
        let bound = "NVRM: GPU 0000:10:00.0 is already bound to nouveau.";
        let found = said(&[bound, uncalled], "0x2684", None, Some(true));
        assert_eq!(one(&found), held(Some("nouveau")));
        assert!(found[0].shown_remedy().contains("module_blacklist=nouveau"));
    }
}
