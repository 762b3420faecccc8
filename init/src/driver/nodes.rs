//! Plans the device nodes that the driver's programs need, from /proc/devices and the driver's own files.
//! There is no udev to make them, and the tool that NVIDIA's libraries would run for it is not in the
//! image. Pure; `start::make_nodes` makes them.

use super::report::Node;
use std::collections::BTreeMap;

/// Minor of /dev/nvidiactl.
const CONTROL: u32 = 255;
/// Minor of /dev/nvidia-nvswitchctl.
const SWITCH_CONTROL: u32 = 255;

/// Permissions and owner of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePermissions {
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// One node with its permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// Path and device number.
    pub node: Node,
    /// Permissions and owner.
    pub access: NodePermissions,
}

/// What the driver and the kernel report about the devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reported {
    /// Character devices of /proc/devices: name, major.
    pub majors: BTreeMap<String, u32>,
    /// `/proc/driver/nvidia/params`.
    pub params: BTreeMap<String, String>,
    /// Minor of each GPU, by address; `None` when the driver does not state it.
    pub gpus: BTreeMap<String, Option<u32>>,
    /// The capabilities: minor, permissions.
    pub capabilities: Vec<(u32, u32)>,
    /// Number of NVSwitches that the driver has.
    pub switches: u32,
}

/// Parses the character devices of /proc/devices.
#[must_use]
pub fn majors(text: &str) -> BTreeMap<String, u32> {
    let characters = text
        .lines()
        .skip_while(|line| line.trim() != "Character devices:")
        .skip(1);
    let characters = characters.take_while(|line| !line.trim().is_empty());
    let pairs = characters.filter_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), major.parse().ok()?))
    });
    pairs.collect()
}

/// Parses a number in a file of `Name: value` lines.
#[must_use]
pub fn number(text: &str, name: &str) -> Option<u32> {
    let value = text
        .lines()
        .find_map(|line| line.split_once(':').filter(|(n, _)| n.trim() == name));
    value?.1.trim().parse().ok()
}

/// The nodes to make, and the names of devices that have no major number although their module is loaded.
#[must_use]
pub fn plan(devices: &Reported, has_uvm: bool) -> (Vec<PlannedNode>, Vec<&'static str>) {
    let param = |name: &str, otherwise: u32| {
        devices
            .params
            .get(name)
            .and_then(|v| v.parse().ok())
            .unwrap_or(otherwise)
    };
    // The file has decimal numbers; the default is world-accessible: 438 is 0666.
    let access = NodePermissions {
        mode: param("DeviceFileMode", 0o666),
        uid: param("DeviceFileUID", 0),
        gid: param("DeviceFileGID", 0),
    };
    let major = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| devices.majors.get(*name).copied())
    };
    let (mut nodes, mut without) = (Vec::new(), Vec::new());
    let mut add = |path: String, major: u32, minor: u32, access: NodePermissions| {
        nodes.push(PlannedNode {
            node: Node { path, major, minor },
            access,
        });
    };
    match major(&["nvidia", "nvidiactl", "nvidia-frontend"]) {
        Some(major) => {
            add("/dev/nvidiactl".to_owned(), major, CONTROL, access);
            for minor in devices.gpus.values().copied().flatten() {
                add(format!("/dev/nvidia{minor}"), major, minor, access);
            }
        }
        None => without.push("nvidia"),
    }
    match major(&["nvidia-uvm"]) {
        Some(major) if has_uvm => {
            add("/dev/nvidia-uvm".to_owned(), major, 0, access);
            add("/dev/nvidia-uvm-tools".to_owned(), major, 1, access);
        }
        None if has_uvm => without.push("nvidia-uvm"),
        _ => {}
    }
    if let Some(major) = major(&["nvidia-caps"]) {
        for (minor, mode) in &devices.capabilities {
            let access = NodePermissions {
                mode: *mode,
                ..access
            };
            add(
                format!("/dev/nvidia-caps/nvidia-cap{minor}"),
                major,
                *minor,
                access,
            );
        }
    }
    if let Some(major) = major(&["nvidia-caps-imex-channels"]) {
        add(
            "/dev/nvidia-caps-imex-channels/channel0".to_owned(),
            major,
            0,
            access,
        );
    }
    if let Some(major) = major(&["nvidia-nvlink"]) {
        add("/dev/nvidia-nvlink".to_owned(), major, 0, access);
    }
    if let Some(major) = major(&["nvidia-nvswitch"]).filter(|_| devices.switches > 0) {
        add(
            "/dev/nvidia-nvswitchctl".to_owned(),
            major,
            SWITCH_CONTROL,
            access,
        );
        for minor in 0..devices.switches {
            add(format!("/dev/nvidia-nvswitch{minor}"), major, minor, access);
        }
    }
    (nodes, without)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n234 nvidia-caps\n\
                           235 nvidia-caps-imex-channels\n236 nvidia-nvswitch\n237 nvidia-nvlink\n510 nvidia-uvm\n\nBlock devices:\n  7 loop\n254 nvidia-nonsense\n";
    const INFORMATION: &str =
        "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 11\nDevice Minor: \t 3\n";

    fn devices() -> Reported {
        Reported {
            majors: majors(DEVICES),
            params: [
                ("DeviceFileMode".to_owned(), "432".to_owned()),
                ("DeviceFileGID".to_owned(), "44".to_owned()),
            ]
            .into(),
            gpus: [
                ("0000:01:00.0".to_owned(), Some(0)),
                ("0000:02:00.0".to_owned(), None),
                ("0000:41:00.0".to_owned(), Some(3)),
            ]
            .into(),
            capabilities: vec![(1, 0o400), (2, 0o444)],
            switches: 2,
        }
    }

    #[test]
    fn character_devices_have_majors_and_block_devices_do_not_count() {
        let majors = majors(DEVICES);
        assert_eq!(
            (
                majors["mem"],
                majors["nvidia-uvm"],
                majors.contains_key("loop")
            ),
            (1, 510, false)
        );
        assert_eq!(super::majors("").len(), 0);
        assert_eq!(
            super::majors("Character devices:\nx y\n99999999999 z\n").len(),
            0
        );
    }

    #[test]
    fn a_gpus_minor_is_read_whatever_blanks_surround_it() {
        assert_eq!(number(INFORMATION, "Device Minor"), Some(3));
        assert_eq!(
            (
                number(INFORMATION, "Minor"),
                number("Device Minor: x", "Device Minor")
            ),
            (None, None)
        );
    }

    #[test]
    fn every_device_that_the_driver_has_gets_its_node() {
        let (nodes, without) = plan(&devices(), true);
        let lines: Vec<_> = nodes
            .iter()
            .map(|p| {
                let (node, access) = (&p.node, p.access);
                format!(
                    "{} {}:{} {:o} {}:{}",
                    node.path, node.major, node.minor, access.mode, access.uid, access.gid
                )
            })
            .collect();
        assert_eq!(
            lines,
            [
                "/dev/nvidiactl 195:255 660 0:44",
                "/dev/nvidia0 195:0 660 0:44",
                "/dev/nvidia3 195:3 660 0:44",
                "/dev/nvidia-uvm 510:0 660 0:44",
                "/dev/nvidia-uvm-tools 510:1 660 0:44",
                "/dev/nvidia-caps/nvidia-cap1 234:1 400 0:44",
                "/dev/nvidia-caps/nvidia-cap2 234:2 444 0:44",
                "/dev/nvidia-caps-imex-channels/channel0 235:0 660 0:44",
                "/dev/nvidia-nvlink 237:0 660 0:44",
                "/dev/nvidia-nvswitchctl 236:255 660 0:44",
                "/dev/nvidia-nvswitch0 236:0 660 0:44",
                "/dev/nvidia-nvswitch1 236:1 660 0:44",
            ]
        );
        assert_eq!(without, [""; 0]);
    }

    #[test]
    fn a_driver_without_its_numbers_is_named() {
        let mut devices = devices();
        devices.majors.clear();
        assert_eq!(plan(&devices, true), (vec![], vec!["nvidia", "nvidia-uvm"]));
        assert_eq!(plan(&devices, false).1, ["nvidia"]);
    }

    #[test]
    fn older_drivers_call_their_device_otherwise() {
        let older = Reported {
            majors: [("nvidia-frontend".to_owned(), 195)].into(),
            ..Reported::default()
        };
        let (nodes, _) = plan(&older, false);
        assert_eq!((nodes.len(), nodes[0].access.mode), (1, 0o666));
    }
}
