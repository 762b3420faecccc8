//! Functions that belong to virtual machines: those bound to a `vfio` driver, and those that their own driver gives to
//! guests. Pure.

use super::model::{Bdf, Device};
use contract::pci_vendor;
use std::collections::BTreeSet;

/// Below the folder of a virtual function of NVIDIA vGPU 17 and newer: the number of the vGPU type that is set up on it.
/// The function stays bound to `nvidia` (NVIDIA's Virtual GPU Software User Guide, "Creating an NVIDIA vGPU on Linux with KVM
/// that Uses a Vendor-Specific VFIO Framework").
pub const VGPU_TYPE: &str = "nvidia/current_vgpu_type";
/// Below the folder of a function whose driver makes mediated devices of it
/// (Documentation/driver-api/vfio-mediated-device.rst).
pub const MEDIATED_TYPES: &str = "mdev_supported_types";
/// The module of NVIDIA's vGPU manager, which gives the GPUs of its driver to virtual machines.
pub const VGPU_MANAGER: &str = "nvidia_vgpu_vfio";

/// Whether the content of [`VGPU_TYPE`] names a type: 0 means none, and what is no number may be one.
#[must_use]
pub fn is_vgpu(kind: &str) -> bool {
    kind.trim().parse() != Ok(0_u32)
}

/// Marks further functions whose driver gives them to virtual machines: those of the vGPU manager's driver if it is loaded, and
/// each GPU of which a virtual function is a guest's. A network card whose virtual function is a guest's is used by this
/// machine all the same.
pub fn mark_lent(devices: &mut [Device], manager: bool) {
    for device in devices.iter_mut().filter(|device| is_display(device)) {
        device.lent |= manager && device.driver.as_deref() == Some("nvidia");
    }
    let of_guests: BTreeSet<Bdf> = devices
        .iter()
        .filter(|device| device.pass_through_driver().is_some())
        .filter_map(|device| device.physfn)
        .collect();
    for device in devices.iter_mut().filter(|device| is_display(device)) {
        device.lent |= of_guests.contains(&device.bdf);
    }
}

fn is_display(device: &Device) -> bool {
    device.vendor == pci_vendor::NVIDIA && device.class.starts_with("0x03")
}

impl Device {
    /// The driver that gives this function to virtual machines; `None` if they do not have it. Linux names the driver for
    /// whole functions `vfio-pci`; vendor variants end with that: `mlx5_vfio_pci`, `nvgrace-gpu-vfio-pci`.
    #[must_use]
    pub fn pass_through_driver(&self) -> Option<&str> {
        let driver = self.driver.as_deref();
        driver
            .filter(|driver| self.lent || driver.replace('_', "-").ends_with("vfio-pci"))
            .or(self.lent.then_some("an unknown driver"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn vfio_and_its_variants_pass_a_function_on() {
        let of = |driver: Option<&str>| {
            let gpu = sample::gpu("0000:01:00.0", "0000:00:01.0");
            Device {
                driver: driver.map(str::to_owned),
                ..gpu
            }
            .pass_through_driver()
            .is_some()
        };
        assert!(
            of(Some("vfio-pci")) && of(Some("mlx5_vfio_pci")) && of(Some("nvgrace-gpu-vfio-pci"))
        );
        assert!(!of(Some("nvidia")) && !of(Some("vfio-pci-helper")) && !of(None));
    }

    #[test]
    fn a_type_of_vgpu_is_any_but_zero() {
        assert!(!is_vgpu("0\n") && is_vgpu("918\n") && is_vgpu("") && is_vgpu("x"));
    }

    /// A GPU with a virtual function, and a ConnectX with one; which of them virtual machines have.
    fn lent(manager: bool, change: impl Fn(&mut [Device])) -> Vec<String> {
        let at = |at: &str, driver: &str, whole: Option<&str>| Device {
            driver: Some(driver.to_owned()),
            physfn: whole.map(sample::bdf),
            ..sample::gpu(at, "0000:00:01.0")
        };
        let card = |device: Device| Device {
            vendor: pci_vendor::MELLANOX.into(),
            class: "0x020000".into(),
            ..device
        };
        let mut devices = [
            at("0000:01:00.0", "nvidia", None),
            at("0000:01:00.4", "nvidia", Some("0000:01:00.0")),
            card(at("0000:02:00.0", "mlx5_core", None)),
            card(at("0000:02:00.2", "mlx5_core", Some("0000:02:00.0"))),
        ];
        change(&mut devices);
        mark_lent(&mut devices, manager);
        let lent = devices.iter().filter(|d| d.pass_through_driver().is_some());
        lent.map(|d| d.bdf.to_string()).collect()
    }

    #[test]
    fn a_guests_virtual_function_takes_its_gpu_with_it_and_not_a_network_card() {
        let gpu = ["0000:01:00.0", "0000:01:00.4"];
        assert_eq!(lent(false, |_| ()), [""; 0], "the host uses all of them");
        assert_eq!(lent(false, |devices| devices[1].lent = true), gpu);
        let vfio = |devices: &mut [Device]| devices[1].driver = Some("vfio-pci".into());
        assert_eq!(lent(false, vfio), gpu);
        let card = |devices: &mut [Device]| devices[3].driver = Some("vfio-pci".into());
        assert_eq!(lent(false, card), ["0000:02:00.2"]);
        assert_eq!(lent(true, |_| ()), gpu, "the vGPU manager is loaded");
        let other = |devices: &mut [Device]| devices[0].driver = None;
        assert_eq!(lent(true, other), gpu);
    }

    #[test]
    fn a_lent_function_without_a_known_driver_is_a_guests() {
        let device = Device {
            lent: true,
            ..sample::gpu("0000:01:00.0", "0000:00:01.0")
        };
        assert_eq!(device.pass_through_driver(), Some("an unknown driver"));
    }
}
