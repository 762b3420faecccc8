//! What the GPUs count on their NVLinks while NCCL works: a witness of the path beside NCCL's own log. Where NVLinks connect all
//! GPUs, most of the data that an all_reduce must bring to a GPU arrives by them, and other traffic only adds to it.

use crate::suite::TestContext;
use crate::suite::shared::late_counters::{LATE, read_until};
use gpu::CounterValue;
use machine::GpuId;
use machine::pcie::model::Bdf;
use outcome::finding::{Code, Finding, Severity, Subject};

/// The data that reached each GPU by NVLink so far, KiB, before NCCL's calls.
pub(super) struct Counted(Vec<(GpuId, Bdf, CounterValue)>);

impl Counted {
    /// Reads the counters of `gpus`, those of a communicator.
    pub(super) fn begin(context: &TestContext, gpus: &[GpuId]) -> Self {
        let all = context
            .clique()
            .map(gpu::Clique::addresses)
            .unwrap_or_default();
        let one = |gpu: &GpuId| {
            all.get(gpu.index())
                .map(|bdf| (*gpu, *bdf, read(context, *bdf)))
        };
        Self(gpus.iter().filter_map(one).collect())
    }

    /// The finding that GPUs did not count `least` KiB more, read again while they miss something.
    pub(super) fn end(&self, context: &TestContext, least: u64) -> Option<Finding> {
        let mut found = None;
        read_until(LATE, || {
            let since = |(gpu, bdf, before): &(GpuId, Bdf, CounterValue)| {
                Some((*gpu, read(context, *bdf).since(before)?))
            };
            found = judge(&self.0.iter().filter_map(since).collect::<Vec<_>>(), least);
            found.is_none()
        });
        found
    }
}

fn read(context: &TestContext, gpu: Bdf) -> CounterValue {
    let data = context.nvml().map(|nvml| nvml.nvlink_data(gpu));
    data.map_or(CounterValue::Unsupported, |[_, received]| received)
}

/// `received`: what each GPU that counts has received, KiB.
fn judge(received: &[(GpuId, u64)], least: u64) -> Option<Finding> {
    let short: Vec<_> = received.iter().filter(|(_, kib)| *kib < least).collect();
    let (_, first) = short.first()?;
    let all = short
        .iter()
        .map(|(gpu, kib)| format!("GPU {gpu} {kib} KiB"))
        .collect::<Vec<_>>()
        .join(", ");
    let message = format!(
        "NVLinks connect the GPUs, and while NCCL worked they brought too little to {all}: expected {least} KiB"
    );
    let finding = Code::NcclTransport.finding(
        Severity::Warn,
        Subject::gpus(short.iter().map(|(gpu, _)| *gpu)),
        message,
    );
    Some(finding.values(*first, least, Some("KiB")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_that_counted_too_little_are_named_and_those_that_do_not_count_are_not() {
        let gpu = GpuId::new;
        assert_eq!(judge(&[], 100), None);
        assert_eq!(judge(&[(gpu(0), 100), (gpu(1), 5000)], 100), None);
        let finding = judge(&[(gpu(0), 100), (gpu(1), 99)], 100).unwrap();
        assert!(finding.is(Code::NcclTransport) && finding.severity == Severity::Warn);
        assert!(
            finding
                .message
                .contains("too little to GPU 1 99 KiB: expected 100 KiB"),
            "{}",
            finding.message
        );
    }
}
