//! A machine as data: its PCI functions and what its kernel says about itself. What files
//! these become is left to `kernel`.

use super::config::Link;
use super::driver::Driver;
use super::rdma::Rdma;

/// One PCI function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its address.
    pub bdf: String,
    /// The bridge above; `None` on a root bus.
    pub parent: Option<String>,
    /// The root bus of a function without a parent: `pci0000:c0`.
    pub root_bus: String,
    /// Its configuration space: 4096 or 256 bytes.
    pub config: Vec<u8>,
    /// Vendor, device and class as the kernel read them at boot.
    pub ids: (u16, u16, u32),
    /// Its NUMA node, -1 for none.
    pub numa: i32,
    /// Processors near it.
    pub cpus: String,
    /// The bound driver.
    pub driver: Option<&'static str>,
    /// For displays: whether the firmware's display is on it.
    pub boot_vga: Option<bool>,
    /// Base address registers: index, start, size, flags.
    pub bars: Vec<(u8, u64, u64, u64)>,
    /// Its link as sysfs tells it.
    pub link: Option<Link>,
    /// Its IOMMU group.
    pub group: Option<u32>,
}

/// A whole machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name.
    pub name: &'static str,
    /// What it is modelled for, in one sentence.
    pub about: &'static str,
    /// Its functions, parents before children.
    pub functions: Vec<Function>,
    /// RDMA devices.
    pub rdma: Vec<Rdma>,
    /// Possible, present and online processors.
    pub cpus: [&'static str; 3],
    /// IOMMU class devices.
    pub iommu: Vec<&'static str>,
    /// The type of every IOMMU group.
    pub group_type: &'static str,
    /// ACPI tables besides APIC and MCFG.
    pub tables: Vec<&'static str>,
    /// The kernel's command line.
    pub cmdline: &'static str,
    /// NVIDIA's driver, where it has a GPU.
    pub driver: Driver,
    /// Maker, product and firmware version, as DMI tells them.
    pub dmi: [&'static str; 3],
}

impl Machine {
    /// A machine of 16 processors with `functions`, a distribution's driver and no IOMMU.
    pub fn new(name: &'static str, about: &'static str, functions: Vec<Function>) -> Self {
        Self {
            name,
            about,
            functions,
            rdma: Vec::new(),
            cpus: ["0-15"; 3],
            iommu: Vec::new(),
            group_type: "identity",
            tables: Vec::new(),
            cmdline: "iommu=off,soft intel_iommu=off amd_iommu=off pci=config_acs=0000000@pci:0:0 \
                pcie_aspm.policy=performance",
            driver: Driver::stock("550.163.01"),
            dmi: ["Example", "Workstation", "1.0"],
        }
    }

    /// The function at `bdf`, to change it.
    pub fn at(&mut self, bdf: &str) -> &mut Function {
        self.functions.iter_mut().find(|f| f.bdf == bdf).expect("the machine has this function")
    }
}
