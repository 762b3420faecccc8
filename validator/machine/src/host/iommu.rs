//! The sources about the IOMMU: the class devices, the groups and their types, and the firmware tables. It is
//! off only if all sources agree on that; what cannot be read is unknown. Also which devices share a group.

use crate::host::modules::absent_is_none;
use crate::root::Root;
use outcome::finding::{Code, Finding, Severity, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};

const CLASS: &str = "sys/class/iommu";
const GROUPS: &str = "sys/kernel/iommu_groups";
const TABLES: &str = "sys/firmware/acpi/tables";
const DEVICES: &str = "sys/bus/pci/devices";

/// How DMA addresses are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IommuMode {
    /// No IOMMU class device and no group: bus addresses are physical addresses.
    Off,
    /// Groups exist and every one of type `identity`.
    Identity,
    /// At least one group translates.
    Translated,
    /// The sources are missing or contradict each other; a finding gives the details.
    Unknown,
}

/// The sources about the IOMMU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Iommu {
    /// Their combined result.
    pub mode: IommuMode,
    /// Names in `/sys/class/iommu`.
    pub classes: Vec<String>,
    /// How many folders `/sys/kernel/iommu_groups` holds.
    pub groups: usize,
    /// ACPI tables by which the firmware describes an IOMMU: `DMAR`, `IVRS`.
    pub firmware_tables: Vec<String>,
}

/// The sources, and a finding for each source that cannot be read or contradicts another.
#[must_use]
pub fn read(root: &Root) -> (Iommu, Vec<Finding>) {
    let mut findings = Vec::new();
    let grouped = grouped_device(root);
    if grouped.is_none() && has_no_iommu_api(root) {
        let firmware_tables = firmware_tables(root, &mut findings);
        let (classes, groups) = (Vec::new(), 0);
        return (
            Iommu {
                mode: IommuMode::Off,
                classes,
                groups,
                firmware_tables,
            },
            findings,
        );
    }
    let mut names = |folder: &str| match names(root, folder) {
        Ok(names) => Some(names),
        Err(e) => {
            findings.push(iommu_unknown(format!("/{folder} cannot be read: {e}")));
            None
        }
    };
    let classes = names(CLASS);
    let groups = names(GROUPS);
    let types = groups
        .iter()
        .flatten()
        .map(|g| (g, root.text(format!("{GROUPS}/{g}/type"))));
    let types: Vec<(&String, io::Result<String>)> = types.collect();
    for (group, e) in types
        .iter()
        .filter_map(|(g, t)| Some((g, t.as_ref().err()?)))
    {
        findings.push(iommu_unknown(format!(
            "/{GROUPS}/{group}/type cannot be read: {e}"
        )));
    }
    let types: Vec<&str> = types
        .iter()
        .filter_map(|(_, t)| t.as_deref().ok())
        .collect();
    let translated = types.iter().any(|t| *t != "identity");
    let off =
        classes.as_ref().is_some_and(Vec::is_empty) && groups.as_ref().is_some_and(Vec::is_empty);
    let mode = match () {
        () if translated => IommuMode::Translated,
        () if !findings.is_empty() => IommuMode::Unknown,
        () if off && grouped.is_none() => IommuMode::Off,
        () if !types.is_empty() => IommuMode::Identity,
        () => {
            findings.push(contradiction(classes.as_deref(), grouped.as_deref()));
            IommuMode::Unknown
        }
    };
    let iommu = Iommu {
        mode,
        classes: classes.into_iter().flatten().collect(),
        groups: groups.map_or(0, |g| g.len()),
        firmware_tables: firmware_tables(root, &mut findings),
    };
    (iommu, findings)
}

/// A kernel without IOMMU_API has neither of the two folders; one with it always creates them, even without
/// an IOMMU. Without it the kernel cannot translate. A recording may simply lack the folders, so there the
/// kernel configuration must confirm it.
fn has_no_iommu_api(root: &Root) -> bool {
    let absent = |folder: &str| root.exists(folder).is_ok_and(|found| !found);
    absent(CLASS) && absent(GROUPS) && (root.is_live() || is_built_without(root))
}

/// Distributions keep the configuration next to the kernel.
fn is_built_without(root: &Root) -> bool {
    let release = root.text("proc/sys/kernel/osrelease");
    let config = release.and_then(|release| root.text(format!("boot/config-{release}")));
    config.is_ok_and(|text| text.contains("CONFIG_PCI=y") && !text.contains("CONFIG_IOMMU_API=y"))
}

/// Firmware without ACPI describes no IOMMU.
fn firmware_tables(root: &Root, findings: &mut Vec<Finding>) -> Vec<String> {
    match names(root, TABLES) {
        Ok(names) => names
            .into_iter()
            .filter(|n| n == "DMAR" || n == "IVRS")
            .collect(),
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => {
            findings.push(iommu_unknown(format!("/{TABLES} cannot be read: {e}")));
            Vec::new()
        }
    }
}

/// A PCI function that is in a group.
fn grouped_device(root: &Root) -> Option<String> {
    let in_group = |bdf: &String| root.link(format!("{DEVICES}/{bdf}/iommu_group")).is_ok();
    names(root, DEVICES).into_iter().flatten().find(in_group)
}

fn names(root: &Root, folder: &str) -> io::Result<Vec<String>> {
    Ok(root
        .names(folder)?
        .into_iter()
        .map(|n| n.to_string_lossy().into_owned())
        .collect())
}

fn iommu_unknown(message: String) -> Finding {
    Code::IommuUnknown.finding(Severity::Error, Subject::Machine, message)
}

fn contradiction(classes: Option<&[String]>, grouped: Option<&str>) -> Finding {
    let classes = classes.unwrap_or_default().join(" ");
    let grouped = grouped.unwrap_or("none");
    let message = "there is no IOMMU group, but another source shows an IOMMU".to_owned();
    iommu_unknown(message)
        .seen(format!("/{CLASS}: {classes}"))
        .seen(format!("function with an iommu_group: {grouped}"))
}

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
pub fn dma_groups(root: &Root) -> io::Result<DmaGroups> {
    let groups = absent_is_none(root.names(GROUPS))?.unwrap_or_default();
    let types = groups.iter().map(|g| {
        let name = g.to_string_lossy().into_owned();
        Ok((name.clone(), root.text(format!("{GROUPS}/{name}/type"))?))
    });
    let types = types.collect::<io::Result<_>>()?;
    let mut members = Vec::new();
    for device in root.names(DEVICES)? {
        let device = device.to_string_lossy().into_owned();
        if let Some(link) = absent_is_none(root.link(format!("{DEVICES}/{device}/iommu_group")))? {
            let group = link
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            members.push((device, group));
        }
    }
    Ok(DmaGroups { types, members })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    /// A machine with these IOMMU class devices and these group types.
    #[track_caller]
    fn machine(classes: &[&str], groups: &[&str]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |rel: &str| dir.path().join(rel);
        for folder in [CLASS, GROUPS, TABLES, DEVICES] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for class in classes {
            fs::create_dir(at(CLASS).join(class)).unwrap();
        }
        for (n, kind) in groups.iter().enumerate() {
            let group = at(GROUPS).join(n.to_string());
            fs::create_dir(&group).unwrap();
            fs::write(group.join("type"), format!("{kind}\n")).unwrap();
        }
        dir
    }

    #[track_caller]
    fn mode(dir: &TempDir) -> (IommuMode, usize) {
        let (iommu, findings) = read(&Root::new(dir.path()));
        (iommu.mode, findings.len())
    }

    #[test]
    fn no_class_device_and_no_group_is_off() {
        assert_eq!(mode(&machine(&[], &[])), (IommuMode::Off, 0));
    }

    #[test]
    fn identity_needs_identity_in_every_group() {
        assert_eq!(
            mode(&machine(&["dmar0"], &["identity", "identity"])),
            (IommuMode::Identity, 0)
        );
        assert_eq!(
            mode(&machine(&["dmar0"], &["identity", "DMA-FQ"])),
            (IommuMode::Translated, 0)
        );
    }

    #[test]
    fn a_missing_source_is_unknown_and_never_off() {
        for folder in [CLASS, GROUPS] {
            let dir = machine(&[], &[]);
            fs::remove_dir(dir.path().join(folder)).unwrap();
            assert_eq!(mode(&dir), (IommuMode::Unknown, 1), "{folder}");
        }
    }

    #[test]
    fn a_kernel_without_iommu_api_has_neither_folder_and_translates_nothing() {
        let without = |config: &str| {
            let dir = machine(&[], &[]);
            [CLASS, GROUPS]
                .iter()
                .for_each(|folder| fs::remove_dir(dir.path().join(folder)).unwrap());
            fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
            fs::write(dir.path().join("proc/sys/kernel/osrelease"), "6.12.0\n").unwrap();
            fs::create_dir(dir.path().join("boot")).unwrap();
            fs::write(dir.path().join("boot/config-6.12.0"), config).unwrap();
            dir
        };
        let dir = without("CONFIG_PCI=y\n# CONFIG_IOMMU_SUPPORT is not set\n");
        assert_eq!(mode(&dir), (IommuMode::Off, 0));
        for config in ["CONFIG_PCI=y\nCONFIG_IOMMU_API=y\n", ""] {
            assert_eq!(
                mode(&without(config)),
                (IommuMode::Unknown, 2),
                "the recording lacks them"
            );
        }
        let function = dir.path().join(DEVICES).join("0000:00:01.0");
        fs::create_dir(&function).unwrap();
        std::os::unix::fs::symlink("../../nowhere", function.join("iommu_group")).unwrap();
        assert_eq!(mode(&dir).0, IommuMode::Unknown, "a function is in a group");
    }

    #[test]
    fn a_group_without_a_type_is_unknown() {
        let dir = machine(&["dmar0"], &["identity"]);
        fs::create_dir(dir.path().join(GROUPS).join("7")).unwrap();
        assert_eq!(mode(&dir), (IommuMode::Unknown, 1));
    }

    #[test]
    fn contradicting_sources_are_unknown() {
        assert_eq!(mode(&machine(&["dmar0"], &[])), (IommuMode::Unknown, 1));
        let dir = machine(&[], &[]);
        let function = dir.path().join(DEVICES).join("0000:00:01.0");
        fs::create_dir(&function).unwrap();
        std::os::unix::fs::symlink("../../nowhere", function.join("iommu_group")).unwrap();
        assert_eq!(mode(&dir), (IommuMode::Unknown, 1));
    }

    #[test]
    fn the_firmwares_tables_are_named() {
        let dir = machine(&[], &[]);
        for table in ["APIC", "DMAR", "IVRS"] {
            fs::write(dir.path().join(TABLES).join(table), "").unwrap();
        }
        assert_eq!(
            read(&Root::new(dir.path())).0.firmware_tables,
            ["DMAR", "IVRS"]
        );
    }
}
