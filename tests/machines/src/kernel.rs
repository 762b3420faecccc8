//! Converts a modelled machine to a file tree in the layout of the real /sys and /proc.

use super::Tree;
use super::config_space::Link;
use super::driver;
use super::machine::{Function, Machine, add_rdma};
use std::collections::{BTreeMap, BTreeSet};

impl Machine {
    /// The machine as a file tree.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        let (sysfs_paths, to) = (sysfs_paths(&self.functions), &mut tree);
        to.file("README", &format!("{}\n", self.about));
        for function in &self.functions {
            add_function(function, &sysfs_paths[&function.bdf], to);
        }
        for device in &self.rdma {
            add_rdma(device, &sysfs_paths[device.bdf], to);
        }
        add_iommu(self, to);
        add_modules(self, to);
        add_framebuffer(self, &sysfs_paths, to);
        driver::add(self, to);
        add_host(self, to);
        tree
    }
}

/// Each function's path below sys/devices.
fn sysfs_paths(functions: &[Function]) -> BTreeMap<String, String> {
    let mut sysfs_paths = BTreeMap::<String, String>::new();
    for function in functions {
        let above = function
            .parent
            .as_ref()
            .map_or(&function.root_bus, |p| &sysfs_paths[p]);
        let path = format!("{above}/{}", function.bdf);
        sysfs_paths.insert(function.bdf.clone(), path);
    }
    sysfs_paths
}

fn add_function(f: &Function, path: &str, to: &mut Tree) {
    let folder = format!("sys/devices/{path}");
    let up = "../".repeat(folder.split('/').count() - 1);
    to.link(
        &format!("sys/bus/pci/devices/{}", f.bdf),
        &format!("../../../devices/{path}"),
    );
    to.bytes(&format!("{folder}/config"), &f.config);
    let (vendor, device, class) = f.ids;
    let mut files = vec![
        ("vendor", format!("{vendor:#06x}")),
        ("device", format!("{device:#06x}")),
        ("class", format!("{class:#08x}")),
        ("revision", "0xa1".to_owned()),
        ("irq", "0".to_owned()),
        ("numa_node", f.numa.to_string()),
        ("local_cpulist", f.cpus.clone()),
        ("resource", resource(&f.bars)),
    ];
    files.extend(
        f.boot_vga
            .map(|boot| ("boot_vga", u8::from(boot).to_string())),
    );
    files.extend(f.link.into_iter().flat_map(link_files));
    for (name, text) in files {
        to.file(&format!("{folder}/{name}"), &format!("{text}\n"));
    }
    if let Some(driver) = f.driver {
        to.link(
            &format!("{folder}/driver"),
            &format!("{up}bus/pci/drivers/{driver}"),
        );
        let bound = format!("sys/bus/pci/drivers/{driver}/{}", f.bdf);
        to.link(&bound, &format!("../../../../devices/{path}"));
    }
    if let Some(group) = f.group {
        to.link(
            &format!("{folder}/iommu_group"),
            &format!("{up}kernel/iommu_groups/{group}"),
        );
        let member = format!("sys/kernel/iommu_groups/{group}/devices/{}", f.bdf);
        to.link(&member, &format!("../../../../devices/{path}"));
    }
}

fn link_files(link: Link) -> [(&'static str, String); 4] {
    let speed = |code: u8| match code {
        1 => "2.5 GT/s PCIe",
        2 => "5.0 GT/s PCIe",
        3 => "8.0 GT/s PCIe",
        4 => "16.0 GT/s PCIe",
        5 => "32.0 GT/s PCIe",
        _ => "Unknown",
    };
    [
        ("current_link_speed", speed(link.speed).to_owned()),
        ("current_link_width", link.width.to_string()),
        ("max_link_speed", speed(link.max_speed).to_owned()),
        ("max_link_width", link.max_width.to_string()),
    ]
}

/// Six BARs, then the expansion ROM.
fn resource(bars: &[(u8, u64, u64, u64)]) -> String {
    let line = |index: u8| {
        let bar = bars.iter().find(|b| b.0 == index);
        let (start, end, flags) = bar.map_or((0, 0, 0), |(_, start, size, flags)| {
            (*start, start + size - 1, *flags)
        });
        format!("{start:#018x} {end:#018x} {flags:#018x}")
    };
    (0..7).map(line).collect::<Vec<_>>().join("\n")
}

fn add_iommu(machine: &Machine, to: &mut Tree) {
    to.folder("sys/class/iommu");
    for name in &machine.iommu {
        let path = format!("virtual/iommu/{name}");
        to.folder(&format!("sys/devices/{path}"));
        to.link(
            &format!("sys/class/iommu/{name}"),
            &format!("../../devices/{path}"),
        );
    }
    let mut groups: Vec<u32> = machine.functions.iter().filter_map(|f| f.group).collect();
    groups.sort_unstable();
    groups.dedup();
    to.folder("sys/kernel/iommu_groups");
    for group in groups {
        to.file(
            &format!("sys/kernel/iommu_groups/{group}/type"),
            &format!("{}\n", machine.group_type),
        );
    }
    for table in ["APIC", "MCFG"].iter().chain(&machine.tables) {
        to.file(&format!("sys/firmware/acpi/tables/{table}"), "");
    }
}

/// The modules of the bound drivers; the port driver is built in.
fn add_modules(machine: &Machine, to: &mut Tree) {
    let drivers = machine
        .functions
        .iter()
        .filter_map(|f| f.driver)
        .filter(|d| *d != "pcieport");
    let drivers: BTreeSet<&str> = drivers.collect();
    to.folder("sys/module");
    for driver in drivers {
        to.file(&format!("sys/module/{driver}/initstate"), "live\n");
    }
}

/// The firmware's framebuffer, on the display that the firmware uses.
fn add_framebuffer(machine: &Machine, sysfs_paths: &BTreeMap<String, String>, to: &mut Tree) {
    let displays = machine
        .functions
        .iter()
        .filter(|f| f.boot_vga == Some(true));
    for (n, display) in displays.enumerate() {
        let path = format!(
            "{}/simple-framebuffer.0/graphics/fb{n}",
            sysfs_paths[&display.bdf]
        );
        to.folder(&format!("sys/devices/{path}"));
        to.link(
            &format!("sys/class/graphics/fb{n}"),
            &format!("../../devices/{path}"),
        );
    }
}

fn add_host(machine: &Machine, to: &mut Tree) {
    for (name, list) in ["possible", "present", "online"].iter().zip(machine.cpus) {
        to.file(
            &format!("sys/devices/system/cpu/{name}"),
            &format!("{list}\n"),
        );
    }
    for (name, text) in ["sys_vendor", "product_name", "bios_version"]
        .iter()
        .zip(machine.dmi)
    {
        to.file(&format!("sys/class/dmi/id/{name}"), &format!("{text}\n"));
    }
    to.file(
        "sys/class/dmi/id/product_serial",
        &format!("SN-{}\n", machine.name),
    );
    to.file("etc/machine-id", &format!("{}\n", machine_id(machine.name)));
    to.file("proc/cmdline", &format!("{}\n", machine.cmdline));
    to.file("proc/sys/kernel/osrelease", "6.12.0\n");
    // O and E: NVIDIA's modules are out of tree and unsigned.
    to.file("proc/sys/kernel/tainted", "12288\n");
    to.file(
        "sys/kernel/security/lockdown",
        "[none] integrity confidentiality\n",
    );
}

/// 32 hexadecimal digits that differ between machines: the beginning of the name in hexadecimal, filled up with zeros.
fn machine_id(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<32.32}")
}
