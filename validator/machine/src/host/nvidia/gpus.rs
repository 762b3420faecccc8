//! What the loaded NVIDIA driver reports about each of its GPUs in /proc/driver/nvidia/gpus.

use super::version::is_version;
use crate::host::modules::absent_is_none;
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

pub(super) const FOLDER: &str = "proc/driver/nvidia/gpus";

/// One GPU's `information`; `None` if the driver does not know it yet, as before its first use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Information {
    /// The model, e.g. `NVIDIA GeForce RTX 4090`.
    pub name: Option<String>,
    /// Its own id, e.g. `GPU-1e5d..`.
    pub uuid: Option<String>,
    /// Version of its VBIOS.
    pub vbios: Option<String>,
    /// Version of the GSP firmware that runs on it.
    pub firmware: Option<String>,
    /// Minor number of its device node.
    pub minor: Option<u32>,
}

/// By address as the driver writes it (`0000:41:00.0`); empty if the driver is not loaded.
///
/// # Errors
/// If the folder or a GPU's `information` cannot be read.
pub fn read(root: &Root) -> io::Result<BTreeMap<String, Information>> {
    let folders = absent_is_none(root.names(FOLDER))?.unwrap_or_default();
    let read = folders.into_iter().map(|folder| {
        let address = folder.to_string_lossy().into_owned();
        let text = root.text(format!("{FOLDER}/{address}/information"))?;
        Ok((address, parse(&text)))
    });
    read.collect()
}

/// Lines `Name:`, white space, value. Values that the driver does not know contain question marks or `N/A`.
#[must_use]
pub fn parse(information: &str) -> Information {
    let value = |name: &str| {
        let line = information
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?
            .trim();
        (!line.is_empty() && !line.contains('?') && line != "N/A").then(|| line.to_owned())
    };
    Information {
        name: value("Model"),
        uuid: value("GPU UUID"),
        vbios: value("Video BIOS"),
        firmware: value("GPU Firmware").filter(|v| is_version(v)),
        minor: value("Device Minor").and_then(|n| n.parse().ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::machine;
    use super::*;

    const TEXT: &str = "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 11\n\
        GPU UUID: \t GPU-6b4c6a32-0001-0002-0003-000000000004\nVideo BIOS: \t 95.02.3c.80.b4\n\
        Device Minor: \t 3\nGPU Firmware: \t 555.58.02\nGPU Excluded:\t No\n";

    #[test]
    fn values_are_read_without_their_tabs() {
        let gpu = parse(TEXT);
        assert_eq!(gpu.name.as_deref(), Some("NVIDIA GeForce RTX 4090"));
        assert_eq!(
            (gpu.minor, gpu.firmware.as_deref()),
            (Some(3), Some("555.58.02"))
        );
        assert!(gpu.uuid.is_some_and(|u| u.starts_with("GPU-")) && gpu.vbios.is_some());
    }

    #[test]
    fn values_that_the_driver_does_not_know_are_none() {
        let text = "Model: \t\t \nGPU UUID: \t GPU-????????-????-????-????-????????????\n\
            Video BIOS: \t ??.??.??.??.??\nGPU Firmware: \t N/A\nDevice Minor: \t x\n";
        assert_eq!(parse(text), Information::default());
        assert_eq!(parse(""), Information::default());
    }

    #[test]
    fn no_driver_means_no_gpus_and_a_gpu_without_its_file_is_an_error() {
        assert_eq!(
            read(&Root::new(machine(&[]).path())).unwrap(),
            BTreeMap::new()
        );
        let dir = machine(&[("proc/driver/nvidia/gpus/0000:01:00.0/information", TEXT)]);
        let root = Root::new(dir.path());
        assert_eq!(read(&root).unwrap()["0000:01:00.0"].minor, Some(3));
        std::fs::create_dir(dir.path().join("proc/driver/nvidia/gpus/0000:02:00.0")).unwrap();
        assert!(read(&root).is_err());
    }
}
