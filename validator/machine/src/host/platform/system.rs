//! The running system: firstlight's own image, or a distribution and what keeps the words of its kernel.

use crate::host::cmdline::words;
use crate::host::identity::Identity;
use crate::root::Root;
use outcome::platform::{BootLoader, Distribution, System};

/// What on an installed system shows its boot loader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Traces {
    /// /run/ostree-booted, or /ostree.
    ostree: bool,
    /// /etc/NIXOS.
    nixos: bool,
    /// kernelstub's configuration.
    kernelstub: bool,
    /// The list of the EFI partitions of proxmox-boot-tool.
    proxmox_partitions: bool,
    /// The kernel is Proxmox's.
    proxmox_kernel: bool,
    /// /etc/kernel/cmdline.
    kernel_cmdline: bool,
    /// The program grubby.
    grubby: bool,
    /// Entries of the Boot Loader Specification.
    entries: bool,
    /// The configuration of systemd-boot.
    loader: bool,
    /// /etc/default/grub.
    grub: bool,
    /// The configuration of extlinux.
    extlinux: bool,
    /// The kernel's command line names the kernel's file, as GRUB and extlinux do.
    boot_image: bool,
    /// The kernel was started from the folder of proxmox-boot-tool.
    proxmox_initrd: bool,
}

pub(super) fn read(root: &Root, identity: &Identity) -> System {
    if identity.is_own() {
        return System::Appliance;
    }
    let release = identity.kernel.as_deref().unwrap_or_default();
    let files = ["etc/os-release", "usr/lib/os-release"];
    let listed = files
        .iter()
        .find_map(|file| root.text(file).ok())
        .map(|text| distribution(&text));
    let distribution = listed.or_else(|| of_release(release)).unwrap_or_default();
    let loader = boot_loader(distribution, Traces::read(root, identity));
    match (distribution, loader) {
        (Distribution::Unknown, BootLoader::Unknown) => System::Unknown,
        _ => System::Installed(distribution, loader),
    }
}

impl Traces {
    fn read(root: &Root, identity: &Identity) -> Self {
        let release = identity.kernel.as_deref().unwrap_or_default();
        let words = words(identity.cmdline.as_deref().unwrap_or_default());
        let begins = |key: &str, beginnings: &[&str]| {
            let value = words
                .iter()
                .find(|word| word.key == key)
                .and_then(|word| word.value.as_deref());
            value.is_some_and(|value| {
                beginnings
                    .iter()
                    .any(|beginning| value.starts_with(beginning))
            })
        };
        // An unreadable folder, as the EFI partition is without root, shows nothing.
        let any = |paths: &[&str]| paths.iter().any(|path| root.exists(path).unwrap_or(false));
        let under = |name: &str| {
            let places = ["boot", "efi", "boot/efi"].map(|place| format!("{place}/{name}"));
            any(&places.each_ref().map(String::as_str))
        };
        Self {
            ostree: any(&["run/ostree-booted", "ostree"]),
            nixos: any(&["etc/NIXOS"]),
            kernelstub: any(&["etc/kernelstub/configuration"]),
            proxmox_partitions: any(&["etc/kernel/proxmox-boot-uuids"]),
            proxmox_kernel: release.ends_with("-pve"),
            kernel_cmdline: any(&["etc/kernel/cmdline"]),
            grubby: any(&["usr/sbin/grubby", "sbin/grubby", "usr/bin/grubby"]),
            entries: under("loader/entries"),
            loader: under("loader/loader.conf"),
            grub: any(&["etc/default/grub"]),
            extlinux: any(&["boot/extlinux/extlinux.conf"]),
            boot_image: begins("BOOT_IMAGE", &["/", "("]),
            proxmox_initrd: begins("initrd", &["\\EFI\\proxmox\\"]),
        }
    }
}

/// The family, by `ID` and `ID_LIKE` of /etc/os-release.
fn distribution(os_release: &str) -> Distribution {
    let value = |key: &str| {
        let line = os_release
            .lines()
            .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
        line.unwrap_or_default()
            .trim_matches(['"', '\''])
            .to_lowercase()
    };
    let names = format!("{} {}", value("ID"), value("ID_LIKE"));
    let family = |name: &str| match name {
        "debian" | "ubuntu" | "proxmox" | "pop" | "linuxmint" | "dgx" => Some(Distribution::Debian),
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" | "ol" | "amzn" | "azurelinux" => {
            Some(Distribution::Fedora)
        }
        "suse" | "sles" | "opensuse" => Some(Distribution::Suse),
        "arch" | "cachyos" | "manjaro" | "endeavouros" => Some(Distribution::Arch),
        "nixos" => Some(Distribution::NixOs),
        name if name.starts_with("opensuse-") => Some(Distribution::Suse),
        _ => None,
    };
    names
        .split_whitespace()
        .find_map(family)
        .unwrap_or(Distribution::Other)
}

/// The family, by the form of its kernels' releases.
fn of_release(release: &str) -> Option<Distribution> {
    let fedora = |part: &str| {
        ["fc", "el", "amzn"].iter().any(|name| {
            part.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let ends = |endings: &[&str]| endings.iter().any(|ending| release.ends_with(ending));
    match () {
        () if release.split(['.', '_']).any(fedora) => Some(Distribution::Fedora),
        () if ends(&[
            "-generic",
            "-amd64",
            "-arm64",
            "-pve",
            "-lowlatency",
            "-generic-64k",
        ]) =>
        {
            Some(Distribution::Debian)
        }
        () if release.contains("-arch") => Some(Distribution::Arch),
        () if ends(&["-default"]) => Some(Distribution::Suse),
        () => None,
    }
}

/// The boot loader. Files of one that was replaced may remain, so the order matters.
fn boot_loader(distribution: Distribution, traces: Traces) -> BootLoader {
    let fedora = distribution == Distribution::Fedora;
    // Fedora's installer writes /etc/kernel/cmdline for GRUB too.
    let systemd_boot = traces.loader || !traces.grub;
    match () {
        () if traces.ostree => BootLoader::RpmOstree,
        () if traces.nixos || distribution == Distribution::NixOs => BootLoader::NixOs,
        () if traces.kernelstub => BootLoader::Kernelstub,
        () if traces.proxmox_initrd => BootLoader::Proxmox,
        // A word of the running kernel says more than files, which may be there for both.
        () if traces.boot_image && traces.grub && !traces.extlinux && !fedora && !traces.grubby => {
            BootLoader::Grub
        }
        () if traces.proxmox_partitions && (traces.kernel_cmdline || !traces.grub) => {
            BootLoader::Proxmox
        }
        () if traces.proxmox_kernel && traces.kernel_cmdline => BootLoader::Proxmox,
        () if fedora && !(traces.kernel_cmdline && traces.loader && !traces.grub) => {
            BootLoader::Grubby
        }
        () if traces.grubby && traces.entries && traces.grub => BootLoader::Grubby,
        () if traces.kernel_cmdline && systemd_boot => BootLoader::KernelCmdline,
        () if traces.grub && !(traces.loader && traces.entries) => BootLoader::Grub,
        () if traces.loader && traces.entries => BootLoader::LoaderEntries,
        () if traces.extlinux => BootLoader::Extlinux,
        () => BootLoader::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::identity;

    fn system(files: &[(&str, &str)]) -> System {
        let (_dir, root) = Root::written(files);
        read(&root, &identity::read(&root))
    }

    #[test]
    fn families_are_known_by_their_own_name_or_by_whom_they_are_like() {
        for (text, family) in [
            ("NAME=x\nID=debian\n", Distribution::Debian),
            ("ID=ubuntu\nID_LIKE=debian\n", Distribution::Debian),
            ("ID=bazzite\nID_LIKE=\"fedora\"\n", Distribution::Fedora),
            (
                "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
                Distribution::Fedora,
            ),
            (
                "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n",
                Distribution::Suse,
            ),
            ("ID=cachyos\nID_LIKE=arch\n", Distribution::Arch),
            ("ID=nixos\n", Distribution::NixOs),
            ("ID=gentoo\n", Distribution::Other),
            ("", Distribution::Other),
        ] {
            assert_eq!(distribution(text), family, "{text}");
        }
    }

    #[test]
    fn a_recording_without_that_file_is_known_by_its_kernel() {
        for (release, family) in [
            ("6.8.0-90-generic", Some(Distribution::Debian)),
            ("6.12.107+deb13-amd64", Some(Distribution::Debian)),
            ("6.8.12-4-pve", Some(Distribution::Debian)),
            ("6.14.0-63.fc42.x86_64", Some(Distribution::Fedora)),
            ("5.14.0-427.el9_4.x86_64", Some(Distribution::Fedora)),
            ("6.12.9-arch1-1", Some(Distribution::Arch)),
            ("6.4.0-150600.21-default", Some(Distribution::Suse)),
            ("6.12.9", None),
        ] {
            assert_eq!(of_release(release), family, "{release}");
        }
    }

    #[test]
    fn each_boot_loader_is_known_by_its_files() {
        use BootLoader::*;
        use Distribution as D;
        let of = |files: &[&str], id: &str, release: &str| {
            let os = format!("ID={id}\n");
            let mut all = vec![
                ("etc/os-release", os.as_str()),
                ("proc/sys/kernel/osrelease", release),
            ];
            all.extend(files.iter().map(|file| (*file, "")));
            system(&all)
        };
        for (files, id, release, expected) in [
            (
                &["etc/default/grub"][..],
                "ubuntu",
                "6.8.0-90-generic",
                (D::Debian, Grub),
            ),
            (
                &["etc/default/grub"],
                "arch",
                "6.12.9-arch1-1",
                (D::Arch, Grub),
            ),
            (
                &["etc/default/grub", "boot/loader/entries/x.conf"],
                "fedora",
                "6.14.0",
                (D::Fedora, Grubby),
            ),
            (
                &["etc/default/grub", "etc/kernel/cmdline"],
                "fedora",
                "6.14.0",
                (D::Fedora, Grubby),
            ),
            (
                &["etc/kernel/cmdline", "boot/efi/loader/loader.conf"],
                "fedora",
                "6.14.0",
                (D::Fedora, KernelCmdline),
            ),
            (
                &["etc/kernel/cmdline"],
                "arch",
                "6.12.9-arch1-1",
                (D::Arch, KernelCmdline),
            ),
            (
                &[
                    "etc/kernel/cmdline",
                    "efi/loader/loader.conf",
                    "etc/default/grub",
                ],
                "debian",
                "6.12.9",
                (D::Debian, KernelCmdline),
            ),
            (
                &["boot/loader/loader.conf", "boot/loader/entries/a.conf"],
                "arch",
                "6.12.9",
                (D::Arch, LoaderEntries),
            ),
            (
                &["run/ostree-booted", "etc/default/grub"],
                "fedora",
                "6.14.0",
                (D::Fedora, RpmOstree),
            ),
            (
                &[
                    "etc/kernel/proxmox-boot-uuids",
                    "etc/kernel/cmdline",
                    "etc/default/grub",
                ],
                "debian",
                "6.8.12-4-pve",
                (D::Debian, Proxmox),
            ),
            (
                &["etc/kernel/cmdline", "etc/default/grub"],
                "debian",
                "6.8.12-4-pve",
                (D::Debian, Proxmox),
            ),
            (
                &["etc/default/grub"],
                "debian",
                "6.8.12-4-pve",
                (D::Debian, Grub),
            ),
            (
                &[
                    "etc/kernelstub/configuration",
                    "boot/efi/loader/loader.conf",
                ],
                "pop",
                "6.9.3",
                (D::Debian, Kernelstub),
            ),
            (
                &["etc/NIXOS", "boot/loader/loader.conf"],
                "nixos",
                "6.12.9",
                (D::NixOs, NixOs),
            ),
            (
                &["boot/extlinux/extlinux.conf"],
                "ubuntu",
                "5.15.136-tegra",
                (D::Debian, Extlinux),
            ),
            (&[], "gentoo", "6.12.9", (D::Other, Unknown)),
        ] {
            assert_eq!(
                of(files, id, release),
                System::Installed(expected.0, expected.1),
                "{files:?} {id}"
            );
        }
    }

    #[test]
    fn the_running_kernels_line_decides_between_two_loaders_with_files() {
        let of = |line: &str| {
            let files = [
                "etc/kernel/proxmox-boot-uuids",
                "etc/kernel/cmdline",
                "etc/default/grub",
            ];
            let mut all = vec![
                ("etc/os-release", "ID=debian\n"),
                ("proc/sys/kernel/osrelease", "6.8.12-4-pve"),
            ];
            all.extend(files.iter().map(|file| (*file, "")));
            all.push(("proc/cmdline", line));
            system(&all)
        };
        let installed = |loader| System::Installed(Distribution::Debian, loader);
        assert_eq!(
            of("BOOT_IMAGE=/ROOT/pve-1@/boot/vmlinuz-6.8.12-4-pve root=ZFS=/ROOT/pve-1"),
            installed(BootLoader::Grub)
        );
        assert_eq!(
            of("initrd=\\EFI\\proxmox\\6.8.12-4-pve\\initrd.img root=ZFS=x"),
            installed(BootLoader::Proxmox)
        );
        assert_eq!(of("root=ZFS=x"), installed(BootLoader::Proxmox));
    }

    #[test]
    fn our_own_kernel_is_the_appliance_and_nothing_at_all_is_unknown() {
        assert_eq!(
            system(&[("proc/sys/kernel/osrelease", "6.12.107-firstlight")]),
            System::Appliance
        );
        assert_eq!(system(&[]), System::Unknown);
        let grub = [("etc/default/grub", "")];
        assert_eq!(
            system(&grub),
            System::Installed(Distribution::Unknown, BootLoader::Grub)
        );
    }
}
