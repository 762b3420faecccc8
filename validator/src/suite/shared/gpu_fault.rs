//! Turns a fault of CUDA or of a GPU into a test's finding, with its severity. A GPU that hangs or breaks its
//! context is faulty; a missing library says nothing about the GPU.

use super::free_memory;
use gpu::GpuError;
use machine::host::nvidia::chip;
use machine::host::nvidia::managers::{Running, Switches};
use machine::pcie::model::{Bdf, Fabric};
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::{Judgement, Outcome};

/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`: libcuda and the kernel module are of different versions.
const MISMATCH: i32 = 803;

/// `CUDA_ERROR_NOT_INITIALIZED`, from `cuInit`: the driver's kernel part refused it.
const NOT_INITIALIZED: i32 = 3;

/// `CUDA_ERROR_SYSTEM_NOT_READY`: NVSwitches are not managed, or GPUs in a mode of confidential computing not declared ready.
const NOT_READY: i32 = 802;

/// The finding that CUDA could not be started, so that nothing is known about the GPUs. `lacking`: why the
/// kernel's part of the driver refuses CUDA here, where that is known, and the evidence. `unmanaged`: which program is missing where the machine has
/// NVSwitches, and the evidence. Each is read only if the error fits.
pub(in crate::suite) fn start_finding(
    error: &GpuError,
    lacking: impl FnOnce() -> Option<(Reason, String)>,
    unmanaged: impl FnOnce() -> Option<(Code, String)>,
) -> Box<Finding> {
    let waits = matches!(
        error,
        GpuError::Call {
            code: NOT_READY,
            ..
        }
    );
    if let Some((code, evidence)) = waits.then(unmanaged).flatten() {
        return Box::new(
            code.finding(Severity::Error, Subject::Machine, error.to_string())
                .seen(evidence),
        );
    }
    let refused = matches!(
        error,
        GpuError::Call {
            call: "cuInit",
            code: NOT_INITIALIZED,
            ..
        }
    );
    if let Some((reason, evidence)) = refused.then(lacking).flatten() {
        let finding = Code::CudaStart.finding(Severity::Error, Subject::Machine, error.to_string());
        return Box::new(finding.because(reason).seen(evidence));
    }
    let code = match error {
        GpuError::Library { .. } | GpuError::Symbol { .. } => Code::CudaMissing,
        GpuError::Image { .. } => Code::KernelImage,
        GpuError::Call { code: MISMATCH, .. } => Code::DriverMismatch,
        _ => Code::CudaStart,
    };
    let text = error.to_string();
    Box::new(
        code.finding(Severity::Error, Subject::Machine, text.as_str())
            .lacking([text.as_str()]),
    )
}

/// The program that is missing where CUDA is not ready, and the evidence; `None` without NVSwitches, or where all run.
pub(in crate::suite) fn unmanaged(
    switches: Option<&Switches>,
    running: Running,
) -> Option<(Code, String)> {
    let runs =
        |name: &str, runs: bool| format!("{name} {}", if runs { "runs" } else { "does not run" });
    let manager = runs("nv-fabricmanager", running.fabric_manager);
    let list = |all: &[Bdf]| {
        all.iter()
            .map(Bdf::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (code, evidence) = match switches? {
        Switches::Nvlink5(behind) => {
            let code = if running.nvlsm {
                Code::NvswitchNoManager
            } else {
                Code::Nvlink5NoNvlsm
            };
            let nvlsm = runs("nvlsm", running.nvlsm);
            (
                code,
                format!(
                    "NVSwitches of NVLink 5 behind {}: {nvlsm}, {manager}",
                    list(behind)
                ),
            )
        }
        Switches::OnBus(all) => (
            Code::NvswitchNoManager,
            format!("NVSwitches {}: {manager}", list(all)),
        ),
    };
    let runs = running.fabric_manager && code == Code::NvswitchNoManager;
    (!runs).then_some((code, evidence))
}

/// Whether a GPU can be one that shares the processor's page tables: GB10, which is in no table of chips, or the chips that
/// also exist with a link to Grace.
pub(in crate::suite) fn may_share_page_tables(fabric: &Fabric) -> bool {
    let gpus = fabric
        .devices
        .iter()
        .filter(|device| fabric.gpus.contains(&device.bdf));
    let chip = |device: &str| chip::number(device).and_then(chip::of);
    gpus.map(|gpu| chip(&gpu.device))
        .any(|chip| chip.is_none_or(|chip| matches!(chip.name, "GH100" | "GB100")))
}

/// The judgement with the fault that ended CUDA in this process, if the test did not notice it: its destructors free memory and
/// disable access, and return no error. A test that does not apply has proven nothing that the fault could make untrue.
pub(in crate::suite) fn with_unnoticed_loss(
    judgement: Judgement,
    loss: Option<GpuError>,
) -> Judgement {
    match (judgement.outcome(), loss) {
        (Outcome::Pass | Outcome::Warn, Some(error)) => {
            let finding = *fault_finding(Subject::Machine, &error);
            let summary = finding.message.to_string();
            let mut judgement = judgement.with(vec![finding]);
            judgement.summary = summary;
            judgement
        }
        (_, _) => judgement,
    }
}

/// The finding about a fault in the middle of a test; `subject` is the GPU or the pair.
pub(in crate::suite) fn fault_finding(
    subject: impl Into<Subject>,
    error: &GpuError,
) -> Box<Finding> {
    let (code, severity) = match error {
        GpuError::Hang { .. } => (Code::P2pHang, Severity::Fail),
        _ if error.is_sticky() => (Code::CudaSticky, Severity::Fail),
        _ if free_memory::is_out_of_memory(error) => (Code::GpuInUse, Severity::Error),
        _ => (Code::CudaError, Severity::Error),
    };
    let text = error.to_string();
    Box::new(
        code.finding(severity, subject, text.as_str())
            .lacking([text.as_str()]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;

    fn error(call: &'static str, code: i32) -> GpuError {
        GpuError::Call {
            call,
            code,
            name: "CUDA_ERROR".to_owned(),
            doing: "starting CUDA".to_owned(),
        }
    }

    #[test]
    fn a_loss_of_cuda_in_a_destructor_fails_the_test() {
        let loss = || Some(error("cuCtxDisablePeerAccess", 719));
        let fine = || Judgement::of("fine", Vec::new());
        let said = with_unnoticed_loss(fine(), loss());
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::CudaSticky));
        assert!(
            said.summary.contains("cuCtxDisablePeerAccess"),
            "{}",
            said.summary
        );
        assert_eq!(with_unnoticed_loss(fine(), None), fine());
        let none = || Judgement::not_applicable("the first test of NCCL failed");
        assert_eq!(with_unnoticed_loss(none(), loss()), none());
        let noticed = Judgement::by(*fault_finding(
            Subject::Machine,
            &error("cuLaunchKernel", 719),
        ));
        assert_eq!(with_unnoticed_loss(noticed.clone(), loss()), noticed);
    }

    #[test]
    fn what_the_kernel_lacks_is_the_cause_of_error_3() {
        let lacking = || {
            let seen = "/boot/config-6.12.9: CONFIG_ARM_SMMU_V3_SVA is not set";
            Some((Reason::NoSharedPageTables, seen.to_owned()))
        };
        let found = start_finding(&error("cuInit", 3), lacking, || None);
        assert!(found.is(Code::CudaStart) && found.severity == Severity::Error);
        assert_eq!(found.reason, Some(Reason::NoSharedPageTables));
        assert_eq!(
            found.evidence,
            ["/boot/config-6.12.9: CONFIG_ARM_SMMU_V3_SVA is not set"]
        );
        for (other, lacking) in [
            (error("cuInit", 3), None),
            (error("cuInit", 999), lacking()),
            (error("cuCtxCreate", 3), lacking()),
        ] {
            let found = start_finding(&other, || lacking, || None);
            assert!(
                found.is(Code::CudaStart) && found.reason.is_none() && found.evidence.is_empty(),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_system_that_is_not_ready_lacks_the_program_that_does_not_run() {
        let at: Bdf = "0000:05:00.0".parse().expect("an address");
        let (nvlink5, on_bus) = (Switches::Nvlink5(vec![at]), Switches::OnBus(vec![at]));
        let of = |switches, nvlsm, fabric_manager| {
            unmanaged(
                switches,
                Running {
                    nvlsm,
                    fabric_manager,
                },
            )
        };
        let code =
            |switches, nvlsm, manager| of(Some(switches), nvlsm, manager).map(|(code, _)| code);
        for manager in [false, true] {
            assert_eq!(code(&nvlink5, false, manager), Some(Code::Nvlink5NoNvlsm));
        }
        assert_eq!(code(&nvlink5, true, false), Some(Code::NvswitchNoManager));
        assert_eq!(code(&on_bus, false, false), Some(Code::NvswitchNoManager));
        assert_eq!(
            (code(&nvlink5, true, true), code(&on_bus, false, true)),
            (None, None)
        );
        assert_eq!(of(None, false, false), None);
        let (_, evidence) = of(Some(&nvlink5), false, false).expect("nvlsm is missing");
        assert_eq!(
            evidence,
            "NVSwitches of NVLink 5 behind 0000:05:00.0: nvlsm does not run, nv-fabricmanager does not run"
        );
        let missing = || Some((Code::Nvlink5NoNvlsm, evidence.clone()));
        let found = start_finding(&error("cuInit", 802), || None, missing);
        assert!(
            found.is(Code::Nvlink5NoNvlsm) && found.evidence == [evidence.clone()],
            "{found:?}"
        );
        assert!(start_finding(&error("cuInit", 802), || None, || None).is(Code::CudaStart));
        assert!(start_finding(&error("cuInit", 999), || None, missing).is(Code::CudaStart));
    }

    #[test]
    fn boards_never_share_page_tables_and_an_integrated_gpu_may() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        for (device, may) in [
            ("0x2e12", true),
            ("0x2342", true),
            ("0x2941", true),
            ("0x2684", false),
            ("0x2204", false),
        ] {
            fixture::device(&mut fabric, gpu).device = device.into();
            assert_eq!(may_share_page_tables(&fabric), may, "{device}");
        }
        assert!(!may_share_page_tables(&fixture::machine(0)));
    }
}
