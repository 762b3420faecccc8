//! The topology dump: the GPUs that NCCL found, below the processors and PCIe bridges.

use super::{BadDump, Dump};
use crate::machine::pcie::model::Bdf;
use roxmltree::Node;

/// What NCCL found on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// GPUs of the communicator, in the order of the dump.
    pub gpus: Vec<Gpu>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's number.
    pub dev: u64,
    /// Its rank; a GPU outside the communicator has none.
    pub rank: Option<usize>,
    /// Its address.
    pub bdf: Bdf,
    /// Compute capability times ten: 89, 90, 120.
    pub sm: u32,
}

/// Reads the dump of `NCCL_TOPO_DUMP_FILE`.
///
/// # Errors
/// See [`BadDump`]; a dump without a GPU is one too.
pub fn topology(text: &str) -> Result<Topology, BadDump> {
    let dump = Dump::parse("topology", "system", text)?;
    let all = dump.document.descendants();
    let gpus = all.filter(|n| n.has_tag_name("gpu")).map(|n| gpu(&dump, n)).collect::<Result<Vec<_>, _>>()?;
    if gpus.is_empty() {
        return Err(dump.bad(dump.document.root_element(), "there is no <gpu>".to_owned()));
    }
    Ok(Topology { gpus })
}

fn gpu(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Gpu, BadDump> {
    let bdf = slot(dump, node)?.ok_or_else(|| dump.bad(node, "<gpu> outside of a <pci>".to_owned()))?;
    let (dev, rank) = (dump.needed(node, "dev")?, dump.known(node, "rank")?);
    Ok(Gpu { dev, rank, bdf, sm: dump.needed(node, "sm")? })
}

/// The PCIe function of a device.
fn slot(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Option<Bdf>, BadDump> {
    let Some(pci) = node.ancestors().find(|n| n.has_tag_name("pci")) else { return Ok(None) };
    dump.needed(pci, "busid").map(Some)
}
