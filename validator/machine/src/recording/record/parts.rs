//! The parts of a machine that need more than a list: links, folders, and the kernel's log.

use super::{Node, Recorder};
use crate::host::kmsg;
use crate::pcie::{vfio, vpd};
use std::path::Path;

/// As many links as Linux follows.
const LINKS: usize = 40;

impl Recorder<'_> {
    pub(super) fn functions(&mut self) {
        for folder in [
            "sys/bus/pci/devices",
            "sys/class/iommu",
            "sys/kernel/iommu_groups",
            "sys/class/infiniband",
            "sys/module",
        ] {
            self.record_folder(folder);
        }
        for function in self.names("sys/bus/pci/devices") {
            let link = format!("sys/bus/pci/devices/{function}");
            let linked = self.record_link(&link);
            let real = if linked {
                self.resolve(&link).unwrap_or(link)
            } else {
                link
            };
            FUNCTION
                .iter()
                .for_each(|name| self.record_file(&format!("{real}/{name}")));
            for name in ["driver", "iommu_group", "physfn"] {
                self.record_link(&format!("{real}/{name}"));
            }
            self.record_file(&format!("{real}/{}", vfio::VGPU_TYPE));
            self.record_folder(&format!("{real}/{}", vfio::MEDIATED_TYPES));
            if vpd::leads_to_nvswitches(self.root, &real) {
                // The rest of the VPD has serial numbers.
                self.add(&format!("{real}/vpd"), Node::File(vpd::MANAGEMENT.to_vec()));
            }
            if let Some(driver) = self.resolve(&format!("{real}/driver")) {
                self.record_folder(&driver);
            }
        }
        for group in self.names("sys/kernel/iommu_groups") {
            self.record_file(&format!("sys/kernel/iommu_groups/{group}/type"));
        }
    }

    pub(super) fn classes(&mut self) {
        for class in ["sys/class/iommu", "sys/class/infiniband"] {
            for member in self.names(class) {
                let link = format!("{class}/{member}");
                self.record_link(&link);
                if let Some(real) = self.resolve(&link) {
                    self.record_folder(&real);
                    self.record_link(&format!("{real}/device"));
                    self.rdma(&real);
                }
            }
        }
        for screen in self
            .names("sys/class/graphics")
            .into_iter()
            .filter(|name| name.starts_with("fb"))
        {
            let link = format!("sys/class/graphics/{screen}");
            self.record_link(&link);
            if let Some(real) = self.resolve(&link) {
                self.record_folder(&real);
            }
        }
    }

    /// The ports of an RDMA device, and its network interfaces.
    fn rdma(&mut self, device: &str) {
        for port in self.names(&format!("{device}/ports")) {
            let port = format!("{device}/ports/{port}");
            self.record_folder(&format!("{port}/gids"));
            for name in ["state", "phys_state", "link_layer", "rate"] {
                self.record_file(&format!("{port}/{name}"));
            }
            for slot in self.names(&format!("{port}/gids")) {
                // The kernel answers EINVAL for the attributes of an empty slot.
                let used = self.root.text(format!("{port}/gids/{slot}"));
                if used.is_ok_and(|gid| gid.chars().any(|c| c != '0' && c != ':')) {
                    for file in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
                        self.record_file(&format!("{port}/{file}/{slot}"));
                    }
                }
            }
        }
        for interface in self.names(&format!("{device}/device/net")) {
            let link = format!("sys/class/net/{interface}");
            self.record_link(&link);
            if let Some(real) = self.resolve(&link) {
                for name in ["operstate", "carrier", "speed", "dev_port"] {
                    self.record_file(&format!("{real}/{name}"));
                }
            }
        }
    }

    pub(super) fn driver(&mut self) {
        let nodes = self
            .names("dev")
            .into_iter()
            .filter(|name| name.starts_with("nvidia"));
        let caps = self
            .names("dev/nvidia-caps")
            .into_iter()
            .map(|name| format!("nvidia-caps/{name}"));
        for node in nodes
            .chain(caps)
            .filter(|name| name != "nvidia-caps")
            .collect::<Vec<_>>()
        {
            self.node(&format!("dev/{node}"));
        }
        for folder in FIRMWARE {
            for version in self.names(folder) {
                for file in self.names(&format!("{folder}/{version}")) {
                    if file.starts_with("gsp_") && file.contains(".bin") {
                        self.record_name(&format!("{folder}/{version}/{file}"));
                    }
                }
            }
        }
        for folder in LIBRARIES {
            for library in ["libcuda.so.1", "libnvidia-ml.so.1", "libnccl.so.2"] {
                self.library(format!("{folder}/{library}"));
            }
        }
        for module in self.names("sys/module") {
            self.record_folder(&format!("sys/module/{module}"));
            self.record_file(&format!("sys/module/{module}/initstate"));
        }
        for gpu in self.names("proc/driver/nvidia/gpus") {
            self.record_file(&format!("proc/driver/nvidia/gpus/{gpu}/information"));
        }
    }

    fn node(&mut self, path: &str) {
        match self.root.character_device(path) {
            Ok((major, minor)) => self.add(
                path,
                Node::File(format!("c {major} {minor}\n").into_bytes()),
            ),
            Err(why) => self.note_unreadable(path, &why),
        }
    }

    /// The chain of links from a library's name, and the name of the file at its end.
    fn library(&mut self, path: String) {
        let mut path = path;
        for _ in 0..LINKS {
            let Ok(target) = self.root.link(&path) else {
                break;
            };
            self.record_link(&path);
            let folder = Path::new(&path).parent().unwrap_or_else(|| Path::new(""));
            // An absolute target replaces the folder.
            let next = Path::new("/").join(folder).join(target);
            next.to_string_lossy()
                .trim_start_matches('/')
                .clone_into(&mut path);
        }
        self.record_name(&path);
    }

    /// Every record with its number, so that none counts as lost, and the text of those that firstlight looks for.
    pub(super) fn log(&mut self) {
        match self
            .root
            .open_log(kmsg::FILE)
            .and_then(|file| kmsg::records(&file))
        {
            Ok((all, _overrun)) => {
                let kept: String = String::from_utf8_lossy(&all)
                    .lines()
                    .filter_map(recorded)
                    .collect();
                self.add(kmsg::FILE, Node::File(kept.into_bytes()));
            }
            Err(why) => self.note_unreadable(kmsg::FILE, &why),
        }
    }
}

/// A record of the kernel's log in its recorded form: without its text if that is not needed. The first
/// record shows whether the log still has its beginning.
fn recorded(line: &str) -> Option<String> {
    let (head, text) = line.split_once(';')?;
    // Continuation lines of a record begin with a blank.
    if head.starts_with(char::is_whitespace) {
        return None;
    }
    let wanted = text.starts_with("Linux version ") || WORDS.iter().any(|word| text.contains(word));
    Some(format!("{head};{}\n", if wanted { text } else { "" }))
}

// Which files of a machine a recording has.

/// Files of every PCI function.
pub(super) const FUNCTION: &[&str] = &[
    "config",
    "vendor",
    "device",
    "class",
    "revision",
    "irq",
    "subsystem_vendor",
    "subsystem_device",
    "numa_node",
    "local_cpulist",
    "resource",
    "boot_vga",
    "removable",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
];
/// Files of the host and of the driver.
pub(super) const FILES: &[&str] = &[
    "sys/devices/system/node/online",
    "sys/devices/system/cpu/possible",
    "sys/devices/system/cpu/present",
    "sys/devices/system/cpu/online",
    "sys/kernel/security/lockdown",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/product_version",
    "sys/class/dmi/id/board_vendor",
    "sys/class/dmi/id/bios_vendor",
    "sys/class/dmi/id/bios_version",
    "sys/hypervisor/type",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "proc/xen/capabilities",
    "etc/os-release",
    "proc/cmdline",
    "proc/devices",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/tainted",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia/params",
    "sys/module/firmware_class/parameters/path",
    "sys/module/nvidia/version",
    "sys/module/nvidia/srcversion",
    "sys/module/nvidia/notes/.note.gnu.build-id",
    "run/firstlight/driver.json",
];
/// Files that show by their name how the kernel's words are kept, and whether the machine is a container.
pub(super) const NAMES: &[&str] = &[
    "etc/default/grub",
    "etc/kernel/cmdline",
    "etc/kernel/proxmox-boot-uuids",
    "etc/kernelstub/configuration",
    "etc/NIXOS",
    "boot/loader/loader.conf",
    "boot/efi/loader/loader.conf",
    "efi/loader/loader.conf",
    "boot/extlinux/extlinux.conf",
    "usr/sbin/grubby",
    "run/ostree-booted",
    "run/.containerenv",
    "run/systemd/container",
    ".dockerenv",
];
/// Folders in which distributions and the image keep the driver's libraries.
pub(super) const LIBRARIES: &[&str] = &[
    "run/firstlight/driver/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/nvidia/lib64",
];
/// Folders in which they keep the GPUs' firmware.
pub(super) const FIRMWARE: &[&str] = &[
    "usr/lib/firmware/nvidia",
    "lib/firmware/nvidia",
    "usr/local/nvidia/firmware/nvidia",
    "run/firstlight/driver/firmware/nvidia",
];
/// Lines of the kernel's log with one of these words are kept; the others may contain confidential data.
pub(super) const WORDS: &[&str] = &[
    "NVRM",
    "AER: ",
    "PCIe Bus Error",
    "DMAR",
    "AMD-Vi",
    "iommu: ",
    "IO_PAGE_FAULT",
    "x2apic",
    "smpboot",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_number_and_those_of_use_their_text() {
        let kept = |line| recorded(line).unwrap_or_default();
        assert_eq!(
            kept("5,0,0,-;Linux version 6.12.0"),
            "5,0,0,-;Linux version 6.12.0\n"
        );
        assert_eq!(kept("6,7,9,-;NVRM: loading"), "6,7,9,-;NVRM: loading\n");
        assert_eq!(kept("6,8,9,-;systemd[1]: hostname is secret"), "6,8,9,-;\n");
        assert_eq!(kept(" SUBSYSTEM=pci;x"), "");
        assert_eq!(kept("6,8,9"), "");
    }
}
