//! Turns a fault of CUDA or of a GPU into a test's finding, with its severity. A GPU that hangs or breaks its
//! context is faulty; a missing library says nothing about the GPU.

use super::free_memory;
use crate::gpu::GpuError;
use crate::outcome::finding::{Code, Finding, Severity, Subject};

/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`: libcuda and the kernel module are of different versions.
const MISMATCH: i32 = 803;

/// The finding that CUDA could not be started, so that nothing is known about the GPUs.
pub(in crate::suite) fn start_finding(error: &GpuError) -> Box<Finding> {
    let code = match error {
        GpuError::Library { .. } | GpuError::Symbol { .. } => Code::CudaMissing,
        GpuError::Image { .. } => Code::KernelImage,
        GpuError::Call { code: MISMATCH, .. } => Code::DriverMismatch,
        _ => Code::CudaStart,
    };
    let text = error.to_string();
    Box::new(code.finding(Severity::Error, Subject::Machine, text.as_str()).lacking([text.as_str()]))
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
