//! The versions for which the kernel can find GSP firmware: folders `nvidia/VERSION` with a `gsp_*.bin`.

use super::version::is_version;
use super::{ReadResult, at};
use crate::host::modules::absent_is_none;
use crate::root::Root;
use std::collections::BTreeSet;

/// Folders with firmware; the kernel's own setting comes first.
const SETTING: &str = "sys/module/firmware_class/parameters/path";
/// The folders that the kernel searches, and the driver image's.
pub const FOLDERS: &[&str] = &[
    "run/firstlight/driver/firmware",
    "usr/lib/firmware",
    "lib/firmware",
];

/// All versions, sorted; empty if there is no such folder.
///
/// # Errors
/// A folder that exists but cannot be read.
pub fn versions(root: &Root) -> ReadResult<Vec<String>> {
    let set = absent_is_none(root.text(SETTING)).map_err(|e| at(SETTING, &e))?;
    let set = set.filter(|folder| !folder.is_empty());
    let mut found = BTreeSet::new();
    for folder in set
        .iter()
        .map(String::as_str)
        .chain(FOLDERS.iter().copied())
    {
        let folder = format!("{}/nvidia", folder.trim_matches('/'));
        let names = absent_is_none(root.names(&folder))
            .map_err(|e| at(&folder, &e))?
            .unwrap_or_default();
        for version in names
            .iter()
            .filter_map(|n| n.to_str())
            .filter(|n| is_version(n))
        {
            let files = root
                .names(format!("{folder}/{version}"))
                .map_err(|e| at(&folder, &e))?;
            // Distributions compress firmware: gsp_ga10x.bin.zst
            let gsp = |file: &str| file.starts_with("gsp_") && file.contains(".bin");
            if files.iter().filter_map(|f| f.to_str()).any(gsp) {
                found.insert(version.to_owned());
            }
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    #[test]
    fn versions_of_all_folders_are_found_and_nouveaus_files_are_not() {
        let dir = machine(&[
            (
                "run/firstlight/driver/firmware/nvidia/555.58.02/gsp_ga10x.bin",
                "",
            ),
            ("usr/lib/firmware/nvidia/550.163.01/gsp_tu10x.bin.zst", ""),
            ("usr/lib/firmware/nvidia/ad102/gsp/gsp-535.113.01.bin", ""),
            ("lib/firmware/nvidia/535.54.03/readme", ""),
            ("opt/fw/nvidia/560.1.2/gsp_ga10x.bin", ""),
            (SETTING, "/opt/fw\n"),
        ]);
        let found = versions(&Root::new(dir.path())).unwrap();
        assert_eq!(found, ["550.163.01", "555.58.02", "560.1.2"]);
        assert_eq!(versions(&Root::new(machine(&[]).path())), Ok(vec![]));
    }
}
