//! The programs without which CUDA cannot use GPUs that NVSwitches connect: the fabric manager, and with NVLink 5 nvlsm too.
//! With NVLink 5 the NVSwitches are not on the bus, and functions of a ConnectX-7 lead to them.

use crate::pcie::model::{Bdf, Device, Fabric};
use crate::pcie::vpd::leads_to_nvswitches;
use crate::root::Root;
use contract::pci_vendor;

/// "Bridge, other": the class of an NVSwitch.
const SWITCH: &str = "0x0680";

/// Whether it is an NVSwitch on the bus.
#[must_use]
pub fn is_nvswitch(device: &Device) -> bool {
    device.vendor == pci_vendor::NVIDIA && device.class.starts_with(SWITCH)
}

/// The NVSwitches of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Switches {
    /// Those on the bus.
    OnBus(Vec<Bdf>),
    /// The functions that lead to those of NVLink 5.
    Nvlink5(Vec<Bdf>),
}

/// The NVSwitches that this machine manages itself; `None` if it has none.
#[must_use]
pub fn switches(fabric: &Fabric, root: &Root) -> Option<Switches> {
    let devices = || fabric.devices.iter();
    let on_bus: Vec<_> = devices()
        .filter(|device| is_nvswitch(device))
        .map(|device| device.bdf)
        .collect();
    if !on_bus.is_empty() {
        return Some(Switches::OnBus(on_bus));
    }
    let leads = |bdf: &Bdf| leads_to_nvswitches(root, &format!("sys/bus/pci/devices/{bdf}"));
    let behind: Vec<_> = devices()
        .filter(|device| device.vendor == pci_vendor::MELLANOX)
        .map(|device| device.bdf)
        .filter(leads)
        .collect();
    (!behind.is_empty()).then_some(Switches::Nvlink5(behind))
}

/// Which of the programs run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// nvlsm.
    pub nvlsm: bool,
    /// The fabric manager.
    pub fabric_manager: bool,
}

/// Which of them run, by the names of this machine's processes.
#[must_use]
pub fn running(root: &Root) -> Running {
    let mut found = Running::default();
    for name in processes(root) {
        match name.as_str() {
            "nvlsm" => found.nvlsm = true,
            // The kernel keeps 15 characters of a name.
            "nv-fabricmanage" => found.fabric_manager = true,
            _ => {}
        }
    }
    found
}

/// Whether a process of this name runs; the kernel keeps 15 characters of a name.
pub(super) fn runs(root: &Root, name: &str) -> bool {
    processes(root).iter().any(|process| process == name)
}

/// The names of this machine's processes.
fn processes(root: &Root) -> Vec<String> {
    let processes = root.names("proc").unwrap_or_default();
    let processes = processes.iter().filter_map(|name| name.to_str());
    let processes = processes.filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    processes
        .filter_map(|process| root.text(format!("proc/{process}/comm")).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::model::{Device, Kind};
    use crate::pcie::sample;

    fn fabric(devices: &[(&str, &str)]) -> Fabric {
        let device = |(n, (vendor, class)): (usize, &(&str, &str))| {
            let plain = sample::device(&format!("0000:05:00.{n}"), Kind::Endpoint, None);
            Device {
                vendor: (*vendor).to_owned(),
                class: (*class).to_owned(),
                ..plain
            }
        };
        sample::fabric(devices.iter().enumerate().map(device).collect())
    }

    #[test]
    fn switches_are_on_the_bus_or_behind_functions_whose_vpd_says_so() {
        let none = Root::new("/none");
        let on_bus = fabric(&[("0x10de", "0x068000")]);
        let first = on_bus.devices[0].bdf;
        assert_eq!(switches(&on_bus, &none), Some(Switches::OnBus(vec![first])));
        let behind = fabric(&[("0x15b3", "0x020700"), ("0x15b3", "0x020000")]);
        let file = |name: &str| format!("sys/bus/pci/devices/{}/{name}", behind.devices[0].bdf);
        let of = |vpd: &str| {
            Root::written(&[
                (file("class").as_str(), "0x020700\n"),
                (file("vpd").as_str(), vpd),
            ])
        };
        let (_dir, root) = of("\u{82}MLX:SMDL=SW_MNG");
        assert_eq!(
            switches(&behind, &root),
            Some(Switches::Nvlink5(vec![behind.devices[0].bdf]))
        );
        let (_dir, card) = of("\u{82}MLX:MODL=C7010Z");
        assert_eq!(switches(&behind, &card), None);
        assert_eq!(switches(&behind, &none), None);
    }

    #[test]
    fn programs_are_known_by_the_names_of_processes() {
        let (_dir, root) = Root::written(&[
            ("proc/12/comm", "nvlsm\n"),
            ("proc/13/comm", "nv-fabricmanage\n"),
            ("proc/self/comm", "x"),
        ]);
        assert_eq!(
            running(&root),
            Running {
                nvlsm: true,
                fabric_manager: true
            }
        );
        let (_dir, root) = Root::written(&[("proc/12/comm", "nvlsm-helper\n")]);
        assert_eq!(running(&root), Running::default());
    }
}
