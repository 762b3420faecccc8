//! Whether the system runs on the hardware or in a virtual machine, and whether these are the files of a container.
//!
//! What only a virtual machine has decides: the processor's flag, the firmware's names, the devices of a virtual mainboard.
//! Emulated cards do not, because a DPU shows such cards to a real machine too; they only tell which hypervisor it is.
//! The privileged system of Xen or Hyper-V has the hardware and counts as bare metal.

use super::cpuinfo::CpuInfo;
use super::dmi::{Dmi, Names};
use crate::pcie::config_space;
use crate::pcie::model::Fabric;
use crate::root::Root;
use outcome::platform::{Architecture, Environment, Hypervisor, KernelVersion};

/// Vendor and device ids of a virtual mainboard's bridges and display adapters.
const VIRTUAL_BOARDS: &[(&str, &str, Hypervisor)] = &[
    ("0x1b36", "0x0001", Hypervisor::Qemu),
    ("0x1b36", "0x0008", Hypervisor::Qemu),
    ("0x1b36", "0x0009", Hypervisor::Qemu),
    ("0x1b36", "0x000b", Hypervisor::Qemu),
    ("0x1b36", "0x000c", Hypervisor::Qemu),
    ("0x1b36", "0x000e", Hypervisor::Qemu),
    ("0x1b36", "0x0100", Hypervisor::Qemu),
    ("0x1234", "0x1111", Hypervisor::Qemu),
    ("0x8086", "0x0d57", Hypervisor::CloudHypervisor),
    ("0x15ad", "0x0405", Hypervisor::Vmware),
    ("0x15ad", "0x0740", Hypervisor::Vmware),
    ("0x15ad", "0x0790", Hypervisor::Vmware),
    ("0x15ad", "0x07a0", Hypervisor::Vmware),
    ("0x80ee", "0xbeef", Hypervisor::VirtualBox),
    ("0x80ee", "0xcafe", Hypervisor::VirtualBox),
    ("0x1414", "0x5353", Hypervisor::HyperV),
    ("0x5853", "0x0001", Hypervisor::Xen),
];
/// Vendors of emulated cards.
const EMULATED: &[(&str, Hypervisor)] = &[
    ("0x1b36", Hypervisor::Qemu),
    ("0x15ad", Hypervisor::Vmware),
    ("0x80ee", Hypervisor::VirtualBox),
    ("0x1414", Hypervisor::HyperV),
    ("0x1d0f", Hypervisor::Amazon),
    ("0x1ae0", Hypervisor::Google),
    ("0x1af4", Hypervisor::Qemu),
];
/// The subsystem vendor of a host bridge that QEMU emulates.
const QEMU: u16 = 0x1af4;
/// Names in /sys/bus/pci/devices begin so.
const DEVICES: &str = "sys/bus/pci/devices";
/// The SMBIOS table of the BIOS, and the place and the bit by which it says that this is a virtual machine.
const SMBIOS: &str = "sys/firmware/dmi/entries/0-0/raw";
const VIRTUAL: (usize, u8) = (0x13, 1 << 4);

/// The chassis that Azure gives to its virtual machines.
const AZURE: &str = "7783-7084-3265-9085-8269-3286-77";

/// What shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence {
    /// The kernel's release is one of WSL, or WSL's device is there and no firmware.
    wsl: bool,
    /// The processor's flag `hypervisor`; `None` if the processor has no such flag.
    flag: Option<bool>,
    names: Names,
    /// This is the privileged system of a hypervisor.
    privileged: bool,
    /// /sys/hypervisor/type is Xen.
    xen: bool,
    /// SMBIOS, the clock or the device tree says that this is a virtual machine.
    says: Option<Hypervisor>,
    /// The devices of a virtual mainboard.
    board: Option<Hypervisor>,
    /// Emulated cards.
    cards: Option<Hypervisor>,
    /// The device tree names a board.
    tree: bool,
}

impl Evidence {
    pub(super) fn read(
        root: &Root,
        fabric: Option<&Fabric>,
        kernel: &KernelVersion,
        cpuinfo: &CpuInfo,
        dmi: &Dmi,
    ) -> Self {
        let there = |path: &str| root.exists(path).unwrap_or(false);
        let text = |path: &str| root.text(path).unwrap_or_default();
        let release = kernel.release.as_deref().unwrap_or_default();
        let azure = release.ends_with("-azure")
            || text("sys/class/dmi/id/chassis_asset_tag").trim() == AZURE;
        let smbios = root
            .read(SMBIOS)
            .ok()
            .is_some_and(|table| is_virtual(&table))
            .then_some(Hypervisor::Other);
        let compatible = text("sys/firmware/devicetree/base/compatible");
        let hypervisor = text("sys/firmware/devicetree/base/hypervisor/compatible");
        Self {
            wsl: is_wsl(release) || (there("dev/dxg") && dmi.is_empty()),
            flag: cpuinfo.hypervisor(),
            names: match dmi.names() {
                Names::Hypervisor(Hypervisor::HyperV) if azure => {
                    Names::Hypervisor(Hypervisor::Azure)
                }
                names => names,
            },
            privileged: text("proc/xen/capabilities").contains("control_d")
                || there("dev/mshv")
                || there("sys/module/mshv_root"),
            xen: text("sys/hypervisor/type") == "xen",
            says: of_clocks(&text(
                "sys/devices/system/clocksource/clocksource0/available_clocksource",
            ))
            .or_else(|| of_tree(&compatible, &hypervisor))
            .or(smbios),
            board: fabric.and_then(|fabric| board(fabric).or_else(|| host_bridge(root, fabric))),
            cards: fabric.and_then(cards),
            tree: !compatible.is_empty(),
        }
    }

    pub(super) fn environment(&self, architecture: Architecture) -> Environment {
        let guest = |hypervisor: Hypervisor| Environment::Guest(hypervisor);
        // A source that does not know which hypervisor it is leaves that to the others.
        let named = |hypervisor: Hypervisor| match hypervisor {
            Hypervisor::Other => guest(self.cards.unwrap_or(Hypervisor::Other)),
            hypervisor => guest(hypervisor),
        };
        match (self.names, self.flag) {
            _ if self.wsl => guest(Hypervisor::Wsl),
            _ if self.privileged => Environment::BareMetal,
            (Names::Hypervisor(hypervisor), _) => named(hypervisor),
            // Xen shows the hardware's names to its privileged system only.
            (Names::Hardware, _) if self.xen => Environment::BareMetal,
            _ if self.xen => guest(Hypervisor::Xen),
            (names, flag) => match (self.board.or(self.says), names, flag) {
                (Some(Hypervisor::Qemu), Names::Cloud(hypervisor), _) => guest(hypervisor),
                (Some(hypervisor), ..) => named(hypervisor),
                (None, Names::Cloud(hypervisor), Some(true) | None) => named(hypervisor),
                (None, _, Some(true)) => named(Hypervisor::Other),
                (None, _, Some(false)) | (None, Names::Hardware, None) => Environment::BareMetal,
                // Only x86 has the flag. The tree of a board without ACPI is not a virtual machine's.
                (None, _, None) if self.tree && architecture == Architecture::Arm64 => {
                    Environment::BareMetal
                }
                (None, _, None) => Environment::Unknown,
            },
        }
    }
}

/// `5.15.167.4-microsoft-standard-WSL2`, `4.4.0-19041-Microsoft`
fn is_wsl(release: &str) -> bool {
    let release = release.to_lowercase();
    release
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|part| part == "microsoft" || part.starts_with("wsl"))
}

/// BIOS Characteristics Extension Byte 2 of the table's formatted part.
fn is_virtual(table: &[u8]) -> bool {
    let formatted = table
        .get(1)
        .is_some_and(|length| usize::from(*length) > VIRTUAL.0);
    formatted
        && table
            .get(VIRTUAL.0)
            .is_some_and(|byte| byte & VIRTUAL.1 != 0)
}

/// Only KVM's guests have its clock.
fn of_clocks(available: &str) -> Option<Hypervisor> {
    available
        .split_whitespace()
        .any(|clock| clock == "kvm-clock")
        .then_some(Hypervisor::Qemu)
}

/// By the names in a device tree, which end with zero bytes.
fn of_tree(compatible: &str, hypervisor: &str) -> Option<Hypervisor> {
    let any = |list: &str, wanted: &str| list.split('\0').any(|name| name.starts_with(wanted));
    match () {
        () if any(compatible, "linux,dummy-virt") => Some(Hypervisor::Qemu),
        () if any(hypervisor, "linux,kvm") => Some(Hypervisor::Qemu),
        () if any(hypervisor, "vmware") => Some(Hypervisor::Vmware),
        () if any(hypervisor, "xen") || any(compatible, "xen,") => Some(Hypervisor::Xen),
        () if !hypervisor.is_empty() => Some(Hypervisor::Other),
        () => None,
    }
}

fn board(fabric: &Fabric) -> Option<Hypervisor> {
    let mut ids = fabric
        .devices
        .iter()
        .map(|d| (d.vendor.as_str(), d.device.as_str()));
    ids.find_map(|own| {
        VIRTUAL_BOARDS
            .iter()
            .find(|(v, d, _)| (*v, *d) == own)
            .map(|(.., hypervisor)| *hypervisor)
    })
}

fn host_bridge(root: &Root, fabric: &Fabric) -> Option<Hypervisor> {
    let mut bridges = fabric
        .devices
        .iter()
        .filter(|d| d.class.starts_with("0x0600"));
    let of_qemu = bridges.any(|bridge| {
        let bytes = root
            .read(format!("{DEVICES}/{}/config", bridge.bdf))
            .unwrap_or_default();
        config_space::subsystem(&bytes).is_some_and(|(vendor, _)| vendor == QEMU)
    });
    of_qemu.then_some(Hypervisor::Qemu)
}

fn cards(fabric: &Fabric) -> Option<Hypervisor> {
    let of = |(vendor, _): &&(&str, Hypervisor)| fabric.devices.iter().any(|d| d.vendor == *vendor);
    EMULATED.iter().find(of).map(|(_, hypervisor)| *hypervisor)
}

/// Whether these are the files of a container. It says nothing about the machine below.
pub(super) fn is_container(root: &Root) -> bool {
    let there = |path: &str| root.exists(path).unwrap_or(false);
    let environment = root.read("proc/1/environ").unwrap_or_default();
    [".dockerenv", "run/.containerenv", "run/systemd/container"]
        .into_iter()
        .any(there)
        || environment
            .split(|byte| *byte == 0)
            .any(|word| word.starts_with(b"container="))
        || is_containers_group(&root.text("proc/1/cgroup").unwrap_or_default())
}

/// `0::/kubepods.slice/..`, `1:name=systemd:/docker/..`, `0::/lxc.payload.name`
fn is_containers_group(cgroups: &str) -> bool {
    let paths = cgroups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/')).any(|folder| {
        ["docker", "kubepods", "lxc", "libpod", "machine-"]
            .iter()
            .any(|name| folder.starts_with(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcie::model::{Device, Kind};
    use crate::pcie::sample;
    use Environment::{BareMetal, Guest, Unknown};

    const NOTHING: Evidence = Evidence {
        wsl: false,
        flag: None,
        names: Names::Unknown,
        privileged: false,
        xen: false,
        says: None,
        board: None,
        cards: None,
        tree: false,
    };

    fn x86(evidence: Evidence) -> Environment {
        evidence.environment(Architecture::X86)
    }

    #[test]
    fn bare_metal_needs_evidence() {
        assert_eq!(x86(NOTHING), Unknown);
        assert_eq!(
            x86(Evidence {
                flag: Some(false),
                ..NOTHING
            }),
            BareMetal
        );
        assert_eq!(
            x86(Evidence {
                names: Names::Hardware,
                ..NOTHING
            }),
            BareMetal
        );
        assert_eq!(
            Evidence {
                tree: true,
                ..NOTHING
            }
            .environment(Architecture::Arm64),
            BareMetal
        );
        assert_eq!(
            x86(Evidence {
                tree: true,
                ..NOTHING
            }),
            Unknown
        );
    }

    #[test]
    fn the_flag_and_the_names_show_guests() {
        let qemu = Names::Hypervisor(Hypervisor::Qemu);
        assert_eq!(
            x86(Evidence {
                names: qemu,
                ..NOTHING
            }),
            Guest(Hypervisor::Qemu)
        );
        assert_eq!(
            x86(Evidence {
                names: qemu,
                flag: Some(false),
                ..NOTHING
            }),
            Guest(Hypervisor::Qemu),
            "hidden flag"
        );
        let real = Evidence {
            names: Names::Hardware,
            flag: Some(true),
            ..NOTHING
        };
        assert_eq!(x86(real), Guest(Hypervisor::Other), "the host's names");
        let card = Evidence {
            flag: Some(true),
            cards: Some(Hypervisor::Qemu),
            ..NOTHING
        };
        assert_eq!(x86(card), Guest(Hypervisor::Qemu));
    }

    #[test]
    fn emulated_cards_alone_are_no_guest_and_a_virtual_mainboard_is() {
        let dpu = Evidence {
            cards: Some(Hypervisor::Qemu),
            flag: Some(false),
            names: Names::Hardware,
            ..NOTHING
        };
        assert_eq!(x86(dpu), BareMetal);
        assert_eq!(
            x86(Evidence {
                cards: Some(Hypervisor::Qemu),
                ..NOTHING
            }),
            Unknown
        );
        let board = Some(Hypervisor::Qemu);
        assert_eq!(
            x86(Evidence {
                board,
                flag: Some(false),
                ..NOTHING
            }),
            Guest(Hypervisor::Qemu)
        );
    }

    #[test]
    fn a_cloud_that_also_rents_machines_is_known_by_the_flag() {
        let cloud = |flag| {
            x86(Evidence {
                names: Names::Cloud(Hypervisor::Cloud),
                flag,
                ..NOTHING
            })
        };
        assert_eq!(cloud(Some(false)), BareMetal);
        assert_eq!(
            [cloud(Some(true)), cloud(None)],
            [Guest(Hypervisor::Cloud); 2]
        );
    }

    #[test]
    fn the_privileged_system_of_a_hypervisor_has_the_hardware() {
        let dom0 = Evidence {
            privileged: true,
            xen: true,
            flag: Some(true),
            ..NOTHING
        };
        assert_eq!(x86(dom0), BareMetal);
        assert_eq!(
            x86(Evidence {
                xen: true,
                flag: Some(true),
                ..NOTHING
            }),
            Guest(Hypervisor::Xen)
        );
        let named = Evidence {
            xen: true,
            flag: Some(true),
            names: Names::Hardware,
            ..NOTHING
        };
        assert_eq!(x86(named), BareMetal, "without xenfs");
        let root = Evidence {
            privileged: true,
            flag: Some(true),
            names: Names::Hardware,
            ..NOTHING
        };
        assert_eq!(x86(root), BareMetal, "Hyper-V");
    }

    #[test]
    fn wsl_is_known_by_its_kernel() {
        assert!(is_wsl("5.15.167.4-microsoft-standard-WSL2") && is_wsl("4.4.0-19041-Microsoft"));
        assert!(!is_wsl("6.8.0-1010-azure") && !is_wsl("6.8.0-90-generic"));
        assert_eq!(
            x86(Evidence {
                wsl: true,
                flag: Some(true),
                ..NOTHING
            }),
            Guest(Hypervisor::Wsl)
        );
    }

    #[test]
    fn trees_clocks_and_smbios_show_guests() {
        assert_eq!(of_tree("linux,dummy-virt\0", ""), Some(Hypervisor::Qemu));
        assert_eq!(
            of_tree("xen,xenvm-4.17\0xen,xenvm\0", "xen,xen-4.17\0xen,xen\0"),
            Some(Hypervisor::Xen)
        );
        assert_eq!(of_tree("nvidia,p3701\0nvidia,tegra234\0", ""), None);
        assert_eq!(of_tree("", "acme,visor\0"), Some(Hypervisor::Other));
        assert_eq!(
            of_clocks("kvm-clock tsc hpet acpi_pm"),
            Some(Hypervisor::Qemu)
        );
        assert_eq!(of_clocks("tsc hpet acpi_pm"), None);
        let mut table = [0; 0x1a];
        table[1] = 0x18;
        assert!(!is_virtual(&table));
        table[0x13] = 0x1c;
        assert!(is_virtual(&table) && !is_virtual(&[]));
        table[1] = 0x12;
        assert!(!is_virtual(&table), "an old table ends before that byte");
    }

    #[test]
    fn the_bridges_of_a_virtual_mainboard_are_known_and_virtio_is_a_card() {
        let with = |vendor: &str, id: &str| {
            let mut devices = sample::two_gpus();
            let other = sample::device("0000:03:00.0", Kind::Endpoint, None);
            devices.push(Device {
                vendor: vendor.into(),
                device: id.into(),
                ..other
            });
            let fabric = sample::fabric(devices);
            (board(&fabric), cards(&fabric))
        };
        assert_eq!(
            with("0x1b36", "0x000c"),
            (Some(Hypervisor::Qemu), Some(Hypervisor::Qemu))
        );
        assert_eq!(with("0x15ad", "0x07a0").0, Some(Hypervisor::Vmware));
        assert_eq!(with("0x1af4", "0x1042"), (None, Some(Hypervisor::Qemu)));
        assert_eq!(with("0x8086", "0x29c0"), (None, None));
    }

    #[test]
    fn containers_are_known_by_their_files_and_groups() {
        let of = |files: &[(&str, &[u8])]| {
            let (_dir, root) = Root::written(files);
            is_container(&root)
        };
        assert!(of(&[(".dockerenv", b"")]) && of(&[("run/.containerenv", b"")]));
        assert!(of(&[("proc/1/environ", b"HOME=/\0container=lxc\0")]));
        assert!(
            !of(&[
                ("proc/1/environ", b"HOME=/\0"),
                ("proc/1/cgroup", b"0::/init.scope\n")
            ]) && !of(&[])
        );
        for group in [
            "0::/kubepods.slice/x",
            "3:cpu:/docker/0a",
            "0::/lxc.payload.one",
            "0::/system.slice/docker-0a",
        ] {
            assert!(of(&[("proc/1/cgroup", group.as_bytes())]), "{group}");
        }
        assert!(!of(&[("proc/1/cgroup", b"0::/system.slice/ssh.service\n")]));
    }
}
