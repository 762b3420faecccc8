//! The device nodes that programs of the NVIDIA driver need, with their numbers, and what exists at their
//! paths.

use super::gpus::Information;
use super::{ReadResult, at};
use crate::root::Root;
use std::collections::BTreeMap;
use std::io::ErrorKind;

/// NVIDIA's own, fixed number for `nvidiactl` and every GPU (Linux: LANANA device list).
const MAJOR: u32 = 195;
/// Minor number of `/dev/nvidiactl`.
const CONTROL: u32 = 255;

/// One node: its path and its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// `/dev/nvidia0`
    pub path: String,
    /// Major and minor number; `None` if the module that serves it is not loaded.
    pub numbers: Option<(u32, u32)>,
}

/// The nodes that every CUDA program opens. The error names a GPU for which the driver reports no minor
/// number.
///
/// # Errors
/// See above.
pub fn needed_nodes(
    gpus: &BTreeMap<String, Information>,
    majors: &BTreeMap<String, u32>,
) -> ReadResult<Vec<DeviceNode>> {
    let node = |name: &str, numbers| DeviceNode {
        path: format!("/dev/{name}"),
        numbers,
    };
    let uvm = |minor| majors.get("nvidia-uvm").map(|major| (*major, minor));
    let mut all = vec![node("nvidiactl", Some((MAJOR, CONTROL)))];
    for (gpu, information) in gpus {
        let minor = information
            .minor
            .ok_or_else(|| format!("the driver reports no Device Minor for {gpu}"))?;
        all.push(node(&format!("nvidia{minor}"), Some((MAJOR, minor))));
    }
    all.push(node("nvidia-uvm", uvm(0)));
    all.push(node("nvidia-uvm-tools", uvm(1)));
    Ok(all)
}

/// Character devices by name, from /proc/devices.
///
/// # Errors
/// If the file cannot be read.
pub fn majors(root: &Root) -> ReadResult<BTreeMap<String, u32>> {
    let text = root
        .text("proc/devices")
        .map_err(|e| at("proc/devices", &e))?;
    Ok(parse(&text))
}

/// Lines `195 nvidia` up to the block devices.
fn parse(devices: &str) -> BTreeMap<String, u32> {
    let characters = devices
        .lines()
        .take_while(|line| !line.starts_with("Block devices"));
    let pairs = characters.filter_map(|line| line.trim().split_once(' '));
    pairs
        .filter_map(|(major, name)| Some((name.trim().to_owned(), major.parse().ok()?)))
        .collect()
}

/// What exists at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Nothing.
    Missing,
    /// A file, a folder, a disk.
    Other,
    /// A character device: major and minor number.
    Device(u32, u32),
}

/// Checks a path.
///
/// # Errors
/// If the check fails.
pub fn state(root: &Root, path: &str) -> ReadResult<NodeState> {
    match root.character_device(path) {
        Ok((major, minor)) => Ok(NodeState::Device(major, minor)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(NodeState::Missing),
        Err(e) if e.kind() == ErrorKind::InvalidData => Ok(NodeState::Other),
        Err(e) => Err(format!("{path}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\n\n\
        Block devices:\n  8 sd\n300 nvidia-uvm\n";

    fn gpu(minor: Option<u32>) -> BTreeMap<String, Information> {
        BTreeMap::from([(
            "0000:01:00.0".to_owned(),
            Information {
                minor,
                ..Information::default()
            },
        )])
    }

    #[test]
    fn nodes_follow_from_minors_and_majors() {
        let all = needed_nodes(&gpu(Some(3)), &parse(DEVICES)).unwrap();
        let all: Vec<_> = all.iter().map(|n| (n.path.as_str(), n.numbers)).collect();
        assert_eq!(
            all,
            [
                ("/dev/nvidiactl", Some((195, 255))),
                ("/dev/nvidia3", Some((195, 3))),
                ("/dev/nvidia-uvm", Some((510, 0))),
                ("/dev/nvidia-uvm-tools", Some((510, 1)))
            ]
        );
    }

    #[test]
    fn without_uvm_its_nodes_have_no_numbers_and_a_gpu_without_minor_is_an_error() {
        assert_eq!(
            needed_nodes(&gpu(Some(0)), &BTreeMap::new()).unwrap()[2].numbers,
            None
        );
        assert!(
            needed_nodes(&gpu(None), &BTreeMap::new())
                .unwrap_err()
                .contains("0000:01:00.0")
        );
    }
}
