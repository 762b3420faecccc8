//! Functions that need ACS to stay as it is: those passed to a virtual machine, which only ACS and the IOMMU
//! isolate, and ConnectX-8 Data Direct, which needs its own settings. ACS stays only on their own path to the
//! root. Pure.

use contract::pci_vendor;
use machine::pcie::model::{Bdf, Device, Fabric};
use machine::pcie::tree::Tree;
use std::collections::BTreeMap;

/// NVIDIA's ConnectX-8 Data Direct function (drivers/infiniband/hw/mlx5/data_direct.c): it needs
/// the ACS bits that its own tools set.
const DATA_DIRECT: (&str, &str) = (pci_vendor::MELLANOX, "0x2100");

/// Each function whose ACS must stay as it is: the function that needs this, and why it needs it.
pub type KeptAcs = BTreeMap<Bdf, (Bdf, String)>;

/// True for a function that is passed to a virtual machine: no program on this machine can reach it.
#[must_use]
pub fn is_passed_through<F>(fabric: &Fabric<F>, device: &Device) -> bool {
    pass_through_driver(fabric, device).is_some()
}

fn pass_through_driver<'a, F>(fabric: &Fabric<F>, device: &'a Device) -> Option<&'a str> {
    device
        .pass_through_driver()
        .filter(|_| fabric.iommu.groups > 0)
}

/// Every function whose ACS stays: a passed-through function and the bridges above it; the whole hierarchy of
/// a Data Direct function, because the settings of its ports and those of its GPUs' ports belong together.
pub fn functions_keeping_acs(fabric: &Fabric) -> KeptAcs {
    let tree = Tree::of(fabric);
    let mut kept = KeptAcs::new();
    for device in &fabric.devices {
        if let Some(driver) = pass_through_driver(fabric, device) {
            let why = (
                device.bdf,
                format!("is passed to a virtual machine by {driver}"),
            );
            let own = tree.above(device.bdf).into_iter().chain([device]);
            kept.extend(own.map(|d| (d.bdf, why.clone())));
        }
        if (device.vendor.as_str(), device.device.as_str()) == DATA_DIRECT {
            let what =
                "is a ConnectX-8 Data Direct function, which needs ACS as it is set".to_owned();
            let top = |bdf| tree.above(bdf).last().map_or(bdf, |d| d.bdf);
            let own = top(device.bdf);
            let same = fabric.devices.iter().filter(|d| top(d.bdf) == own);
            kept.extend(same.map(|d| (d.bdf, (device.bdf, what.clone()))));
        }
    }
    kept
}
