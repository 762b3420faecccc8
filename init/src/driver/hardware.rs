//! Finds the NVIDIA devices on the PCI bus from what the kernel recorded at enumeration; this accesses no
//! device.

use contract::pci_vendor;
use std::fs;
use std::path::Path;

/// Display controllers of every kind.
const DISPLAY: &str = "0x03";
/// One that drives no display.
const WITHOUT_DISPLAY: &str = "0x0302";
/// "Bridge, other": the class of an NVSwitch.
const SWITCH: &str = "0x0680";

/// The devices on the bus, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// GPUs.
    pub gpus: Vec<Gpu>,
    /// NVSwitches.
    pub nvswitches: Vec<String>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its address, `0000:01:00.0`.
    pub address: String,
    /// Its PCI device id.
    pub device: u16,
    /// Whether it is a 3D controller: no display can be connected, as with GPUs of data centers.
    pub is_without_display: bool,
}

impl Hardware {
    /// Reads the devices from a /sys.
    ///
    /// # Errors
    /// A line with the file that cannot be read. The devices on the bus are then unknown, which is not the
    /// same as none.
    pub fn read(sys: &Path) -> Result<Self, String> {
        let devices = sys.join("bus/pci/devices");
        let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
        let mut found = Self::default();
        for entry in fs::read_dir(&devices).map_err(|e| failed(&devices, e))? {
            let entry = entry.map_err(|e| failed(&devices, e))?;
            let read = |name: &str| {
                let path = entry.path().join(name);
                fs::read_to_string(&path)
                    .map(|text| text.trim().to_owned())
                    .map_err(|e| failed(&path, e))
            };
            if read("vendor")? != pci_vendor::NVIDIA {
                continue;
            }
            let address = entry.file_name().to_string_lossy().into_owned();
            let class = read("class")?;
            if class.starts_with(DISPLAY) {
                let id = read("device")?;
                let device = id
                    .strip_prefix("0x")
                    .and_then(|digits| u16::from_str_radix(digits, 16).ok());
                let device =
                    device.ok_or_else(|| format!("{address}: its device id reads {id:?}"))?;
                let is_without_display = class.starts_with(WITHOUT_DISPLAY);
                found.gpus.push(Gpu {
                    address,
                    device,
                    is_without_display,
                });
            } else if class.starts_with(SWITCH) {
                found.nvswitches.push(address);
            }
        }
        found.gpus.sort_by(|a, b| a.address.cmp(&b.address));
        found.nvswitches.sort();
        Ok(found)
    }

    /// The GPUs' addresses.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.gpus.iter().map(|gpu| gpu.address.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::files;

    #[test]
    fn gpus_and_switches_of_one_vendor_are_found_in_order() {
        let device = |address: &str, vendor: &str, class: &str, id: &str| {
            [("vendor", vendor), ("class", class), ("device", id)].map(|(file, text)| {
                (
                    format!("bus/pci/devices/{address}/{file}"),
                    format!("{text}\n"),
                )
            })
        };
        let all: Vec<_> = [
            device("0000:41:00.0", "0x10de", "0x030200", "0x2330"),
            device("0000:01:00.0", "0x10de", "0x030000", "0x2684"),
            device("0000:01:00.1", "0x10de", "0x040300", "0x22ba"),
            device("0000:07:00.0", "0x10de", "0x068000", "0x22a3"),
            device("0000:00:02.0", "0x1234", "0x030000", "0x1111"),
        ]
        .concat();
        let all: Vec<_> = all
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let sys = files(&all);
        let found = Hardware::read(sys.path()).unwrap();
        assert_eq!(found.addresses(), ["0000:01:00.0", "0000:41:00.0"]);
        assert_eq!(found.gpus[0].device, 0x2684);
        assert_eq!(
            found
                .gpus
                .iter()
                .map(|gpu| gpu.is_without_display)
                .collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(found.nvswitches, ["0000:07:00.0"]);
        fs::remove_file(sys.path().join("bus/pci/devices/0000:01:00.0/class")).unwrap();
        assert!(
            Hardware::read(sys.path())
                .unwrap_err()
                .contains("0000:01:00.0/class: No such file")
        );
    }

    #[test]
    fn a_bus_that_cannot_be_read_is_not_an_empty_one() {
        assert!(
            Hardware::read(Path::new("/none"))
                .unwrap_err()
                .starts_with("/none/bus/pci/devices: ")
        );
    }
}
