//! Sources about an IOMMU besides its class: the type of each group, and devices that are in one.

use crate::machine::host::modules::absent_is_none;
use crate::machine::root::Root;
use std::io;

/// The groups and the devices in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DmaGroups {
    /// Group number and type (`identity`, `DMA`, `DMA-FQ`, ..).
    pub types: Vec<(String, String)>,
    /// PCI functions with an `iommu_group` link, and the group that it leads to.
    pub members: Vec<(String, String)>,
}

/// Reads every group and every PCI function.
///
/// # Errors
/// If a read fails; a kernel without groups has none, a group without a type is an error.
pub fn read(root: &Root) -> io::Result<DmaGroups> {
    let folder = "sys/kernel/iommu_groups";
    let groups = absent_is_none(root.names(folder))?.unwrap_or_default();
    let types = groups.iter().map(|g| {
        let name = g.to_string_lossy().into_owned();
        Ok((name.clone(), root.text(format!("{folder}/{name}/type"))?))
    });
    let types = types.collect::<io::Result<_>>()?;
    let mut members = Vec::new();
    for device in root.names("sys/bus/pci/devices")? {
        let device = device.to_string_lossy().into_owned();
        if let Some(link) = absent_is_none(root.link(format!("sys/bus/pci/devices/{device}/iommu_group")))? {
            let group = link.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            members.push((device, group));
        }
    }
    Ok(DmaGroups { types, members })
}
