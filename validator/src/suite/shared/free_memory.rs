//! Whether GPUs have enough free memory for the tests: if other processes have filled a GPU's memory, there is one
//! clear finding instead of a fault for each transfer.

use gpu::{Clique, GpuError};
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity, Subject};

/// `CUDA_ERROR_OUT_OF_MEMORY`
const OUT_OF_MEMORY: i32 = 2;

/// The free memory that a test of transfers needs at least, bytes.
pub(in crate::suite) const MIN_FREE: u64 = 32 << 20;

/// Whether the error means that memory is short.
pub(in crate::suite) fn is_out_of_memory(error: &GpuError) -> bool {
    error.code() == Some(OUT_OF_MEMORY)
}

/// One finding that names all GPUs with less than `least` bytes of free memory.
pub(in crate::suite) fn shortage(clique: &Clique, least: u64) -> Result<Option<Finding>, GpuError> {
    let mut left = Vec::new();
    for gpu in &clique.gpus {
        let (free, total) = gpu.memory()?;
        left.push((gpu.id(), free, total));
    }
    Ok(finding(&left, least))
}

/// The finding; `gpus`: each GPU with its free and its total memory, bytes.
fn finding(gpus: &[(GpuId, u64, u64)], least: u64) -> Option<Finding> {
    let short: Vec<_> = gpus.iter().filter(|(_, free, _)| *free < least).collect();
    let (_, free, total) = short.iter().min_by_key(|(_, free, _)| free)?;
    let subject = Subject::gpus(short.iter().map(|(gpu, ..)| *gpu));
    let message = format!(
        "{subject}: {} of {} MiB are free, and {} are needed: other processes use the rest",
        free >> 20,
        total >> 20,
        least >> 20
    );
    let finding = Code::GpuInUse.finding(Severity::Error, subject, message);
    Some(finding.values(*free, least, Some("bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_gpus_are_one_finding_with_their_names() {
        let gpus = [
            (0, 20 << 30, 24 << 30),
            (1, 5 << 20, 24 << 30),
            (3, 9 << 20, 24 << 30),
        ];
        let gpus = gpus.map(|(gpu, free, all)| (GpuId::new(gpu), free, all));
        let found = finding(&gpus, MIN_FREE).unwrap();
        assert!(found.is(Code::GpuInUse) && found.severity == Severity::Error);
        assert_eq!(
            found.message,
            "GPU 1, GPU 3: 5 of 24576 MiB are free, and 32 are needed: other processes use the rest"
        );
        assert_eq!(finding(&gpus[..1], MIN_FREE), None);
    }
}
