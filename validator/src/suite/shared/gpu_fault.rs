//! Turns a fault of CUDA or of a GPU into a test's finding, with its severity. A GPU that hangs or breaks its
//! context is faulty; a missing library says nothing about the GPU.

use super::free_memory;
use crate::gpu::GpuError;
use crate::machine::host::nvidia::chip;
use crate::machine::pcie::model::Fabric;
use crate::outcome::finding::{Code, Finding, Reason, Severity, Subject};

/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`: libcuda and the kernel module are of different versions.
const MISMATCH: i32 = 803;

/// `CUDA_ERROR_NOT_INITIALIZED`, from `cuInit`: the driver's kernel part refused it.
const NOT_INITIALIZED: i32 = 3;

/// The finding that CUDA could not be started, so that nothing is known about the GPUs. `lacking`: the evidence that the
/// kernel cannot share page tables with a GPU here that needs it; it is read only if the error fits.
pub(in crate::suite) fn start_finding(error: &GpuError, lacking: impl FnOnce() -> Option<String>) -> Box<Finding> {
    let refused = matches!(error, GpuError::Call { call: "cuInit", code: NOT_INITIALIZED, .. });
    if let Some(evidence) = refused.then(lacking).flatten() {
        let finding = Code::CudaStart.finding(Severity::Error, Subject::Machine, error.to_string());
        return Box::new(finding.because(Reason::NoSharedPageTables).seen(evidence));
    }
    let code = match error {
        GpuError::Library { .. } | GpuError::Symbol { .. } => Code::CudaMissing,
        GpuError::Image { .. } => Code::KernelImage,
        GpuError::Call { code: MISMATCH, .. } => Code::DriverMismatch,
        _ => Code::CudaStart,
    };
    let text = error.to_string();
    Box::new(code.finding(Severity::Error, Subject::Machine, text.as_str()).lacking([text.as_str()]))
}

/// Whether a GPU can be one that shares the processor's page tables: GB10, which is in no table of chips, or the chips that
/// also exist with a link to Grace.
pub(in crate::suite) fn may_share_page_tables(fabric: &Fabric) -> bool {
    let gpus = fabric.devices.iter().filter(|device| fabric.gpus.contains(&device.bdf));
    let chip = |device: &str| chip::number(device).and_then(chip::of);
    gpus.map(|gpu| chip(&gpu.device)).any(|chip| chip.is_none_or(|chip| matches!(chip.name, "GH100" | "GB100")))
}

/// The finding about a fault in the middle of a test; `subject` is the GPU or the pair.
pub(in crate::suite) fn fault_finding(subject: impl Into<Subject>, error: &GpuError) -> Box<Finding> {
    let (code, severity) = match error {
        GpuError::Hang { .. } => (Code::P2pHang, Severity::Fail),
        _ if error.is_sticky() => (Code::CudaSticky, Severity::Fail),
        _ if free_memory::is_out_of_memory(error) => (Code::GpuInUse, Severity::Error),
        _ => (Code::CudaError, Severity::Error),
    };
    let text = error.to_string();
    Box::new(code.finding(severity, subject, text.as_str()).lacking([text.as_str()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;

    fn error(call: &'static str, code: i32) -> GpuError {
        GpuError::Call { call, code, name: "CUDA_ERROR".to_owned(), doing: "starting CUDA".to_owned() }
    }

    #[test]
    fn a_kernel_that_cannot_share_page_tables_is_the_cause_of_error_3() {
        let lacking = || Some("/boot/config-6.12.9: CONFIG_ARM_SMMU_V3_SVA is not set".to_owned());
        let found = start_finding(&error("cuInit", 3), lacking);
        assert!(found.is(Code::CudaStart) && found.severity == Severity::Error);
        assert_eq!(found.reason, Some(Reason::NoSharedPageTables));
        assert_eq!(found.evidence, ["/boot/config-6.12.9: CONFIG_ARM_SMMU_V3_SVA is not set"]);
        for (other, lacking) in
            [(error("cuInit", 3), None), (error("cuInit", 999), lacking()), (error("cuCtxCreate", 3), lacking())]
        {
            let found = start_finding(&other, || lacking);
            assert!(found.is(Code::CudaStart) && found.reason.is_none() && found.evidence.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn boards_never_share_page_tables_and_an_integrated_gpu_may() {
        let mut fabric = fixture::machine(1);
        let gpu = fabric.gpus[0];
        for (device, may) in
            [("0x2e12", true), ("0x2342", true), ("0x2941", true), ("0x2684", false), ("0x2204", false)]
        {
            fixture::device(&mut fabric, gpu).device = device.into();
            assert_eq!(may_share_page_tables(&fabric), may, "{device}");
        }
        assert!(!may_share_page_tables(&fixture::machine(0)));
    }
}
