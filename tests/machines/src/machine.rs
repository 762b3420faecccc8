//! A machine as data: its PCI functions, its RDMA devices, and what its kernel reports. Converting it to files is left to
//! `kernel`.

use super::Tree;
use super::config_space::Link;
use super::driver::Driver;

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
    /// The processors near it.
    pub cpus: String,
    /// The bound driver.
    pub driver: Option<&'static str>,
    /// For displays: whether the firmware uses it as its display.
    pub boot_vga: Option<bool>,
    /// Base address registers: index, start, size, flags.
    pub bars: Vec<(u8, u64, u64, u64)>,
    /// Its link as sysfs reports it.
    pub link: Option<Link>,
    /// Its IOMMU group.
    pub group: Option<u32>,
}

impl Function {
    /// Makes it another device of the same vendor.
    pub fn set_device(&mut self, device: u16) {
        self.ids.1 = device;
        self.config[2..4].copy_from_slice(&device.to_le_bytes());
    }
}

/// A whole machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name.
    pub name: &'static str,
    /// What it is a model of, in one sentence.
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
    /// NVIDIA's driver; used if the machine has a GPU.
    pub driver: Driver,
    /// Vendor, product and firmware version, as reported by DMI.
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
        self.functions
            .iter_mut()
            .find(|f| f.bdf == bdf)
            .expect("the machine has this function")
    }
}

/// Number of slots that a port's address table shows; real ones have up to 256.
const SLOTS: usize = 8;
const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

/// An RDMA device with one port.
#[derive(Debug, Clone)]
pub struct Rdma {
    /// Its name and the address of its function.
    pub name: &'static str,
    /// The PCI function that it is on.
    pub bdf: &'static str,
    /// State, physical state, link layer and rate of the port.
    pub port: [&'static str; 4],
    /// Addresses: slot, address, kind.
    pub gids: Vec<(usize, &'static str, &'static str)>,
    /// Its network interface.
    pub netdev: &'static str,
    /// State, carrier and speed of the interface.
    pub link: [&'static str; 3],
}

impl Rdma {
    /// A RoCE port at 100 Gb/s; `ipv4` is its address in hexadecimal and the slot of its RoCE v2 entry, which differs
    /// between devices, as on machines whose addresses have changed.
    pub fn ethernet(
        name: &'static str,
        bdf: &'static str,
        netdev: &'static str,
        (slot, ipv4): (usize, &'static str),
    ) -> Self {
        let local = "fe80:0000:0000:0000:0ac0:ebff:fe12:3456";
        Self {
            name,
            bdf,
            port: ["4: ACTIVE", "5: LinkUp", "Ethernet", "100 Gb/sec (4X EDR)"],
            gids: vec![
                (0, local, "IB/RoCE v1"),
                (1, local, "RoCE v2"),
                (slot - 1, ipv4, "IB/RoCE v1"),
                (slot, ipv4, "RoCE v2"),
            ],
            netdev,
            link: ["up", "1", "100000"],
        }
    }

    /// A RoCE port without a cable.
    pub fn unplugged(name: &'static str, bdf: &'static str, netdev: &'static str) -> Self {
        let port = ["1: DOWN", "3: Disabled", "Ethernet", "40 Gb/sec (4X QDR)"];
        let gids = vec![(0, "fe80:0000:0000:0000:0ac0:ebff:fe12:3457", "RoCE v2")];
        Self {
            name,
            bdf,
            port,
            gids,
            netdev,
            link: ["down", "0", "-1"],
        }
    }

    /// An InfiniBand port at 100 Gb/s.
    pub fn infiniband(name: &'static str, bdf: &'static str, netdev: &'static str) -> Self {
        Self {
            name,
            bdf,
            port: [
                "4: ACTIVE",
                "5: LinkUp",
                "InfiniBand",
                "100 Gb/sec (4X EDR)",
            ],
            gids: vec![(0, "fe80:0000:0000:0000:0ac0:eb03:0012:3458", "IB/RoCE v1")],
            netdev,
            link: ["up", "1", "100000"],
        }
    }

    fn is_ethernet(&self) -> bool {
        self.port[2] == "Ethernet"
    }
}

/// Adds a device whose function's folder is `path`, relative to sys/devices.
pub(super) fn add_rdma(rdma: &Rdma, path: &str, to: &mut Tree) {
    let under = format!("{path}/infiniband/{}", rdma.name);
    to.link(
        &format!("sys/devices/{under}/device"),
        &format!("../../../{}", rdma.bdf),
    );
    to.link(
        &format!("sys/class/infiniband/{}", rdma.name),
        &format!("../../devices/{under}"),
    );
    let port = format!("sys/devices/{under}/ports/1");
    for (name, text) in ["state", "phys_state", "link_layer", "rate"]
        .iter()
        .zip(rdma.port)
    {
        to.file(&format!("{port}/{name}"), &format!("{text}\n"));
    }
    to.folder(&format!("{port}/gid_attrs/ndevs"));
    for slot in 0..SLOTS {
        let gid = rdma.gids.iter().find(|(at, ..)| *at == slot);
        let address = gid.map_or(EMPTY, |(_, address, _)| address);
        to.file(&format!("{port}/gids/{slot}"), &format!("{address}\n"));
        // The kernel has a file for an empty slot too, and returns EINVAL when it is read.
        if let Some((_, _, kind)) = gid {
            to.file(
                &format!("{port}/gid_attrs/types/{slot}"),
                &format!("{kind}\n"),
            );
            if rdma.is_ethernet() {
                to.file(
                    &format!("{port}/gid_attrs/ndevs/{slot}"),
                    &format!("{}\n", rdma.netdev),
                );
            }
        }
    }
    let net = format!("{path}/net/{}", rdma.netdev);
    to.link(
        &format!("sys/class/net/{}", rdma.netdev),
        &format!("../../devices/{net}"),
    );
    for (name, text) in ["operstate", "carrier", "speed"].iter().zip(rdma.link) {
        to.file(&format!("sys/devices/{net}/{name}"), &format!("{text}\n"));
    }
    to.file(&format!("sys/devices/{net}/dev_port"), "0\n");
}
