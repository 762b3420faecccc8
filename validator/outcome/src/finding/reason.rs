//! Why a finding was made, where more is known than the row of its code says. A reason replaces the row's cause, its remedy
//! or its clause.

use super::remedy::{self, Case};
use super::words::Words;
use crate::platform::{Bdf, System};
use contract::recovery::Recovery;
use serde::{Deserialize, Serialize};

/// The reason of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    // Links.
    /// No bridge connects a card's NVLinks.
    NoBridge,
    /// A link on the path reports no speed.
    LinkSpeedUnknown,
    /// The port has fewer lanes than the device.
    NarrowPort,
    // BAR1.
    /// The size of BAR1 cannot be changed.
    FixedBar,
    /// The card's VBIOS offers no BAR1 that covers the memory; another VBIOS can.
    VbiosLimit,
    /// Nothing makes BAR1 of this board as large as its memory.
    BoardLimit,
    /// The firmware's display was kept.
    DisplayKept,
    /// A BAR that is not prefetchable has no address: its size, bytes, where it is known.
    PlainBarUnplaced(Option<u64>),
    /// Devices below the same root port are in use; why.
    NeighbourInUse(Words),
    /// All BARs of the GPU are empty.
    AddressesLost,
    /// BAR1 has no room for the driver's map of all memory: the obstacles, the most direct first.
    NoRoomForMap(Vec<MapObstacle>),
    /// The driver maps no peer where its map begins: what is before it, the most direct first.
    MisalignedMap(Vec<MapObstacle>),
    /// The driver says why it did not map the memory.
    NotMapped(Words),
    /// Other programs map the memory too.
    MappedByOthers,
    // ACS.
    /// ACS lets translated requests pass, and all senders translate.
    SendersTranslate,
    /// Linux isolated the ports of an older chipset.
    IsolatedByLinux,
    /// The fabric pass does not change a port, because a device needs ACS; why.
    LeftByPass(Bdf, Words),
    /// The fabric pass had changed the register, and it changed back.
    ChangedAfterPass,
    // Processors.
    /// A kernel word or a kernel option limits the number of processors.
    ProcessorLimit,
    /// The kernel left out processors because x2APIC is off.
    NoX2apic,
    /// This kernel word limits the number of processors.
    LimitedByWord(Words),
    /// Simultaneous multithreading is switched off; by what.
    SmtOff(Words),
    // The IOMMU and the display.
    /// Xen programs the IOMMU.
    XenOwnsIommu,
    /// The display is of this kind.
    DisplayKind(DisplayKind),
    // The driver.
    /// Another driver could bind to GPUs, or has.
    ForeignDriver(ForeignDriver),
    /// The GPUs of the scope are passed to virtual machines, so nothing here can use one.
    AllOfGuests,
    /// It is not loaded.
    NotLoaded,
    /// Process 1 tried to load it and did not say why that failed.
    LoadFailed,
    /// An Xid error by its source, with the action that its number or its line gives.
    Xid(FaultSource, Option<Recovery>),
    /// The driver asks for an action.
    DriverAsks(Recovery),
    /// The driver said afterwards that the GPU needs no recovery any more: of an Xid error by its source, or of what the driver
    /// says itself.
    Recovered(Option<FaultSource>),
    // Events of the kernel's log.
    /// A device was unplugged, or lost its power.
    Unplugged,
    /// The same, where it matters less: the device was there again later, or no GPU used it.
    UnpluggedOnce,
    /// A GPU could not be started, and was started later or got a newly loaded driver.
    Over,
    /// An event of the time before the tests, which may be over.
    Earlier,
    /// The kernel cannot share page tables with a GPU.
    NoSharedPageTables,
    /// NVIDIA's module found no addresses at which the kernel could show a GPU's memory (HMM).
    NoRoomForHmm,
    /// Confidential computing: what does not fit, or which mode is on.
    Confidential(ConfidentialCase),
    /// The driver is loaded, and the GPU has none.
    NotBound,
    /// The driver said why it did not accept the GPU.
    Refused(DriverRefusal),
    /// Virtual machines use the GPU.
    OfGuest,
    // The run.
    /// All tests together took too long.
    OutOfTime,
    /// The test was left out; how.
    LeftOut(Words),
    /// A GPU did not wake from a state without power; whether vfio-pci holds it, and not NVIDIA's driver.
    NotWoken(bool),
    /// A GPU was lost: which, and during which test.
    GpuLost(Vec<(Bdf, String)>),
    // Peer access.
    /// What is known about the driver predicts the refusal.
    Predicted(Refusal, Words),
    /// NVML's status gives the reason.
    Status(Refusal),
    /// A source of information is wrong.
    Witness(WrongWitness),
    // Data.
    /// No device answered reads.
    Unanswered,
    /// Not even copies through host memory arrive.
    HostPathBroken,
    /// Reads get no data.
    ReadsEmpty,
    /// Writes are dropped or misdirected.
    WritesDropped,
    /// The writer gets its own data back.
    Mirrored,
    /// Data is late.
    Late,
    /// Data comes from another place of the memory.
    Shifted,
    /// Parts are missing.
    Partial,
    /// A cache returns its previous content.
    OldContent,
    /// Bits are flipped.
    BitsFlipped,
    /// Two addresses lead to the same memory.
    Aliased,
    /// Addresses of two GPUs lead to the same memory.
    ForeignMemory,
    /// Kernels read other data than the owner has, in the all-reduce of frameworks.
    KernelReads,
    /// The all-reduce of frameworks fails otherwise.
    KernelAllReduce,
    /// The driver does not offer this way to share memory.
    NotShared,
    // NCCL.
    /// NCCL ended in another way than by the forbidden transports.
    EndedOtherwise,
}

/// What is at fault in an Xid error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultSource {
    /// A program on the GPU.
    Program,
    /// Usually the driver; it may be the hardware.
    Driver,
    /// The GPU, its power or its firmware.
    Gpu,
    /// The GPU's memory.
    Memory,
    /// PCIe, an NVLink, or the link to the processor's chip.
    Link,
    /// An NVLink, whose error was corrected or contained.
    MildLink,
    /// Something that the GPU has repaired or disabled by itself.
    Repaired,
    /// Not in the table.
    Unknown,
}

/// What confidential computing means for the GPUs here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfidentialCase {
    /// A GPU is in such a mode, and the machine is no confidential guest, or its kernel cannot be one.
    MachineIsNone,
    /// The machine is a confidential guest, and the mode of a GPU is off.
    GpuModeOff,
    /// The machine is a confidential guest, and a GPU has no such mode.
    GpuIncapable,
    /// The kernel lacks the cryptography by which the driver reaches a GPU in such a mode.
    NoKernelCrypto,
    /// Nothing has said that the GPUs may be used.
    NotReady,
    /// The mode is on.
    On,
    /// The mode for all GPUs and NVSwitches of a machine (protected PCIe) is on.
    ProtectedPcie,
}

/// Sources: NVIDIA's Trusted Computing Solutions release notes R580 TRD1 ("Limitations in the SPT CC Mode", "Limitations in the
/// Hopper PPCIe Mode"), and the open kernel modules' conf_compute.c, which asks the kernel for `CC_ATTR_GUEST_MEM_ENCRYPT`.
impl ConfidentialCase {
    const fn cause(self) -> &'static str {
        match self {
            Self::MachineIsNone => {
                "the GPU is in a mode of confidential computing, which stays on after a reboot, and the machine is no confidential guest (AMD SEV-SNP, Intel TDX), or its kernel cannot be one, as firstlight's own"
            }
            Self::GpuModeOff => {
                "the machine is a confidential guest, and its GPU is not in a mode of confidential computing"
            }
            Self::GpuIncapable => {
                "the machine is a confidential guest, and its GPU has no mode of confidential computing"
            }
            Self::NoKernelCrypto => {
                "the kernel has no ECDH, ECDSA, RSA, HMAC, GCM or X.509 parser, or had none when the module was built, or the modules for them were loaded after the driver"
            }
            Self::NotReady => {
                "the GPUs are in a mode of confidential computing, and nothing has declared them ready, as a program does after it has attested them"
            }
            Self::On => {
                "the mode of confidential computing is on: on Hopper NVIDIA supports one GPU in each guest and no peer-to-peer; firstlight was never tried in it"
            }
            Self::ProtectedPcie => {
                "protected PCIe is on: NVIDIA supports it for eight Hopper GPUs and their four NVSwitches in one guest, without CUDA IPC; firstlight was never tried in it"
            }
        }
    }

    const fn remedy(self) -> &'static str {
        match self {
            Self::MachineIsNone => {
                "{on host}switch the mode off with NVIDIA's gpu-admin-tools (`nvidia_gpu_tools.py --set-cc-mode=off --reset-after-cc-mode-switch`, or the same with ppcie for cc), or use the GPU in a confidential guest"
            }
            Self::GpuModeOff => {
                "{on host}switch the mode on (`nvidia_gpu_tools.py --set-cc-mode=on --reset-after-cc-mode-switch`), or start the virtual machine without confidential computing"
            }
            Self::GpuIncapable => {
                "start the virtual machine without confidential computing, or give it a GPU that has it"
            }
            Self::NoKernelCrypto => {
                "run `modprobe -a ecdsa_generic ecdh_generic` before the driver is loaded; if the kernel lacks them, use one that has them and build the driver for it"
            }
            Self::NotReady => {
                "attest the GPUs; then run `nvidia-smi conf-compute -srs 1`, and the tests again"
            }
            Self::On | Self::ProtectedPcie => {
                "take the figures as those of this mode; to prove peer-to-peer, test without confidential computing"
            }
        }
    }
}

/// Whose display it is: each needs another word to keep it off a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DisplayKind {
    /// The firmware's, shown by simpledrm or a driver like it.
    FirmwareDrm,
    /// That of nvidia-drm.
    Driver,
}

impl DisplayKind {
    const fn cause(self) -> &'static str {
        match self {
            Self::FirmwareDrm => {
                "that GPU is the firmware's boot display, which simpledrm or simplefb shows"
            }
            Self::Driver => "nvidia-drm put a console on that GPU",
        }
    }
}

/// What a failed call lacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// Memory of the GPU.
    Memory,
    /// The GPU itself, which does not accept this process.
    Device,
}

impl Lack {
    /// By the names that CUDA (cuda.h) and NCCL give to errors, somewhere in a text of theirs.
    #[must_use]
    pub fn named_in(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let any = |names: [&str; 2]| names.iter().any(|name| text.contains(name));
        if any(["out_of_memory", "out of memory"]) {
            return Some(Self::Memory);
        }
        any(["device_unavailable", "busy or unavailable"]).then_some(Self::Device)
    }
}

/// Why the driver refuses peer access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// NVIDIA's own driver has none for these boards, or not with this processor.
    StockDriver,
    /// A registry key switches it off.
    RegistryKey,
    /// The GPUs are too far apart.
    TooFarApart,
    /// Not between these models.
    Models,
    /// The driver has no mechanism for the pair.
    NoMechanism,
    /// NVML does not know the pair.
    UnknownPair,
    /// Another reason.
    Other,
}

/// A driver other than NVIDIA's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignDriver {
    /// Its name.
    pub name: String,
    /// Whether it is bound to a GPU, and not only loaded.
    pub bound: bool,
    /// Whether NVIDIA's driver is not loaded.
    pub alone: bool,
}

/// Why NVIDIA's module does not accept a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverRefusal {
    /// The GPU needs the open flavour of the modules, and the closed one was loaded.
    NeedsOpen,
    /// The open flavour was loaded, and the GPU has no system processor (GSP).
    NoGsp,
    /// The open flavour does not support this GPU as a virtual one, or as the host of virtual ones.
    NoVgpu,
    /// This release does not have the GPU in its list.
    OtherRelease,
    /// This release no longer supports the GPU: its branch, where the module names it.
    Legacy(Option<u32>),
    /// Another driver held the GPU when the module was loaded: which, where that is known.
    Held(Option<Words>),
}

impl DriverRefusal {
    fn cause(&self) -> String {
        match self {
            Self::NeedsOpen => "only the open flavour of NVIDIA's modules drives this GPU, and the closed flavour was loaded".to_owned(),
            Self::NoGsp => "the open flavour of NVIDIA's modules drives only GPUs with a system processor (GSP), which this GPU, older than Turing, does not have".to_owned(),
            Self::NoVgpu => "the open flavour of this release supports no virtual GPUs (vGPU) with this GPU".to_owned(),
            Self::OtherRelease => "this release of the driver does not know the GPU: the GPU is newer than the release, or so old that only a legacy driver supports it".to_owned(),
            Self::Legacy(Some(branch)) => format!("this release of the driver no longer supports the GPU, and {branch} is the last branch that does"),
            Self::Legacy(None) => "this release of the driver no longer supports the GPU".to_owned(),
            Self::Held(Some(name)) => format!("{name} held the GPU when NVIDIA's module was loaded"),
            Self::Held(None) => "another driver held the GPU when NVIDIA's module was loaded".to_owned(),
        }
    }
}

/// Which source of information about peer access is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrongWitness {
    /// Two functions of CUDA contradict each other.
    CudaItself,
    /// CUDA.
    Cuda,
    /// NVML, which a patch did not change.
    NvmlUnpatched,
    /// NVML.
    Nvml,
}

/// What takes the room for the driver's map of all memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapObstacle {
    /// A console of this name.
    Console(Words),
    /// Areas that the driver reserves.
    Reserved,
    /// BAR1 itself is hardly larger than the memory.
    Size,
}

impl Reason {
    /// What is wrong, as a clause; `None` where the row's clause is exact enough.
    #[must_use]
    pub fn clause(&self) -> Option<String> {
        let text = match self {
            Self::ForeignDriver(ForeignDriver {
                name, bound: true, ..
            }) => {
                return Some(format!(
                    "{name} is bound to the GPU instead of NVIDIA's driver"
                ));
            }
            Self::ForeignDriver(ForeignDriver { name, .. }) => {
                return Some(format!("{name} is loaded, and could bind to a GPU"));
            }
            Self::AllOfGuests => "the GPUs are passed to virtual machines",
            Self::PlainBarUnplaced(_) => "there is no bus address space for a BAR of the GPU",
            Self::NotLoaded | Self::LoadFailed => "no NVIDIA driver is loaded",
            Self::Predicted(Refusal::StockDriver, _) | Self::Status(Refusal::StockDriver) => {
                "the stock driver refuses it"
            }
            Self::Predicted(Refusal::RegistryKey, _) | Self::Status(Refusal::RegistryKey) => {
                "a registry key of the driver switches it off"
            }
            Self::Predicted(Refusal::TooFarApart, _) | Self::Status(Refusal::TooFarApart) => {
                "the driver finds the GPUs too far apart"
            }
            Self::WritesDropped => "what is written to the peer does not arrive",
            Self::ReadsEmpty | Self::KernelReads => "reads of the peer give other data",
            Self::BitsFlipped => "bits arrive flipped",
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// The cause; `None` where that of the row holds.
    #[must_use]
    pub(super) fn cause(&self) -> Option<String> {
        let text = match self {
            Self::NoBridge => "no bridge connects this card's links",
            Self::LinkSpeedUnknown => {
                "a link on the path reports no speed, as in some virtual machines"
            }
            Self::NarrowPort => {
                "the port has fewer lanes than the device: a slot whose lanes are split, a slot of the chipset, or a soldered device"
            }
            Self::NoSharedPageTables => {
                "the kernel was built without CONFIG_ARM_SMMU_V3_SVA: NVIDIA's driver needs it for a GPU that shares the page tables of programs, such as GB10"
            }
            Self::NoRoomForHmm => {
                "the kernel's random placement of memory (KASLR) left nvidia-uvm no addresses for the GPU's memory (HMM), a known fault of some kernels"
            }
            Self::Confidential(case) => case.cause(),
            Self::FixedBar => "the board or a hypervisor fixes the size of BAR1",
            Self::VbiosLimit => {
                "the card's VBIOS offers no BAR1 that covers its memory; in a virtual machine, its host may offer more"
            }
            Self::BoardLimit => {
                "this board cannot have a BAR1 as large as its memory: memory was added to it, or it is older than Resizable BAR"
            }
            Self::DisplayKept => "the firmware's display is on this GPU and was kept",
            Self::PlainBarUnplaced(_) => {
                "the bridges above the GPU have no room for a BAR that is not prefetchable, which needs addresses below 4 GiB; without it no driver can use the GPU"
            }
            Self::AddressesLost => {
                "the GPU was reset, or fell off the bus and came back, and nothing assigned its addresses again"
            }
            Self::MappedByOthers => {
                "other programs map its memory too, such as drivers of network cards"
            }
            Self::SendersTranslate => {
                "ACS was set for devices that translate addresses themselves (ATS)"
            }
            Self::IsolatedByLinux => {
                "an IOMMU was on when Linux started, and these chipsets isolate without an ACS capability"
            }
            Self::ChangedAfterPass => {
                "something set ACS again: a reset, a rescan, a driver that binds, management firmware, or `firstlight fabric restore`"
            }
            Self::ProcessorLimit => "the kernel was built or started for fewer processors",
            Self::NoX2apic => {
                "x2APIC is off: without interrupt remapping the kernel omits APIC ids of 255 and above"
            }
            Self::LimitedByWord(word) => {
                return Some(format!(
                    "{word} on the kernel command line limits the processors"
                ));
            }
            Self::SmtOff(by) => {
                return Some(format!(
                    "simultaneous multithreading is switched off ({by}), so each core runs one thread"
                ));
            }
            Self::XenOwnsIommu => {
                "Linux runs as the privileged domain of Xen, which programs the IOMMU itself"
            }
            Self::DisplayKind(kind) => kind.cause(),
            Self::NotBound => {
                "the driver did not accept the GPU when it was loaded, for instance without address space for its BARs, or the GPU was unbound later"
            }
            Self::Refused(refusal) => return Some(refusal.cause()),
            Self::ForeignDriver(ForeignDriver { name, .. }) => return remedy::why_foreign(name),
            Self::AllOfGuests => {
                "the driver of these GPUs is in the virtual machines that use them"
            }
            Self::OfGuest => "the GPU is passed to a virtual machine, or ready for that",
            Self::LoadFailed => "init should have loaded it, but does not report why that failed",
            Self::Xid(source, _) | Self::Recovered(Some(source)) => {
                return source.cause().map(str::to_owned);
            }
            Self::Recovered(None) => "an earlier error of the GPU, which it has recovered from",
            Self::Unplugged | Self::UnpluggedOnce => "the device was unplugged or lost power",
            Self::Over => "a state of the GPU or the driver that ended before the tests",
            Self::NotWoken(_) => {
                "the GPU did not wake from a state without power (D3cold): runtime power management, or the firmware that switches the power"
            }
            Self::OutOfTime => "the tests together took longer than validate.timeout_s",
            Self::Status(refusal) => return refusal.cause().map(str::to_owned),
            Self::Witness(wrong) => wrong.cause(),
            Self::Unanswered => {
                "no device answered the reads: the peer's BAR1 is not decoded where the driver expects the memory, or a GPU fell off the bus"
            }
            Self::HostPathBroken => {
                "not even copies through host memory arrive: a GPU, its link or the host's memory is broken"
            }
            Self::ReadsEmpty => {
                "reads of the peer get no data: its BAR1 does not map the memory, or ACS or an IOMMU stops them"
            }
            Self::WritesDropped => {
                "writes to the peer are dropped or misdirected: its BAR1 does not map the memory, or ACS or an IOMMU stops them"
            }
            Self::Mirrored => {
                "the writer's path to the peer leads back to itself, or its cache keeps the data back"
            }
            Self::Late => {
                "the path delays writes, or a cache is not flushed, when work is reported as complete"
            }
            Self::Shifted => {
                "the driver and the GPU disagree on where the peer's memory begins in BAR1: a driver patch that does not fit"
            }
            Self::Partial => {
                "part of the memory is not mapped for the peer: BAR1 is smaller than the memory, or packets are lost"
            }
            Self::OldContent => "a cache between the GPUs returns its previous content",
            Self::BitsFlipped => {
                "bits are flipped on the way or in a GPU's memory: link, riser, or memory without ECC"
            }
            Self::Aliased => {
                "two addresses lead to the same memory: the window through which peers reach the memory is too small or displaced"
            }
            Self::ForeignMemory => {
                "addresses of different GPUs lead to the same memory: the driver and the GPUs disagree about which GPU owns an address"
            }
            Self::KernelReads => {
                "reads of a peer's memory by kernels give other data than its owner has: a cache, BAR1, ACS or an IOMMU"
            }
            Self::NotShared => {
                "the driver does not offer it on this system, as in some virtual machines and containers"
            }
            Self::EndedOtherwise => "NCCL should have failed to connect, but ended differently",
            Self::LeftByPass(device, why) => {
                return Some(format!("the fabric pass skips it: {device} {why}"));
            }
            Self::LeftOut(why) => return Some(format!("skipped {why}")),
            Self::GpuLost(lost) => return Some(lost_text(lost)),
            Self::NeighbourInUse(why) | Self::NotMapped(why) | Self::Predicted(_, why) => {
                return Some(why.to_string());
            }
            Self::MisalignedMap(obstacles) => {
                let console = obstacles.iter().find_map(|one| match one {
                    MapObstacle::Console(name) => Some(name),
                    _ => None,
                })?;
                return Some(format!(
                    "the console {console} on this GPU is at the start of BAR1, and up to version 575 the driver begins its map directly behind it"
                ));
            }
            Self::NoRoomForMap(obstacles) => {
                return Some(
                    obstacles
                        .iter()
                        .map(MapObstacle::cause)
                        .collect::<Vec<_>>()
                        .join("; "),
                );
            }
            Self::DriverAsks(_) | Self::Earlier | Self::KernelAllReduce | Self::NotLoaded => {
                return None;
            }
        };
        Some(text.to_owned())
    }

    /// Whether its remedy changes the machine or its system, which a container cannot.
    #[must_use]
    pub(super) const fn is_of_machine(&self) -> bool {
        matches!(
            self,
            Self::NarrowPort
                | Self::NoSharedPageTables
                | Self::NoRoomForHmm
                | Self::Confidential(_)
                | Self::VbiosLimit
                | Self::DisplayKept
                | Self::PlainBarUnplaced(_)
                | Self::NeighbourInUse(_)
                | Self::IsolatedByLinux
                | Self::LeftByPass(..)
                | Self::ProcessorLimit
                | Self::NoX2apic
                | Self::LimitedByWord(_)
                | Self::XenOwnsIommu
                | Self::DisplayKind(_)
                | Self::ForeignDriver(_)
                | Self::NotBound
                | Self::Refused(_)
                | Self::Unplugged
                | Self::UnpluggedOnce
                | Self::NoRoomForMap(_)
                | Self::MisalignedMap(_)
                | Self::NotWoken(_)
                | Self::GpuLost(_)
                | Self::Unanswered
                | Self::DriverAsks(_)
                | Self::Xid(..)
        )
    }

    /// The next thing to do; `None` where that of the row holds.
    #[must_use]
    pub(super) fn remedy(&self, case: Case<'_>) -> Option<String> {
        let text = match self {
            Self::NoBridge => "fit a bridge if NVLink is wanted",
            Self::LinkSpeedUnknown => "set expect.min_p2p_gb_s to the expected speed",
            Self::NarrowPort => {
                "nothing, if these lanes are enough; otherwise use another slot, another lane split (bifurcation) {firmware}, or newer firmware of the board or the device"
            }
            Self::NoSharedPageTables => {
                "boot a kernel that was built with CONFIG_ARM_SMMU_V3_SVA=y, such as NVIDIA's own or a newer one of the distribution"
            }
            Self::NoRoomForHmm => return Some(remedy::without_hmm(case)),
            Self::Confidential(case) => case.remedy(),
            Self::FixedBar => "nothing to do if BAR1 covers the GPU's memory",
            Self::VbiosLimit => return Some(remedy::vbios_limit(case)),
            Self::BoardLimit => NO_BAR1_PEERS,
            Self::DisplayKept => return Some(remedy::display(case)),
            Self::PlainBarUnplaced(bytes) => return Some(remedy::plain_bar_unplaced(case, *bytes)),
            Self::NeighbourInUse(_) => {
                return Some(remedy::in_firmware_first(
                    case,
                    "run the fabric pass before drivers and displays use the other devices below this root port",
                ));
            }
            Self::MappedByOthers => "end programs that use the GPUs, then run the tests again",
            Self::SendersTranslate => "nothing to do if the measured tests pass",
            Self::IsolatedByLinux => "move the card to a slot that is connected to the processor",
            Self::LeftByPass(..) => return Some(super::Code::AcsKept.row().remedy.text(case)),
            Self::ProcessorLimit => {
                "remove nr_cpus=, maxcpus= and possible_cpus= from the kernel command line, or use a kernel that was built for more processors"
            }
            Self::NoX2apic => return Some(remedy::processors_need_iommu(case)),
            Self::LimitedByWord(word) => {
                return Some(remedy::limiting_word(case, &word.to_string()));
            }
            Self::SmtOff(_) => "nothing, if it is switched off on purpose",
            Self::XenOwnsIommu => {
                "the tests that measure data decide; `xl dmesg` shows whether Xen uses the IOMMU: add dom0-iommu=passthrough to Xen's own command line, or boot Linux without Xen"
            }
            Self::DisplayKind(kind) => return Some(remedy::display_of(case, *kind)),
            Self::ForeignDriver(other) => return Some(remedy::keep_away(case, other)),
            Self::AllOfGuests => {
                "run firstlight in those virtual machines, which have the driver of these GPUs; here `firstlight validate --scope fabric` tests what needs no GPU"
            }
            Self::NotBound => {
                "look for the driver's lines (NVRM) in `dmesg`, and see the test fabric for a BAR without address space; load the module again; if that does not help, {power}"
            }
            Self::Refused(refusal) => return Some(remedy::accepting_driver(case, refusal)),
            Self::Xid(source, recovery) => {
                return xid_remedy(*source, *recovery).map(|text| case.place(text));
            }
            Self::DriverAsks(action) => {
                return recovery_remedy(*action).map(|text| case.place(text));
            }
            Self::Recovered(None) => "nothing now: the driver asks for no recovery any more",
            Self::Recovered(Some(_)) => {
                "no reset is due: the driver said afterwards that the GPU needs no recovery any more; run the tests again if one failed; replace the GPU if the error returns"
            }
            Self::Unplugged => {
                "{on host}check the cable and the power of the box or the slot that the line names, then run the tests again"
            }
            Self::UnpluggedOnce => {
                "nothing now, if the tests pass; if it happens again, {on host}check the cable and the power of the box or the slot that the line names"
            }
            Self::Over => "nothing now: the tests show whether the GPU works",
            Self::Earlier => {
                let usual = case.finding.code.row().remedy.text(case);
                return Some(format!(
                    "nothing now, if the tests pass; if one fails: {usual}"
                ));
            }
            Self::NotWoken(vfio) => return Some(remedy::keep_awake(case, *vfio)),
            Self::GpuLost(_) => return Some(super::Code::GpuGone.row().remedy.text(case)),
            Self::Unanswered => {
                "see the tests gpus, bar1 and xid for a GPU that no longer answers or a BAR1 that is too small; reboot the machine; if it happens again, {on host}check risers and power cables"
            }
            Self::NotShared if case.host.is_rented() || case.host.is_wsl() => {
                "configure frameworks to share memory by the other mechanism"
            }
            Self::NotShared => {
                "configure frameworks to share memory by the other mechanism, or run them on the host itself"
            }
            Self::KernelReads | Self::KernelAllReduce => KERNEL_ALL_REDUCE,
            Self::MisalignedMap(obstacles) => {
                return Some(misaligned_remedy(obstacles, case.host.system));
            }
            Self::NoRoomForMap(obstacles) => {
                return Some(map_remedy(obstacles, case.host.system, case.host.container));
            }
            _ => return None,
        };
        Some(case.place(text))
    }
}

#[cfg(test)]
impl Reason {
    /// One of each kind that has a remedy of its own.
    pub(super) fn samples() -> Vec<Self> {
        let recoveries = Recovery::ALL;
        let sources = [
            FaultSource::Program,
            FaultSource::Driver,
            FaultSource::Gpu,
            FaultSource::Memory,
            FaultSource::Link,
            FaultSource::MildLink,
            FaultSource::Repaired,
        ];
        let xids = sources.into_iter().flat_map(|source| {
            recoveries
                .into_iter()
                .map(Some)
                .chain([None])
                .map(move |action| Self::Xid(source, action))
        });
        let one = super::kinds::GPU;
        let others = [
            Self::NoBridge,
            Self::LinkSpeedUnknown,
            Self::NarrowPort,
            Self::NoSharedPageTables,
            Self::NoRoomForHmm,
            Self::Confidential(ConfidentialCase::MachineIsNone),
            Self::Confidential(ConfidentialCase::GpuModeOff),
            Self::Confidential(ConfidentialCase::GpuIncapable),
            Self::Confidential(ConfidentialCase::NoKernelCrypto),
            Self::Confidential(ConfidentialCase::NotReady),
            Self::Confidential(ConfidentialCase::On),
            Self::FixedBar,
            Self::VbiosLimit,
            Self::BoardLimit,
            Self::DisplayKept,
            Self::PlainBarUnplaced(Some(64 << 20)),
            Self::NeighbourInUse("why".into()),
            Self::NoRoomForMap(vec![
                MapObstacle::Console("fb0".into()),
                MapObstacle::Reserved,
                MapObstacle::Size,
            ]),
            Self::NoRoomForMap(vec![MapObstacle::Size]),
            Self::MisalignedMap(vec![
                MapObstacle::Console("fb0".into()),
                MapObstacle::Reserved,
            ]),
            Self::MisalignedMap(vec![MapObstacle::Reserved]),
            Self::MappedByOthers,
            Self::SendersTranslate,
            Self::IsolatedByLinux,
            Self::LeftByPass(one, "why".into()),
            Self::ProcessorLimit,
            Self::NoX2apic,
            Self::LimitedByWord("nr_cpus=8".into()),
            Self::SmtOff("nosmt".into()),
            Self::XenOwnsIommu,
            Self::DisplayKind(DisplayKind::FirmwareDrm),
            Self::DisplayKind(DisplayKind::Driver),
            Self::ForeignDriver(ForeignDriver {
                name: "nouveau".into(),
                bound: true,
                alone: true,
            }),
            Self::ForeignDriver(ForeignDriver {
                name: "NovaCore".into(),
                bound: true,
                alone: false,
            }),
            Self::ForeignDriver(ForeignDriver {
                name: "pci stub".into(),
                bound: true,
                alone: true,
            }),
            Self::AllOfGuests,
            Self::NotBound,
            Self::Refused(DriverRefusal::NeedsOpen),
            Self::Refused(DriverRefusal::NoGsp),
            Self::Refused(DriverRefusal::NoVgpu),
            Self::Refused(DriverRefusal::OtherRelease),
            Self::Refused(DriverRefusal::Legacy(Some(580))),
            Self::Refused(DriverRefusal::Legacy(None)),
            Self::Refused(DriverRefusal::Held(Some("nouveau".into()))),
            Self::Refused(DriverRefusal::Held(None)),
            Self::NotWoken(false),
            Self::NotWoken(true),
            Self::GpuLost(vec![(one, "p2p-order".to_owned())]),
            Self::Recovered(None),
            Self::Recovered(Some(FaultSource::Memory)),
            Self::Unplugged,
            Self::UnpluggedOnce,
            Self::Over,
            Self::Earlier,
            Self::Predicted(Refusal::RegistryKey, "why".into()),
            Self::Unanswered,
            Self::KernelReads,
            Self::NotShared,
        ];
        xids.chain(recoveries.into_iter().map(Self::DriverAsks))
            .chain(others)
            .collect()
    }
}

/// `GPU 0000:41:00 was lost while p2p-order ran`
#[must_use]
pub fn lost_text(lost: &[(Bdf, String)]) -> String {
    let one = |(gpu, test): &(Bdf, String)| {
        format!(
            "GPU {} was lost while {test} ran",
            super::Subject::from(*gpu).without_function()
        )
    };
    lost.iter().map(one).collect::<Vec<_>>().join(", ")
}

const NO_BAR1_PEERS: &str =
    "nothing makes BAR1 larger: do not expect peer-to-peer through BAR1 of this board";
const KERNEL_ALL_REDUCE: &str = "start vLLM and SGLang with --disable-custom-all-reduce, so that they use NCCL, which has tests of its own; see the tests iommu, acs and bar1-static";

impl FaultSource {
    const fn cause(self) -> Option<&'static str> {
        match self {
            Self::Gpu => Some("the GPU, its power or its firmware"),
            Self::Memory => Some("the GPU's memory"),
            Self::Link | Self::MildLink => Some(
                "a link of the GPU, its slot, riser or bridge, or the device at the link's other end",
            ),
            Self::Repaired => Some(
                "a worn or defective part of the GPU, which the GPU repaired or disabled itself",
            ),
            Self::Driver => Some("the driver, or a GPU in a state that the driver did not expect"),
            Self::Program => {
                Some("a program that used the GPU wrongly, or whose memory was corrupted")
            }
            Self::Unknown => None,
        }
    }

    const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Gpu | Self::Memory | Self::Link => Some(
                "{power}; look up the number in NVIDIA's list; replace the GPU if it happens again",
            ),
            Self::MildLink => Some(
                "nothing now; look up the number in NVIDIA's list; check the NVLink if this happens often",
            ),
            Self::Repaired => Some(
                "reset the GPU when it is idle (`nvidia-smi -i {gpu} --gpu-reset`); replace it if this happens often",
            ),
            Self::Driver => {
                Some("update the driver; look up the number in NVIDIA's list of Xid errors")
            }
            Self::Program => Some(
                "end other programs on the GPUs and run the tests again; if there are none, check the program that the line names",
            ),
            Self::Unknown => None,
        }
    }
}

/// The next thing to do after an Xid error; `None` if neither its number nor its line gives it.
fn xid_remedy(source: FaultSource, recovery: Option<Recovery>) -> Option<&'static str> {
    match recovery {
        Some(Recovery::RestartProgram) if source == FaultSource::Program => source.remedy(),
        Some(Recovery::None)
            if matches!(
                source,
                FaultSource::Gpu | FaultSource::Memory | FaultSource::Link
            ) =>
        {
            // The catalogue asks for no action, but the error is not over.
            Some(
                "look up the number in NVIDIA's list; run the tests again; replace the GPU if it happens again",
            )
        }
        Some(action) => recovery_remedy(action).or_else(|| source.remedy()),
        None => source.remedy(),
    }
}

/// How to carry out an action; `None` if there is nothing to do.
const fn recovery_remedy(action: Recovery) -> Option<&'static str> {
    match action {
        Recovery::None => None,
        Recovery::RestartProgram => Some(
            "start the program that the line names again; if the error returns, look up the number in NVIDIA's list of Xid errors",
        ),
        Recovery::ResetGpu => Some(
            "end all programs on the GPU and reset it (`nvidia-smi -i {gpu} --gpu-reset`); if the error returns, {power}; then replace the GPU",
        ),
        Recovery::RebootNode => Some(
            "reboot the machine; if that does not help, {power}, and {on host}check the slot, the riser and the power cables",
        ),
        Recovery::DrainP2p => Some(
            "end all programs that use peer-to-peer; then `nvidia-smi -q` shows whether the GPU needs a reset or a reboot (GPU Recovery Action)",
        ),
        Recovery::DrainAndReset => Some(
            "start no new programs on the GPU, wait for those on it, and reset it (`nvidia-smi -i {gpu} --gpu-reset`)",
        ),
        Recovery::PowerCycle => Some(
            "{power}; while it is off, {on host}check the GPU's power cables, its riser and its slot",
        ),
        Recovery::Replace => Some("replace the GPU, or ask NVIDIA's support"),
    }
}

impl Refusal {
    /// The cause, where NVML's status alone is known.
    const fn cause(self) -> Option<&'static str> {
        match self {
            Self::StockDriver => Some(
                "the driver does not trust this processor's root complex with peer traffic; a stock driver reports the same for GeForce GPUs",
            ),
            Self::Models => Some("the driver does not offer peer access between these GPU models"),
            Self::TooFarApart => Some(
                "the GPUs are too far apart for the driver: they share no root complex that it trusts",
            ),
            Self::RegistryKey => Some("a registry key of the driver switches peer access off"),
            Self::NoMechanism => Some(
                "the driver has no mechanism for these two GPUs: their chips differ, BAR1 is not mapped, or GPUs with NVLink lack its links",
            ),
            Self::UnknownPair => Some(
                "NVML does not know this pair: a GPU is not started, or libraries and module differ",
            ),
            Self::Other => None,
        }
    }
}

impl WrongWitness {
    const fn cause(self) -> &'static str {
        match self {
            Self::CudaItself => "CUDA contradicts itself",
            Self::Cuda => "CUDA's answer is wrong",
            Self::NvmlUnpatched => "the driver patch changed CUDA's answer but not NVML's",
            Self::Nvml => {
                "NVML's answer is wrong: the driver does not let CUDA use what NVML offers"
            }
        }
    }
}

impl MapObstacle {
    fn cause(&self) -> String {
        match self {
            Self::Console(name) => {
                format!("the console {name} on this GPU takes the first 512 MiB of BAR1")
            }
            Self::Reserved => "the driver reserves room in BAR1 besides all memory".to_owned(),
            Self::Size => "BAR1 of this board is hardly larger than its memory".to_owned(),
        }
    }

    fn remedy(&self, system: System) -> Option<String> {
        match self {
            Self::Reserved if matches!(system, System::Appliance) => Some(
                "set driver.parameters so that the registry keys are ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1, and boot again".to_owned(),
            ),
            Self::Console(_) => Some(
                "connect the screen to another display adapter, or release it: boot the appliance with firstlight.console.screen=release, another system with video=efifb:off".to_owned(),
            ),
            Self::Reserved => Some(system.module_options(
                "options nvidia NVreg_RegistryDwords=\"ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1\"",
            )),
            Self::Size => None,
        }
    }
}

/// Without a console only the mailboxes are before the map. The keys that leave these out differ by version, and 580
/// needs none.
fn misaligned_remedy(obstacles: &[MapObstacle], system: System) -> String {
    let newer = "use driver 580 or newer, which begins the map at a multiple of 512 MiB";
    let console = obstacles
        .iter()
        .find(|obstacle| matches!(obstacle, MapObstacle::Console(_)));
    match console.and_then(|console| console.remedy(system)) {
        Some(release) => format!("{release}; or {newer}"),
        None => newer.to_owned(),
    }
}

fn map_remedy(obstacles: &[MapObstacle], system: System, container: bool) -> String {
    let system = if container { System::Unknown } else { system };
    let help: Vec<_> = obstacles
        .iter()
        .filter_map(|obstacle| obstacle.remedy(system))
        .collect();
    if help.is_empty() {
        "do not expect peer-to-peer through BAR1 of this board".to_owned()
    } else {
        help.join("; ")
    }
}
