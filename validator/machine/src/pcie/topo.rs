//! The matrix and the legend of `nvidia-smi topo -m`, from sysfs instead of the driver: letters for every
//! pair of GPUs and RDMA devices, and the processors near each GPU. Pure.

use super::model::{Bdf, Fabric, PathKind};
use super::path;
use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The version of the file format.
pub const SCHEMA: &str = "firstlight.topo/1";

/// How many NVLinks connect two GPUs, by their addresses in ascending order.
pub type NvLinks = BTreeMap<(Bdf, Bdf), u32>;

/// A GPU's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// `GPU0`, numbered by address.
    pub name: String,
    /// Its address.
    pub bdf: Bdf,
    /// Processors near it, as sysfs lists them.
    pub cpu_affinity: Option<String>,
    /// Its NUMA node; if the firmware names none, every node that is online, as in `nvidia-smi`.
    pub numa_affinity: Option<String>,
    /// The NUMA node of its own memory; only coherent GPUs have one, and only NVML reports it.
    pub gpu_numa_id: Option<u32>,
}

/// A NIC's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// `NIC0`, numbered by address.
    pub name: String,
    /// Its address.
    pub bdf: Bdf,
    /// Its name in `/sys/class/infiniband`.
    pub device: String,
}

/// One pair's letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// The device itself.
    Same,
    /// A bonded set of NVLinks.
    NvLink(u32),
    /// Over PCIe.
    Pcie(PathKind),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("X"),
            Self::NvLink(count) => write!(f, "NV{count}"),
            Self::Pcie(PathKind::Pix) => f.write_str("PIX"),
            Self::Pcie(PathKind::Pxb) => f.write_str("PXB"),
            Self::Pcie(PathKind::Phb) => f.write_str("PHB"),
            Self::Pcie(PathKind::Node) => f.write_str("NODE"),
            Self::Pcie(PathKind::Sys) => f.write_str("SYS"),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// The distances between all devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Topology {
    /// `firstlight.topo/1`.
    pub schema: &'static str,
    /// The root that it was read from.
    pub root: String,
    /// GPUs ordered by address.
    pub gpus: Vec<Gpu>,
    /// RDMA devices ordered by address.
    pub nics: Vec<Nic>,
    /// Rows and columns: the GPUs, then the NICs.
    pub matrix: Vec<Vec<Cell>>,
}

impl Topology {
    /// The topology of `fabric`; NVLinks come from NVML.
    #[must_use]
    pub fn from<F>(fabric: &Fabric<F>, nvlinks: &NvLinks) -> Self {
        let tree = Tree::of(fabric);
        let ends: Vec<Bdf> = fabric
            .gpus
            .iter()
            .copied()
            .chain(fabric.rdma.iter().map(|r| r.bdf))
            .collect();
        let cell = |(row, a): (usize, Bdf), (column, b): (usize, Bdf)| {
            if row == column {
                Some(Cell::Same)
            } else {
                pair(&tree, nvlinks, a, b)
            }
        };
        let row = |a: (usize, Bdf)| {
            ends.iter()
                .copied()
                .enumerate()
                .filter_map(|b| cell(a, b))
                .collect()
        };
        Self {
            schema: SCHEMA,
            root: fabric.root.clone(),
            gpus: (0..)
                .zip(&fabric.gpus)
                .filter_map(|(n, bdf)| gpu(fabric, &tree, n, *bdf))
                .collect(),
            nics: (0..)
                .zip(&fabric.rdma)
                .map(|(n, r)| nic(n, &r.name, r.bdf))
                .collect(),
            matrix: ends.iter().copied().enumerate().map(row).collect(),
        }
    }

    /// The table as `nvidia-smi topo -m` prints it, with tabs between the columns.
    #[must_use]
    pub fn text(&self) -> String {
        let names: Vec<&str> = self
            .gpus
            .iter()
            .map(|g| g.name.as_str())
            .chain(self.nics.iter().map(|n| n.name.as_str()))
            .collect();
        let mut text = format!(
            "\t{}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n",
            names.join("\t")
        );
        let affinities = self
            .gpus
            .iter()
            .map(affinity)
            .chain(std::iter::repeat(String::new()));
        for ((name, row), affinity) in names.iter().zip(&self.matrix).zip(affinities) {
            let cells: Vec<String> = row.iter().map(padded).collect();
            let _ = writeln!(text, "{name}\t{}{affinity}", cells.join("\t"));
        }
        text.push_str(LEGEND);
        if !self.nics.is_empty() {
            text.push_str("\nNIC Legend:\n\n");
            for nic in &self.nics {
                let _ = writeln!(text, "  {}: {}", nic.name, nic.device);
            }
        }
        text
    }
}

fn gpu<F>(fabric: &Fabric<F>, tree: &Tree, n: usize, bdf: Bdf) -> Option<Gpu> {
    let device = tree.get(bdf)?;
    let cpu_affinity = device.local_cpus.clone();
    let numa_affinity = device
        .numa
        .map(|node| node.to_string())
        .or_else(|| fabric.numa_nodes.clone());
    Some(Gpu {
        name: format!("GPU{n}"),
        bdf,
        cpu_affinity,
        numa_affinity,
        gpu_numa_id: None,
    })
}

fn nic(n: usize, device: &str, bdf: Bdf) -> Nic {
    Nic {
        name: format!("NIC{n}"),
        bdf,
        device: device.to_owned(),
    }
}

fn pair(tree: &Tree, nvlinks: &NvLinks, a: Bdf, b: Bdf) -> Option<Cell> {
    if let Some(count) = nvlinks.get(&(a.min(b), a.max(b))) {
        return Some(Cell::NvLink(*count));
    }
    path::between(tree, a, b).map(|p| Cell::Pcie(p.kind))
}

/// `nvidia-smi` puts the X in the middle of its column.
fn padded(cell: &Cell) -> String {
    match cell {
        Cell::Same => " X ".to_owned(),
        _ => cell.to_string(),
    }
}

/// The last three columns of a GPU's row; a NIC's row ends before them.
fn affinity(gpu: &Gpu) -> String {
    let word = |text: Option<&str>| text.unwrap_or("N/A").to_owned();
    let own = gpu.gpu_numa_id.map(|node| node.to_string());
    let (cpus, nodes) = (
        word(gpu.cpu_affinity.as_deref()),
        word(gpu.numa_affinity.as_deref()),
    );
    format!("\t{cpus}\t{nodes}\t\t{}", word(own.as_deref()))
}

const LEGEND: &str = "
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
";

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_gpu_without_a_node_is_near_every_node_that_is_online() {
        let mut devices = sample::two_gpus();
        devices[2].numa = None;
        devices[2].local_cpus = Some("0-63".into());
        let mut fabric = sample::fabric(devices);
        fabric.numa_nodes = Some("0-1".into());
        let topology = Topology::from(&fabric, &NvLinks::new());
        assert_eq!(topology.gpus[0].numa_affinity.as_deref(), Some("0-1"));
        assert_eq!(topology.gpus[1].numa_affinity.as_deref(), Some("0"));
        assert!(
            topology
                .text()
                .contains("\nGPU0\t X \tPHB\t0-63\t0-1\t\tN/A\n"),
            "{}",
            topology.text()
        );
    }
}
