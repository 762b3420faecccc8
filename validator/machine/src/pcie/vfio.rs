//! Functions that are bound to a driver which passes them to a virtual machine. Pure.

use super::model::Device;

impl Device {
    /// The driver that passes this function to a virtual machine; `None` if its driver is another one. Linux names it
    /// `vfio-pci`; vendor variants end with that: `mlx5_vfio_pci`, `nvgrace-gpu-vfio-pci`.
    #[must_use]
    pub fn pass_through_driver(&self) -> Option<&str> {
        self.driver
            .as_deref()
            .filter(|driver| driver.replace('_', "-").ends_with("vfio-pci"))
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
}
