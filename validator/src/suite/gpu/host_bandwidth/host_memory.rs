//! Page-locked memory near the GPUs: one block for each NUMA node with GPUs. Locking memory takes a third of
//! a second for each GiB, so the GPUs of a node share one block.

use crate::suite::TestContext;
use crate::suite::shared::gpu_fault::fault_finding;
use gpu::{Clique, GpuError, Pinned, Span};
use machine::GpuId;
use machine::host::affinity::pin_to_cpus;
use machine::pcie::model::Fabric;
use outcome::finding::{Finding, Subject};

/// Bytes of all blocks together: nvbandwidth's size where there is one node.
const BYTES: u64 = 512 << 20;
/// Sizes are multiples of this, bytes.
const GRAIN: u64 = 1 << 16;

/// Page-locked host memory on the NUMA node of some GPUs.
#[derive(Debug)]
pub(super) struct HostBlock {
    pub(super) gpus: Vec<GpuId>,
    pinned: Pinned,
}

impl HostBlock {
    /// Part `n` of `parts` equal ones.
    pub(super) fn part(&self, n: usize, parts: usize) -> Result<Span<'_>, GpuError> {
        let bytes = share(self.pinned.whole().bytes, parts);
        self.pinned.span(bytes.saturating_mul(n as u64), bytes)
    }
}

/// The memory blocks for all GPUs.
pub(super) fn blocks(
    context: &TestContext,
    clique: &Clique,
) -> Result<Vec<HostBlock>, Box<Finding>> {
    let nodes = nodes(context.fabric()?, clique);
    let bytes = share(BYTES, nodes.len());
    let block = |(processors, gpus): (Option<String>, Vec<GpuId>)| {
        context.doing(format!("locking {bytes} bytes of the host's memory"));
        let _pinned = processors.as_deref().and_then(pin_to_cpus);
        let gpu = gpus.first().and_then(|n| clique.gpu(*n));
        let gpu = gpu.ok_or_else(|| GpuError::Nonsense("a node without a GPU".to_owned()))?;
        Ok(HostBlock {
            pinned: Pinned::alloc(gpu, bytes)?,
            gpus,
        })
    };
    let blocks = nodes
        .into_iter()
        .map(block)
        .collect::<Result<_, GpuError>>();
    blocks.map_err(|e| fault_finding(Subject::Machine, &e))
}

/// GPUs by the processors near them.
fn nodes(fabric: &Fabric, clique: &Clique) -> Vec<(Option<String>, Vec<GpuId>)> {
    let near = |gpu: &gpu::Gpu| {
        let device = fabric.devices.iter().find(|d| d.bdf == gpu.bdf);
        (gpu.id(), device.and_then(|d| d.local_cpus.clone()))
    };
    grouped(clique.gpus.iter().map(near))
}

fn grouped(
    gpus: impl Iterator<Item = (GpuId, Option<String>)>,
) -> Vec<(Option<String>, Vec<GpuId>)> {
    let mut nodes: Vec<(Option<String>, Vec<GpuId>)> = Vec::new();
    for (gpu, processors) in gpus {
        match nodes.iter_mut().find(|(known, _)| *known == processors) {
            Some((_, gpus)) => gpus.push(gpu),
            None => nodes.push((processors, vec![gpu])),
        }
    }
    nodes
}

fn share(bytes: u64, parts: usize) -> u64 {
    (bytes / (parts.max(1) as u64) / GRAIN * GRAIN).max(GRAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_one_node_share_their_memory() {
        let gpus = [
            (0, Some("0-31")),
            (1, Some("32-63")),
            (2, Some("0-31")),
            (3, None),
        ];
        let nodes = grouped(
            gpus.into_iter()
                .map(|(n, list)| (GpuId::new(n), list.map(str::to_owned))),
        );
        let gpus: Vec<_> = nodes.into_iter().map(|(_, gpus)| gpus).collect();
        assert_eq!(gpus, [vec![0, 2], vec![1], vec![3]]);
    }

    #[test]
    fn shares_are_whole_and_never_empty() {
        assert_eq!(share(512 << 20, 1), 512 << 20);
        assert_eq!(share(512 << 20, 3) % GRAIN, 0);
        assert_eq!((share(512 << 20, 0), share(1, 8)), (512 << 20, GRAIN));
    }
}
