//! Reads the driver's information about its devices and makes their nodes.

use crate::driver::in_force;
use crate::driver::nodes::{PlannedNode, Reported, majors, number};
use crate::sys::devices::{device_number, make_character_device};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Limits for /proc/driver/nvidia/capabilities: depth of folders, number of files.
const DEEPEST: usize = 8;
const MOST: usize = 4096;

/// Reads the driver's information; `gpus` are those on the bus.
///
/// # Errors
/// A line with the file that cannot be read.
pub(super) fn read_devices(proc: &Path, gpus: &[String]) -> Result<Reported, String> {
    let devices = proc.join("devices");
    let text = fs::read_to_string(&devices).map_err(|e| format!("{}: {e}", devices.display()))?;
    let nvidia = proc.join("driver/nvidia");
    let minor = |address: &str| {
        let text =
            fs::read_to_string(nvidia.join("gpus").join(address).join("information")).ok()?;
        number(&text, "Device Minor")
    };
    let mut capabilities = Vec::new();
    find_capabilities(&nvidia.join("capabilities"), DEEPEST, &mut capabilities);
    capabilities.sort_unstable();
    capabilities.dedup();
    let switches =
        fs::read_dir(proc.join("driver/nvidia-nvswitch/devices")).map_or(0, Iterator::count);
    Ok(Reported {
        majors: majors(&text),
        params: in_force::driver_params(proc),
        gpus: gpus
            .iter()
            .map(|address| (address.clone(), minor(address)))
            .collect(),
        capabilities,
        switches: u32::try_from(switches).unwrap_or(0),
    })
}

fn find_capabilities(folder: &Path, deeper: usize, found: &mut Vec<(u32, u32)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && deeper > 0 {
            find_capabilities(&entry.path(), deeper - 1, found);
        } else if kind.is_file() && found.len() < MOST {
            found.extend(
                fs::read_to_string(entry.path())
                    .ok()
                    .and_then(|text| capability(&text)),
            );
        }
    }
}

/// Parses `DeviceFileMinor` and `DeviceFileMode`, both decimal.
fn capability(text: &str) -> Option<(u32, u32)> {
    Some((
        number(text, "DeviceFileMinor")?,
        number(text, "DeviceFileMode")? & 0o777,
    ))
}

/// Makes a node below `root` (`/` on a real machine). A correct existing node is kept; anything else in its
/// place is replaced.
///
/// # Errors
/// As mknod(2), and as removing what is in its place.
pub(super) fn make_node(root: &Path, planned: &PlannedNode) -> io::Result<()> {
    let PlannedNode { node, access } = planned;
    let path = root.join(node.path.trim_start_matches('/'));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let is_right = |there: &fs::Metadata| {
        there.file_type().is_char_device()
            && device_number(there.rdev()) == (node.major, node.minor)
    };
    match fs::symlink_metadata(&path) {
        Ok(there) if is_right(&there) => {
            fs::set_permissions(&path, Permissions::from_mode(access.mode))?;
        }
        Ok(_) => {
            fs::remove_file(&path)?;
            make_character_device(&path, node.major, node.minor, access.mode)?;
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            make_character_device(&path, node.major, node.minor, access.mode)?;
        }
        Err(e) => return Err(e),
    }
    chown(&path, Some(access.uid), Some(access.gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::nodes::NodePermissions;
    use crate::driver::report::Node;
    use crate::sample::files;

    #[test]
    fn the_driver_is_asked_for_minors_and_capabilities() {
        let proc = files(&[
            ("devices", "Character devices:\n195 nvidia\n"),
            ("driver/nvidia/params", "DeviceFileMode: 438\n"),
            (
                "driver/nvidia/gpus/0000:01:00.0/information",
                "Device Minor: \t 1\n",
            ),
            (
                "driver/nvidia/capabilities/mig/config",
                "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n",
            ),
            (
                "driver/nvidia/capabilities/gpu0/mig/gi1/access",
                "DeviceFileMinor: 12\nDeviceFileMode: 292\n",
            ),
            ("driver/nvidia/capabilities/mig-minors", "config 1\n"),
            (
                "driver/nvidia-nvswitch/devices/0000:07:00.0/information",
                "BIOS Version: N/A\n",
            ),
        ]);
        let devices =
            read_devices(proc.path(), &["0000:01:00.0".into(), "0000:02:00.0".into()]).unwrap();
        assert_eq!(
            (devices.gpus["0000:01:00.0"], devices.gpus["0000:02:00.0"]),
            (Some(1), None)
        );
        assert_eq!(devices.capabilities, [(1, 0o400), (12, 0o444)]);
        assert_eq!(
            (devices.switches, devices.params["DeviceFileMode"].as_str()),
            (1, "438")
        );
        assert!(
            read_devices(Path::new("/none"), &[])
                .unwrap_err()
                .starts_with("/none/devices: ")
        );
    }

    fn planned(minor: u32, mode: u32) -> PlannedNode {
        let node = Node {
            path: "/dev/caps/null".to_owned(),
            major: 1,
            minor,
        };
        PlannedNode {
            node,
            access: NodePermissions {
                mode,
                uid: 0,
                gid: 0,
            },
        }
    }

    #[test]
    fn a_wrong_file_in_a_nodes_place_is_replaced_and_a_right_node_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dev/caps/null");
        let is = |minor, mode| {
            let there = fs::symlink_metadata(&path).unwrap();
            assert!(there.file_type().is_char_device());
            assert_eq!(
                (device_number(there.rdev()), there.mode() & 0o777),
                ((1, minor), mode)
            );
            there.ino()
        };
        make_node(root.path(), &planned(3, 0o666)).unwrap();
        let first = is(3, 0o666);
        make_node(root.path(), &planned(3, 0o400)).unwrap();
        assert_eq!(is(3, 0o400), first);
        make_node(root.path(), &planned(5, 0o666)).unwrap();
        is(5, 0o666);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        make_node(root.path(), &planned(3, 0o666)).unwrap();
        is(3, 0o666);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("dev/caps/null/full")).unwrap();
        assert!(make_node(root.path(), &planned(3, 0o666)).is_err());
    }
}
