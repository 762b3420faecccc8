//! The topology dump: the GPUs and NICs that NCCL found, below the processors and PCIe bridges.

use super::{BadDump, Dump};
use crate::pcie::model::Bdf;
use roxmltree::Node;

/// What NCCL found on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// GPUs of the communicator, in the order of the dump.
    pub gpus: Vec<Gpu>,
    /// Network devices, in the order of the dump.
    pub nics: Vec<Nic>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// NVML's number.
    pub dev: u64,
    /// Its rank; a GPU that is in no communicator has none.
    pub rank: Option<usize>,
    /// Its address.
    pub bdf: Bdf,
    /// Compute capability times ten: 89, 90, 120.
    pub sm: u32,
    /// Whether its memory can be reached by NICs, where NCCL asked.
    pub gdr: Option<bool>,
    /// Where its `NVLink`s lead.
    pub nvlinks: Vec<NvLink>,
}

/// `NVLink`s of one GPU with the same other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvLink {
    /// The other end's address: a GPU or a switch; in a virtual machine it may be nobody's.
    pub target: String,
    /// How many links.
    pub count: u32,
}

/// A port of a network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// `mlx5_0`, `eth0`.
    pub name: String,
    /// NCCL's number.
    pub dev: u64,
    /// Its address; a virtual interface has none.
    pub bdf: Option<Bdf>,
    /// Mbit/s.
    pub mbit_s: Option<u64>,
    /// Whether it can reach GPUs' memory, where NCCL asked.
    pub gdr: Option<bool>,
}

impl Gpu {
    /// How many `NVLink`s it has in all.
    #[must_use]
    pub fn nvlinks(&self) -> u32 {
        self.nvlinks.iter().fold(0, |sum, link| sum.saturating_add(link.count))
    }
}

/// Reads the dump of `NCCL_TOPO_DUMP_FILE`.
///
/// # Errors
/// See [`BadDump`]; no GPU in it is one, too.
pub fn topology(text: &str) -> Result<Topology, BadDump> {
    let dump = Dump::parse("topology", "system", text)?;
    let all = || dump.document.descendants();
    let gpus =
        all().filter(|n| n.has_tag_name("gpu")).map(|n| gpu(&dump, n)).collect::<Result<Vec<_>, _>>()?;
    let nics = all().filter(|n| n.has_tag_name("net")).map(|n| nic(&dump, n)).collect::<Result<_, _>>()?;
    if gpus.is_empty() {
        return Err(dump.bad(dump.document.root_element(), "there is no <gpu>".to_owned()));
    }
    Ok(Topology { gpus, nics })
}

fn gpu(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Gpu, BadDump> {
    let link = |n| Ok(NvLink { target: dump.needed(n, "target")?, count: dump.needed(n, "count")? });
    let links = node.children().filter(|n| n.has_tag_name("nvlink"));
    let bdf = slot(dump, node)?.ok_or_else(|| dump.bad(node, "<gpu> outside of a <pci>".to_owned()))?;
    Ok(Gpu {
        dev: dump.needed(node, "dev")?,
        rank: dump.known(node, "rank")?,
        bdf,
        sm: dump.needed(node, "sm")?,
        gdr: dump.flag(node, "gdr")?,
        nvlinks: links.map(link).collect::<Result<_, _>>()?,
    })
}

fn nic(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Nic, BadDump> {
    Ok(Nic {
        name: dump.needed(node, "name")?,
        dev: dump.needed(node, "dev")?,
        bdf: slot(dump, node)?,
        mbit_s: dump.known(node, "speed")?,
        gdr: dump.flag(node, "gdr")?,
    })
}

/// The PCIe function that a device stands in.
fn slot(dump: &Dump<'_>, node: Node<'_, '_>) -> Result<Option<Bdf>, BadDump> {
    let Some(pci) = node.ancestors().find(|n| n.has_tag_name("pci")) else { return Ok(None) };
    dump.needed(pci, "busid").map(Some)
}
