//! The distance of every GPU to every RDMA device, and the nearest devices. Pure.

use super::model::{Bdf, Fabric, PathKind};
use super::path;
use super::topo::Cell;
use super::tree::Tree;

/// A GPU's paths to the RDMA devices, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ways {
    /// The GPU.
    pub gpu: Bdf,
    /// Name of a device and the path to it.
    pub to: Vec<(String, PathKind)>,
}

/// The letters of a path.
#[must_use]
pub fn letters(kind: PathKind) -> String {
    Cell::Pcie(kind).to_string()
}

/// The paths of every GPU, ordered by address.
#[must_use]
pub fn ways(fabric: &Fabric) -> Vec<Ways> {
    let tree = Tree::of(fabric);
    let to = |gpu: Bdf| {
        let way = |bdf| path::between(&tree, gpu, bdf).map(|p| p.kind);
        fabric.rdma.iter().filter_map(|r| Some((r.name.clone(), way(r.bdf)?))).collect()
    };
    fabric.gpus.iter().map(|gpu| Ways { gpu: *gpu, to: to(*gpu) }).collect()
}

impl Ways {
    /// The nearest devices and their distance.
    #[must_use]
    pub fn nearest(&self) -> Option<(PathKind, Vec<&str>)> {
        let kind = self.to.iter().map(|(_, kind)| *kind).min()?;
        let names = self.to.iter().filter(|(_, k)| *k == kind).map(|(name, _)| name.as_str());
        Some((kind, names.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Kind, Rdma};
    use super::super::sample;
    use super::*;

    #[test]
    fn the_nearest_devices_have_the_shortest_path() {
        let mut devices = sample::two_gpus();
        let nic = |at: &str, parent| {
            let nic = sample::device(at, Kind::Endpoint, parent);
            super::super::model::Device { class: "0x020000".into(), ..nic }
        };
        let far = nic("0000:81:00.0", None);
        devices.push(nic("0000:01:00.1", Some("0000:00:01.0")));
        devices.push(super::super::model::Device {
            numa: Some(1),
            root_bus: Some("pci0000:80".into()),
            ..far
        });
        let mut fabric = sample::fabric(devices);
        let rdma = |name: &str, at| Rdma { name: name.into(), bdf: sample::bdf(at) };
        fabric.rdma = vec![rdma("mlx5_0", "0000:01:00.1"), rdma("mlx5_1", "0000:81:00.0")];
        let ways = ways(&fabric);
        assert_eq!(ways[0].nearest(), Some((PathKind::Pix, vec!["mlx5_0"])));
        assert_eq!(ways[1].nearest(), Some((PathKind::Phb, vec!["mlx5_0"])));
        assert_eq!(letters(ways[1].to[1].1), "SYS");
        assert_eq!(Ways { gpu: ways[0].gpu, to: vec![] }.nearest(), None);
    }
}
