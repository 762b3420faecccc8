//! Writes a machine as a folder in the layout of the real /sys and /proc.

use super::config::Link;
use super::driver;
use super::machine::{Function, Machine};
use super::rdma;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Git keeps no empty folder; the validator knows that sysfs has no hidden names.
const KEEP: &str = ".keep";

/// Writes `machine` into the folder `to`, which must not exist yet.
pub fn write(machine: &Machine, to: &Path) -> io::Result<()> {
    let places = places(&machine.functions);
    file(to, "README", &format!("{}\n", machine.about))?;
    for function in &machine.functions {
        write_function(function, &places[&function.bdf], to)?;
    }
    for device in &machine.rdma {
        rdma::write(device, &places[device.bdf], to)?;
    }
    write_iommu(machine, to)?;
    write_modules(machine, to)?;
    write_screen(machine, &places, to)?;
    driver::write(machine, to)?;
    write_host(machine, to)
}

/// Each function's path below sys/devices.
fn places(functions: &[Function]) -> BTreeMap<String, String> {
    let mut places = BTreeMap::<String, String>::new();
    for function in functions {
        let above = function.parent.as_ref().map_or(&function.root_bus, |p| &places[p]);
        let place = format!("{above}/{}", function.bdf);
        places.insert(function.bdf.clone(), place);
    }
    places
}

fn write_function(f: &Function, place: &str, to: &Path) -> io::Result<()> {
    let folder = format!("sys/devices/{place}");
    let up = "../".repeat(folder.split('/').count() - 1);
    link(to, &format!("sys/bus/pci/devices/{}", f.bdf), &format!("../../../devices/{place}"))?;
    bytes(to, &format!("{folder}/config"), &f.config)?;
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
    files.extend(f.boot_vga.map(|boot| ("boot_vga", u8::from(boot).to_string())));
    files.extend(f.link.into_iter().flat_map(link_files));
    for (name, text) in files {
        file(to, &format!("{folder}/{name}"), &format!("{text}\n"))?;
    }
    if let Some(driver) = f.driver {
        link(to, &format!("{folder}/driver"), &format!("{up}bus/pci/drivers/{driver}"))?;
        let bound = format!("sys/bus/pci/drivers/{driver}/{}", f.bdf);
        link(to, &bound, &format!("../../../../devices/{place}"))?;
    }
    if let Some(group) = f.group {
        link(to, &format!("{folder}/iommu_group"), &format!("{up}kernel/iommu_groups/{group}"))?;
        let member = format!("sys/kernel/iommu_groups/{group}/devices/{}", f.bdf);
        link(to, &member, &format!("../../../../devices/{place}"))?;
    }
    Ok(())
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
        let (start, end, flags) =
            bar.map_or((0, 0, 0), |(_, start, size, flags)| (*start, start + size - 1, *flags));
        format!("{start:#018x} {end:#018x} {flags:#018x}")
    };
    (0..7).map(line).collect::<Vec<_>>().join("\n")
}

fn write_iommu(machine: &Machine, to: &Path) -> io::Result<()> {
    folder(to, "sys/class/iommu", machine.iommu.is_empty())?;
    for name in &machine.iommu {
        let place = format!("virtual/iommu/{name}");
        folder(to, &format!("sys/devices/{place}"), true)?;
        link(to, &format!("sys/class/iommu/{name}"), &format!("../../devices/{place}"))?;
    }
    let mut groups: Vec<u32> = machine.functions.iter().filter_map(|f| f.group).collect();
    groups.sort_unstable();
    groups.dedup();
    folder(to, "sys/kernel/iommu_groups", groups.is_empty())?;
    for group in groups {
        file(to, &format!("sys/kernel/iommu_groups/{group}/type"), &format!("{}\n", machine.group_type))?;
    }
    for table in ["APIC", "MCFG"].iter().chain(&machine.tables) {
        file(to, &format!("sys/firmware/acpi/tables/{table}"), "")?;
    }
    Ok(())
}

/// The modules of the bound drivers; the port driver is built in.
fn write_modules(machine: &Machine, to: &Path) -> io::Result<()> {
    let drivers = machine.functions.iter().filter_map(|f| f.driver).filter(|d| *d != "pcieport");
    let drivers: BTreeSet<&str> = drivers.collect();
    folder(to, "sys/module", drivers.is_empty())?;
    for driver in drivers {
        file(to, &format!("sys/module/{driver}/initstate"), "live\n")?;
    }
    Ok(())
}

/// The firmware's framebuffer, where the firmware's display is.
fn write_screen(machine: &Machine, places: &BTreeMap<String, String>, to: &Path) -> io::Result<()> {
    let displays = machine.functions.iter().filter(|f| f.boot_vga == Some(true));
    for (n, display) in displays.enumerate() {
        let place = format!("{}/simple-framebuffer.0/graphics/fb{n}", places[&display.bdf]);
        folder(to, &format!("sys/devices/{place}"), true)?;
        link(to, &format!("sys/class/graphics/fb{n}"), &format!("../../devices/{place}"))?;
    }
    Ok(())
}

fn write_host(machine: &Machine, to: &Path) -> io::Result<()> {
    for (name, list) in ["possible", "present", "online"].iter().zip(machine.cpus) {
        file(to, &format!("sys/devices/system/cpu/{name}"), &format!("{list}\n"))?;
    }
    for (name, text) in ["sys_vendor", "product_name", "bios_version"].iter().zip(machine.dmi) {
        file(to, &format!("sys/class/dmi/id/{name}"), &format!("{text}\n"))?;
    }
    file(to, "proc/cmdline", &format!("{}\n", machine.cmdline))?;
    file(to, "proc/sys/kernel/osrelease", "6.12.0\n")?;
    file(to, "sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
}

pub(super) fn folder(to: &Path, at: &str, empty: bool) -> io::Result<()> {
    fs::create_dir_all(to.join(at))?;
    if empty { file(to, &format!("{at}/{KEEP}"), "") } else { Ok(()) }
}

pub(super) fn file(to: &Path, at: &str, text: &str) -> io::Result<()> {
    bytes(to, at, text.as_bytes())
}

fn bytes(to: &Path, at: &str, bytes: &[u8]) -> io::Result<()> {
    fs::write(with_parents(to, at)?, bytes)
}

pub(super) fn link(to: &Path, at: &str, target: &str) -> io::Result<()> {
    symlink(target, with_parents(to, at)?)
}

fn with_parents(to: &Path, at: &str) -> io::Result<PathBuf> {
    let path = to.join(at);
    fs::create_dir_all(path.parent().expect("a path below the machine's folder"))?;
    Ok(path)
}
