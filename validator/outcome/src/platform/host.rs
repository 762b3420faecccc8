//! What kind of machine this is. Read once, and given to every judge and every remedy, so that none of them
//! demands what this machine does not need or advises what cannot work on it. Pure data; every part may be unknown.

use super::boot_loader::replacement;
use super::{Bdf, BootLoader, GpuId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of one machine. `Default` is a machine about which nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The processor's architecture.
    pub architecture: Architecture,
    /// The processor's maker.
    pub vendor: Vendor,
    /// The kernel.
    pub kernel: KernelVersion,
    /// Bare metal, or a guest of which hypervisor.
    pub environment: Environment,
    /// Whether these files are those of a container.
    pub container: bool,
    /// Its processors.
    pub processors: Processors,
    /// The appliance, or an installed system and how its kernel line is changed.
    pub system: System,
    /// Its GPUs, in the order of their numbers.
    pub gpus: Vec<HostGpu>,
    /// The devices that are meant to exchange data directly.
    pub peers: Peers,
    /// Other devices that are passed to virtual machines.
    #[serde(default)]
    pub passed: Vec<Bdf>,
    /// The virtual mainboard that QEMU gives to a guest.
    #[serde(default)]
    pub mainboard: Option<Mainboard>,
    /// The kernel's lockdown mode, where it is locked down.
    #[serde(default)]
    pub lockdown: Option<String>,
}

impl Host {
    /// Whether it is an instance of a cloud, whose host belongs to the provider.
    #[must_use]
    pub const fn is_rented(&self) -> bool {
        use Hypervisor::{Amazon, Azure, Cloud, Google};
        matches!(
            self.environment,
            Environment::Guest(Amazon | Google | Azure | Cloud)
        )
    }

    /// Whether it is a virtual machine whose host its user may own and change.
    #[must_use]
    pub const fn has_own_host(&self) -> bool {
        matches!(self.environment, Environment::Guest(_)) && !self.is_rented() && !self.is_wsl()
    }

    /// Whether it is WSL2, which has no PCI function of a GPU.
    #[must_use]
    pub const fn is_wsl(&self) -> bool {
        matches!(self.environment, Environment::Guest(Hypervisor::Wsl))
    }

    /// What the kernel's command line says about pass-through of the IOMMU.
    #[must_use]
    pub fn pass_through(&self) -> PassThrough<'_> {
        PassThrough::of(&self.kernel.words, self.architecture)
    }
}

/// Mainboards of QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mainboard {
    /// The machine type `pc`.
    I440fx,
    /// The machine type `q35`.
    Q35,
}

/// What the words of a kernel's command line say about pass-through: `iommu=pt` and `iommu=nopt` on x86, and
/// `iommu.passthrough=`. The last word holds (drivers/iommu/iommu.c, arch/x86/kernel/pci-dma.c).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassThrough<'a> {
    /// No word is about it.
    Unsaid,
    /// This word, the last about it, asks for it.
    Asked(&'a str),
    /// These words, the last about it, ask for translation; and whether an earlier word asks for pass-through.
    Refused(Vec<&'a str>, bool),
}

impl<'a> PassThrough<'a> {
    fn of(words: &'a [String], architecture: Architecture) -> Self {
        let said = |word: &'a String| {
            let (key, value) = word.split_once('=')?;
            let asked = match key {
                "iommu.passthrough" => match value.as_bytes() {
                    [b'1' | b'y' | b'Y' | b't' | b'T', ..] | [b'o' | b'O', b'n' | b'N', ..] => true,
                    [b'0' | b'n' | b'N' | b'f' | b'F', ..] | [b'o' | b'O', b'f' | b'F', ..] => {
                        false
                    }
                    _ => return None,
                },
                "iommu" if architecture != Architecture::Arm64 => {
                    value.split(',').rev().find_map(|item| match item {
                        "pt" => Some(true),
                        "nopt" => Some(false),
                        _ => None,
                    })?
                }
                _ => return None,
            };
            Some((word.as_str(), asked))
        };
        let all: Vec<_> = words.iter().filter_map(said).collect();
        let last = all.iter().rposition(|(_, asked)| *asked);
        let after: Vec<_> = all
            .iter()
            .skip(last.map_or(0, |last| last.saturating_add(1)))
            .map(|(word, _)| *word)
            .collect();
        match last.and_then(|last| all.get(last)) {
            _ if !after.is_empty() => Self::Refused(after, last.is_some()),
            Some((word, _)) => Self::Asked(word),
            None => Self::Unsaid,
        }
    }
}

/// An architecture, by the ELF type of its programs or by its /proc/cpuinfo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// x86-64.
    X86,
    /// arm64.
    Arm64,
    /// Another one.
    Other,
    /// The machine does not show it.
    #[default]
    Unknown,
}

/// The maker of a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Vendor {
    /// Intel: its IOMMU is VT-d.
    Intel,
    /// AMD or Hygon: its IOMMU is AMD-Vi.
    Amd,
    /// NVIDIA Grace, which has its own link to the GPU.
    Grace,
    /// Another one.
    Other,
    /// The machine does not show it.
    #[default]
    Unknown,
}

/// A kernel by its release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelVersion {
    /// As `uname -r` prints it; `null` if unknown.
    pub release: Option<String>,
    /// The first two numbers of it.
    pub version: Option<(u32, u32)>,
    /// Whether it is firstlight's own kernel.
    pub own: bool,
    /// The words of its command line.
    #[serde(default)]
    pub words: Vec<String>,
}

impl KernelVersion {
    /// Whether the kernel is known to be at least `version`.
    #[must_use]
    pub fn at_least(&self, version: (u32, u32)) -> bool {
        self.version.is_some_and(|own| own >= version)
    }

    /// Whether the kernel is known to be older than `version`.
    #[must_use]
    pub fn is_before(&self, version: (u32, u32)) -> bool {
        self.version.is_some_and(|own| own < version)
    }
}

/// A hypervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// QEMU, with KVM or without: also Proxmox VE, libvirt, OpenStack, Incus.
    Qemu,
    /// VMware ESXi or Workstation.
    Vmware,
    /// Microsoft Hyper-V.
    HyperV,
    /// Microsoft Azure.
    Azure,
    /// Windows Subsystem for Linux 2.
    Wsl,
    /// Xen.
    Xen,
    /// Oracle VirtualBox.
    VirtualBox,
    /// Amazon EC2 (Nitro).
    Amazon,
    /// Google Compute Engine.
    Google,
    /// Another cloud, whose guests run on KVM.
    Cloud,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// Bhyve, Parallels and others, or one that does not give its name.
    Other,
}

/// Bare metal or a guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Environment {
    /// The operating system runs on the hardware.
    BareMetal,
    /// It runs in a virtual machine.
    Guest(Hypervisor),
    /// The machine does not show it.
    #[default]
    Unknown,
}

/// Logical processors; `null` where unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processors {
    /// How many are present.
    pub present: Option<usize>,
    /// How many the firmware lists as enabled (ACPI table MADT).
    pub firmware: Option<usize>,
    /// The largest APIC id of an enabled one (ACPI table MADT); x86 only.
    pub largest_apic_id: Option<u32>,
}

impl Processors {
    /// Whether the kernel needs an IOMMU to reach all of them by interrupts: an APIC id above 254 needs x2APIC with
    /// interrupt remapping (arch/x86/kernel/apic/apic.c, `try_to_enable_x2apic`). More than 255 processors have such
    /// an id.
    #[must_use]
    pub fn need_iommu(&self) -> bool {
        let many = |count: Option<usize>| count.is_some_and(|count| count > 255);
        many(self.present) || many(self.firmware) || self.largest_apic_id.is_some_and(|id| id > 254)
    }
}

/// A Linux distribution, as far as its commands differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Debian, Ubuntu and others with apt.
    Debian,
    /// Fedora, RHEL, Rocky Linux and others with dnf.
    Fedora,
    /// openSUSE, SLES.
    Suse,
    /// Arch Linux and others with pacman.
    Arch,
    /// NixOS.
    #[serde(rename = "nixos")]
    NixOs,
    /// Another one.
    Other,
    /// There is no /etc/os-release.
    #[default]
    Unknown,
}

impl System {
    /// The instruction that adds these words to the kernel's command line.
    #[must_use]
    pub fn add_words(self, words: &[&str]) -> String {
        match self {
            Self::Appliance => format!("add `{}` to the boot entry and reboot", words.join(" ")),
            Self::Installed(distribution, loader) => loader.add_words(distribution, words),
            Self::Unknown => BootLoader::Unknown.add_words(Distribution::Unknown, words),
        }
    }

    /// The instruction that removes these words from it.
    #[must_use]
    pub fn remove_words(self, words: &[&str]) -> String {
        match self {
            Self::Appliance => format!(
                "remove `{}` from the boot entry and reboot",
                words.join(" ")
            ),
            Self::Installed(distribution, loader) => loader.remove_words(distribution, words),
            Self::Unknown => BootLoader::Unknown.remove_words(Distribution::Unknown, words),
        }
    }

    /// The instruction that puts a word in the place of others.
    #[must_use]
    pub fn replace_words(self, old: &[&str], new: &str) -> String {
        let old = old.join(" ");
        match self {
            Self::Appliance => format!("replace `{old}` by `{new}` in the boot entry and reboot"),
            Self::Installed(distribution, loader) => {
                replacement(loader.method(distribution), &old, new)
            }
            Self::Unknown => {
                replacement(BootLoader::Unknown.method(Distribution::Unknown), &old, new)
            }
        }
    }

    /// The instruction that gives this line to the loader of modules, which reads it at boot.
    #[must_use]
    pub fn module_options(self, line: &str) -> String {
        let distribution = if let Self::Installed(distribution, _) = self {
            distribution
        } else {
            Distribution::Unknown
        };
        let rebuild = match distribution {
            Distribution::NixOs => {
                return format!(
                    "put `{line}` into boot.extraModprobeConfig in /etc/nixos/configuration.nix, run `nixos-rebuild boot` and reboot"
                );
            }
            Distribution::Debian => " (`update-initramfs -u`)",
            Distribution::Fedora | Distribution::Suse => " (`dracut -f`)",
            Distribution::Arch => " (`mkinitcpio -P`)",
            Distribution::Other | Distribution::Unknown => "",
        };
        format!(
            "put `{line}` into /etc/modprobe.d/nvidia.conf, rebuild the initramfs if it holds the driver{rebuild}, and reboot"
        )
    }
}

/// The running system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// firstlight's own image.
    Appliance,
    /// Another system, with its distribution and its way to change the kernel's command line.
    Installed(Distribution, BootLoader),
    /// Unknown, as in a recording without these files.
    #[default]
    Unknown,
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// Where it is from.
    pub source: MemorySource,
}

/// Where a GPU's model or memory is from, the best first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// NVML, or the driver's files in /proc.
    Driver,
    /// The driver's lines in the kernel log.
    Log,
    /// The table of boards.
    Boards,
    /// The GPU's registers.
    Registers,
}

impl fmt::Display for MemorySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Driver => "the driver",
            Self::Log => "the kernel log",
            Self::Boards => "the table of boards",
            Self::Registers => "the GPU's registers",
        })
    }
}

/// One GPU of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostGpu {
    /// Its address.
    pub bdf: Bdf,
    /// Its number.
    pub number: GpuId,
    /// Its model.
    pub model: Option<Known<String>>,
    /// Its memory, bytes.
    pub memory_bytes: Option<Known<u64>>,
    /// Whether it is a GeForce board, which has no GPUDirect RDMA with NVIDIA's own driver; `null` if unknown.
    pub geforce: Option<bool>,
    /// Whether it is integrated (GB10): its memory is the processor's, it has no BAR1 and no GPUDirect RDMA.
    pub integrated: bool,
    /// Whether the processor reaches it over its own link (Grace Hopper, Grace Blackwell), which needs translation.
    pub own_link: bool,
    /// The driver that passes it to a virtual machine (`vfio-pci`); then it belongs to a guest.
    pub passed_by: Option<String>,
    /// The nearest port above it through which it can be plugged in while the machine runs.
    pub hot_plug: Option<HotPlug>,
    /// The peer-to-peer clique that a hypervisor gave it (QEMU's `x-nv-gpudirect-clique`).
    pub clique: Option<u8>,
    /// The number that the firmware gave to its slot.
    pub slot: Option<u16>,
}

/// A port through which a GPU can be plugged in while the machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HotPlug {
    /// The port.
    pub port: Bdf,
    /// Which sort of port.
    pub kind: HotPlugKind,
}

/// Which sort of hot-plug port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HotPlugKind {
    /// The GPU is in a box outside, at Thunderbolt or USB4.
    Thunderbolt,
    /// A slot whose registers say that cards may be plugged in and pulled out, as slots of servers also do.
    Slot,
}

/// The devices that are meant to exchange data directly: two GPUs where the driver gives peer access or could, and a
/// GPU and a network card where GPUDirect RDMA exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peers {
    /// The unordered pairs; the first is a GPU.
    pub pairs: Vec<(Bdf, Bdf)>,
    /// Why there is none; `null` if there is one, or if this is unknown.
    pub none: Option<NoPeers>,
}

impl Peers {
    /// Keeps the pairs of which neither end is `out`.
    pub fn leave_out(&mut self, out: impl Fn(Bdf) -> bool) {
        self.pairs.retain(|(a, b)| !out(*a) && !out(*b));
    }

    /// Whether a function is one of a pair.
    #[must_use]
    pub fn contain(&self, function: Bdf) -> bool {
        self.pairs
            .iter()
            .any(|(a, b)| *a == function || *b == function)
    }

    /// Whether a GPU is one of a pair whose other end is one of `gpus`.
    #[must_use]
    pub fn has_gpu(&self, gpu: Bdf, gpus: &[Bdf]) -> bool {
        self.pairs
            .iter()
            .any(|(a, b)| (*a == gpu && gpus.contains(b)) || (*b == gpu && gpus.contains(a)))
    }

    /// Whether these two are a pair, in any order.
    #[must_use]
    pub fn are(&self, one: Bdf, other: Bdf) -> bool {
        self.pairs
            .iter()
            .any(|(a, b)| (*a, *b) == (one, other) || (*a, *b) == (other, one))
    }
}

/// Why no two devices of a machine are meant to exchange data directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoPeers {
    /// There is no GPU.
    NoGpu,
    /// There is one GPU and no network card that could reach it.
    OneGpu,
    /// There is one GeForce board; the network cards do not reach it, because it has no GPUDirect RDMA.
    #[serde(rename = "geforce")]
    GeForce,
    /// All GPUs are integrated; they have neither peer access nor GPUDirect RDMA.
    Integrated,
    /// All but at most one GPU are passed to virtual machines.
    PassedThrough,
    /// The GPUs have a link of their own to the processor.
    OwnLink,
    /// No two GPUs are of one generation, and no network card exchanges data with one.
    Generations,
}

impl NoPeers {
    /// The reason in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoGpu => "no NVIDIA GPU",
            Self::OneGpu => "one GPU, and no network card that exchanges data with it",
            Self::GeForce => {
                "one GPU, a GeForce board, which has no GPUDirect RDMA: nothing exchanges data with it directly"
            }
            Self::Integrated => {
                "an integrated GPU, which has no GPUDirect RDMA: nothing exchanges data with it directly"
            }
            Self::PassedThrough => {
                "GPUs are passed to virtual machines; no other two devices here exchange data directly"
            }
            Self::Generations => {
                "the GPUs are of different generations, between which NVIDIA's libcuda gives no peer access, and no network card exchanges data with them"
            }
            Self::OwnLink => {
                "the GPUs have their own link to the processor, over which other devices reach them, and NVLink between them"
            }
        }
    }
}

impl fmt::Display for NoPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_pass_through_holds() {
        let of = |line: &str, architecture| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            match PassThrough::of(&words, architecture) {
                PassThrough::Unsaid => "unsaid".to_owned(),
                PassThrough::Asked(word) => format!("asked by {word}"),
                PassThrough::Refused(words, earlier) => {
                    format!("refused by {} {earlier}", words.join(" "))
                }
            }
        };
        for (line, said) in [
            ("ro quiet iommu=off", "unsaid"),
            ("ro iommu=pt", "asked by iommu=pt"),
            (
                "iommu.passthrough=0 iommu=soft,pt",
                "asked by iommu=soft,pt",
            ),
            (
                "iommu=pt iommu.passthrough=0",
                "refused by iommu.passthrough=0 true",
            ),
            ("iommu=nopt", "refused by iommu=nopt false"),
            (
                "iommu=nopt iommu.passthrough=on",
                "asked by iommu.passthrough=on",
            ),
            (
                "iommu=pt iommu.passthrough=n iommu=nopt",
                "refused by iommu.passthrough=n iommu=nopt true",
            ),
        ] {
            assert_eq!(of(line, Architecture::X86), said, "{line}");
        }
        assert_eq!(
            of("iommu=pt", Architecture::Arm64),
            "unsaid",
            "a word of x86"
        );
        assert_eq!(
            of("iommu.passthrough=1", Architecture::Arm64),
            "asked by iommu.passthrough=1"
        );
    }

    #[test]
    fn options_of_modules_go_where_the_distribution_keeps_them() {
        let of = |distribution| {
            System::Installed(distribution, BootLoader::Unknown).module_options("options a b=1")
        };
        assert!(of(Distribution::NixOs).contains("boot.extraModprobeConfig"));
        assert!(
            of(Distribution::Debian).contains("/etc/modprobe.d/nvidia.conf")
                && of(Distribution::Debian).contains("`update-initramfs -u`")
        );
        assert!(
            of(Distribution::Arch).contains("`mkinitcpio -P`")
                && of(Distribution::Suse).contains("`dracut -f`")
        );
    }
}
