//! All findings, one row each, in the order of repair: what explains a code stands above it. `firstlight list --findings`
//! prints the table for `docs/findings.md`.

use super::code::{ByLoad, P2pEffect, Row, row};
use super::remedy;
use crate::test;
use Code::*;
use contract::recovery::Recovery;

macro_rules! codes {
    ($($name:ident = $row:expr;)*) => {
        /// Every finding that firstlight can make.
        #[expect(missing_docs, reason = "each row says what it means")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($name),* }

        impl Code {
            /// All codes, in the order of repair.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its row.
            #[must_use]
            pub const fn row(self) -> &'static Row {
                match self {
                    $(Self::$name => const { &$row }),*
                }
            }
        }
    };
}

/// Parts of the machine could not be read.
const UNREAD: &[Code] = &[FabricUnreadable, SysUnreadable, PciUnreadable];
/// A device does not answer.
const GONE: &[Code] = &[GpuGone, PciGone, RebarBroken];
/// The kernel or the boot entry is not the intended one.
const BOOT: &[Code] = &[ImageNone, ImageChanged, CmdlineOverridden, CmdlineMissing];
/// The kernel forbids writes.
const LOCKED: &[Code] = &[Lockdown];
/// The IOMMU changes or blocks addresses.
const IOMMU: &[Code] = &[IommuTranslating, IommuNotOff, IommuFault];
/// Peer traffic goes through the root complex.
const ACS: &[Code] = &[
    AcsQuirk,
    AcsKept,
    AcsStuck,
    AcsRefused,
    AcsUnknown,
    AcsReverted,
    AcsRedirect,
];
/// BAR1 was not enlarged.
const REBAR: &[Code] = &[
    RebarPreserved,
    RebarAbsent,
    RebarNoRoom,
    RebarIgnored,
    RebarBusy,
    RebarRefused,
];
/// No driver can run, or only parts of one.
const DRIVER: &[Code] = &[
    DriverForeign,
    DriverNoGpu,
    DriverMissing,
    DriverVermagic,
    DriverRefused,
    DriverMismatch,
    GspMissing,
    GpuNoGsp,
    GpuUnsupported,
    GpuNoIrq,
    GpuVbios,
    GpuInit,
    DriverTimeout,
    NvmlTimeout,
    DriverFailed,
    NodesMissing,
    CcUnsupported,
    NvswitchNoManager,
    Nvlink5NoNvlsm,
];
/// BAR1 cannot carry peer traffic.
const BAR1: &[Code] = &[
    Bar1Small,
    Bar1MapShort,
    Bar1MapMisaligned,
    DriverParameters,
    PatchMissing,
    PatchNotEffective,
    Bar1NotStatic,
    Bar1Witnesses,
];
/// What the kernel or the driver logged about a broken device.
const LOGGED: &[Code] = &[
    MachineCheck,
    GpuXid,
    NvswitchSxid,
    KernelFault,
    DriverFault,
    GpuNeedsRecovery,
];
/// CUDA cannot be used, or not on every GPU.
const CUDA: &[Code] = &[
    GpuMig,
    GpuComputeMode,
    CudaMissing,
    GpuCountCuda,
    KernelImage,
    CudaStart,
];
/// A GPU stores or computes wrongly on its own.
const WORN: &[Code] = &[GpuRemap, GpuEcc, GpuMemory, GpuArithmetic];
/// Other programs use the GPU.
const OTHERS: &[Code] = &[GpuInUse];
/// A link carries less than it should.
const LINKS: &[Code] = &[
    LinkNarrow,
    LinkSlow,
    PcieAer,
    GpuLinkLoad,
    NvLinkDown,
    NvLinkUnknown,
    NvlinkErrors,
];
/// Figures cannot be trusted.
const CLOCK: &[Code] = &[GpuClock, LinkContradicted];
/// Peer access is not available.
const NO_ACCESS: &[Code] = &[P2pUnsupported, PeersGrouped, P2pRefused, P2pWitnesses];
/// Data does not arrive, or does not arrive as it was sent.
const DELIVERY: &[Code] = &[P2pStray, P2pWrongData, P2pOrder, P2pHang, HostWrongData];
/// Data between GPUs is slow.
const SLOW: &[Code] = &[
    P2pStaged,
    P2pSlow,
    P2pAsymmetric,
    P2pCollapse,
    P2pBursts,
    HostSlow,
];

codes! {
    // The run.
    Interrupted = row("INTERRUPTED", "the run was ended from outside")
        .means("the run was ended from outside before this test had a result")
        .cause("SIGINT (Ctrl-C), SIGTERM or SIGHUP (its terminal was closed) was sent to `firstlight validate`")
        .remedy("run it again and let it finish; if a time limit ended it, raise that limit");
    ReportUnwritable = row("REPORT-UNWRITABLE", "the report could not be written")
        .means("the report could not be written, so this verdict cannot be read later")
        .cause("the file system is full or read-only, or the folder does not exist")
        .remedy("free space, or write to another file with --json FILE");
    FabricUnreadable = row("FABRIC-UNREADABLE", "the machine's PCI devices could not be read")
        .means("the machine's PCI devices, IOMMU or processors could not be read")
        .cause("sysfs is not mounted, the recording is incomplete, or the process lacks permission to read it")
        .remedy_for(remedy::unreadable)
        .ruled_out_by(&[&test::FABRIC]);
    PciUnreadable = row("PCI-UNREADABLE", "a file of a PCI function could not be read")
        .means("a file of a PCI function could not be read")
        .cause("firstlight does not run as root, or the recording of the machine lacks this file")
        .remedy_for(remedy::unreadable)
        .explained_by(&[&[FabricUnreadable]])
        .ruled_out_by(&[&test::FABRIC]);
    SysUnreadable = row("SYS-UNREADABLE", "a system file could not be read")
        .means("a system file that a test needs could not be read or parsed")
        .cause("the kernel lacks that interface, the recording is incomplete, or the process lacks permission")
        .remedy_for(remedy::unreadable)
        .explained_by(&[&[FabricUnreadable]]);
    KmsgUnreadable = row("KMSG-UNREADABLE", "the kernel log could not be read")
        .means("the kernel log could not be read, so faults that the kernel logged are not in this report")
        .cause("firstlight does not run as root, or the recording has no dev/kmsg")
        .remedy_for(remedy::log_unreadable)
        .explained_by(&[&[SysUnreadable]]);
    KmsgLost = row("KMSG-LOST", "records of the kernel log were lost")
        .of_machine()
        .means("records of the kernel log were lost; they may have contained a fault that is not in this report")
        .cause("something writes to the kernel log faster than it can be read")
        .remedy("find the source of the messages (`dmesg --follow`); boot with a larger log_buf_len");
    ResetDuring = row("RESET-DURING", "an earlier boot was reset during a step")
        .means("an earlier boot was reset during a step, so this step and everything that needs it are skipped; the cause names the step")
        .cause("the step hung or reset the machine; or the power was cut or the reset button pressed meanwhile")
        .remedy("read what the last finding says; then run `firstlight reset clear` or boot once with firstlight.reset=clear");
    RecoveryFailed = row("RECOVERY-FAILED", "GPUs could not be recovered")
        .of_machine()
        .means("GPUs no longer worked and could not be recovered; the cause names the last step that was tried")
        .cause("a process that cannot be killed, a module in use, or a GPU that does not answer after its resets")
        .remedy("{power}; see /run/firstlight/recovery.json for the steps");
    Recovered = row("RECOVERED", "the machine was rebooted to recover its GPUs")
        .of_machine()
        .means("GPUs no longer worked, and the machine was rebooted once to recover them; peer-to-peer has not been used since")
        .cause("the cause names the first finding; policy.recover = \"reboot\" allowed the reboot")
        .remedy("repair what that finding names; then run `firstlight reset clear` or boot once with firstlight.reset=clear");
    WatchdogNone = row("WATCHDOG-NONE", "no watchdog can be used")
        .of_machine()
        .means("the configuration demands a watchdog, but none can be used")
        .cause("the machine has none, the firmware switched it off, or its driver is not in the image")
        .remedy("switch the watchdog (TCO, WDT) on {firmware}, or set watchdog.mode = \"auto\"");
    // Devices.
    MachineCheck = row("MACHINE-CHECK", "a processor, memory or the chipset reported an error")
        .of_machine()
        .means("the processor, the memory controller or the chipset (by an NMI) reported an error during a test")
        .cause("the host memory, a processor, or a PCIe device that did not answer")
        .remedy("decode the lines with mcelog or rasdaemon; test the memory modules that they name");
    PcieAer = row("PCIE-AER", "its PCIe link has errors")
        .of_machine()
        .means("the kernel logged or counted a PCIe error during a test, or logged a severe one before the tests")
        .cause("a link with bit errors: card, riser, cable or slot")
        .remedy("{reseat} where the line is about a card, and run the tests again; check its link's speed and width")
        .earlier("its PCIe link had errors before the tests");
    GpuGone = row("GPU-GONE", "the GPU no longer answers")
        .of_machine()
        .means("a GPU no longer answers: its configuration space reads as all ones, or the driver reports that it fell off the bus")
        .cause("the GPU fell off the bus: power, heat, riser or slot")
        .remedy("reboot the machine; if that does not help, {power}; if it happens again, {reseat}, and check its power cables")
        .recovery(Recovery::RebootNode)
        .by_load(ByLoad::Never)
        .p2p(P2pEffect::Broken);
    PciGone = row("PCI-GONE", "the PCI function no longer answers")
        .of_machine()
        .means("a PCI function no longer answers: its configuration space reads as all ones")
        .cause("the device fell off the bus or lost power")
        .remedy("{power}; read the AER and link-down lines in `dmesg`")
        .explained_by(&[&[GpuGone]])
        .ruled_out_by(&[&test::FABRIC]);
    PciMalformed = row("PCI-MALFORMED", "its configuration space is inconsistent")
        .means("a function's configuration space is inconsistent")
        .cause("the device or its emulation is defective, or the recording is damaged")
        .remedy("compare with `lspci -xxxx{-s}`; {reseat}, or replace the device")
        .explained_by(&[&[GpuGone, PciGone]])
        .ruled_out_by(&[&test::FABRIC]);
    RebarBroken = row("REBAR-BROKEN", "its BAR addresses were lost")
        .of_machine()
        .means("a GPU's BAR registers and the kernel disagree, or its addresses were lost; do not use the GPU")
        .cause("resizing failed partway, or the GPU fell off the bus or was reset and lost its addresses")
        .remedy("{power}, and boot with firstlight.fabric.rebar=check")
        .explained_by(&[&[GpuGone, PciGone]]);
    GpuNone = row("GPU-NONE", "there is no NVIDIA GPU")
        .of_machine()
        .means("there is no NVIDIA GPU, but the configuration does not say that none is expected")
        .cause("no GPU is installed, or none answered when the firmware searched for devices")
        .cause_for(remedy::why_no_gpu)
        .remedy_for(remedy::no_gpu)
        .explained_by(&[UNREAD, GONE])
        .ruled_out_by(&[&test::GPUS]);
    GpuCount = row("GPU-COUNT", "the number of GPUs is not the expected one")
        .of_machine()
        .means("there are fewer or more NVIDIA GPUs than expected")
        .cause("a GPU is missing on the bus: power, seating, riser, or a slot that is switched off")
        .cause_for(remedy::why_no_gpu)
        .remedy_for(remedy::gpu_count)
        .explained_by(&[UNREAD, GONE, &[GpuNone]])
        .ruled_out_by(&[&test::GPUS]);
    GpuName = row("GPU-NAME", "the GPU is not of the expected model")
        .means("a GPU is not of the expected model")
        .cause("a card other than the configured one is installed")
        .remedy("replace the card, or correct expect.gpu_name")
        .explained_by(&[&[GpuCount]]);
    // The boot.
    ImageNone = row("IMAGE-NONE", "the running system is no firstlight image")
        .means("a golden image is expected, but the running system is not a firstlight image")
        .cause("expect.golden = true is set on a machine that runs another system")
        .remedy("boot firstlight's image, or remove expect.golden from the configuration")
        .ruled_out_by(&[&test::IMAGE]);
    ImageChanged = row("IMAGE-CHANGED", "the files of the running image were changed")
        .means("the files of the running image differ from the list that its build made")
        .cause("a file was appended to the initrd, or changed since the machine started")
        .remedy("boot the image as it was built; put settings into the kernel command line, the data partition or a server")
        .ruled_out_by(&[&test::IMAGE]);
    CmdlineOverridden = row("CMDLINE-OVERRIDDEN", "a later kernel word contradicts a required one")
        .of_machine()
        .means("a later word of the kernel command line contradicts a required one")
        .cause("the boot medium or the firmware adds its own words after the built-in ones")
        .remedy_for(remedy::contradicting_word)
        .ruled_out_by(&[&test::CMDLINE]);
    CmdlineMissing = row("CMDLINE-MISSING", "a required kernel word is missing")
        .of_machine()
        .means("a word that the configuration requires is missing from the kernel command line")
        .cause("a kernel or boot entry other than firstlight's was started")
        .remedy_for(remedy::missing_word)
        .explained_by(&[&[CmdlineOverridden, ImageNone]])
        .ruled_out_by(&[&test::CMDLINE]);
    CmdlineNoEffect = row("CMDLINE-NO-EFFECT", "a kernel word has no effect")
        .of_machine()
        .means("the kernel ignores a word of its command line about the IOMMU or PCI, because it does not know it")
        .cause("a misspelt word, a word that no kernel has, or one of a newer or a patched kernel")
        .remedy("remove the words, or those parts of words, that the message names, and do not rely on them; the remedies of the tests iommu and acs name words that this kernel knows");
    LockdownIgnored = row("LOCKDOWN-IGNORED", "the requested lockdown is not in force")
        .of_machine()
        .means("the kernel command line requests a lockdown that is not in force")
        .cause("the kernel was built without lockdown, as firstlight's own is, or securityfs is not mounted")
        .remedy("remove lockdown= from the kernel command line; a kernel with lockdown gives the finding LOCKDOWN instead");
    Lockdown = row("LOCKDOWN", "the kernel forbids writes to configuration space")
        .of_machine()
        .means("the kernel forbids writes to configuration space")
        .cause("the kernel is locked down, as it is under Secure Boot")
        .remedy_for(remedy::lockdown);
    CpusLost = row("CPUS-LOST", "processors are missing")
        .of_machine()
        .means("not all processors of the machine are in use")
        .cause("processors were taken offline, or the kernel could not start them")
        .remedy("read the kernel's lines about the missing processors: `dmesg`, search for x2apic and smpboot")
        .explained_by(&[&[CmdlineMissing, MachineCheck]])
        .ruled_out_by(&[&test::CPUS]);
    // A GPU that another driver holds may belong to a virtual machine: nothing else is said of it before that.
    DriverForeign = row("DRIVER-FOREIGN", "another driver is bound to the GPU")
        .of_machine()
        .means("a driver other than NVIDIA's is bound to a GPU, or is loaded and could bind to it")
        .cause("the kernel loaded another driver for the card, or the card is passed to a virtual machine")
        .remedy_for(remedy::foreign_driver)
        .ruled_out_by(&[&test::DRIVERS]);
    // IOMMU and ACS.
    IommuTranslating = row("IOMMU-TRANSLATING", "the IOMMU translates addresses")
        .of_machine()
        .means("an IOMMU translates DMA addresses, which breaks peer-to-peer between GPUs")
        .cause("the IOMMU is on in the firmware setup, and the kernel translates with it, which is the default of many kernels")
        .cause_for(remedy::why_translating)
        .remedy_for(remedy::no_translation)
        .explained_by(&[BOOT])
        .ruled_out_by(&[&test::IOMMU]);
    IommuNotOff = row("IOMMU-NOT-OFF", "the IOMMU is in use")
        .of_machine()
        .means("a source reports that an IOMMU is in use although it should be off")
        .cause("the kernel was started without iommu=off, or the firmware forces the IOMMU on")
        .remedy_for(remedy::iommu_off)
        .explained_by(&[BOOT, &[IommuTranslating]]);
    IommuUnknown = row("IOMMU-UNKNOWN", "the state of the IOMMU is unknown")
        .means("the state of the IOMMU could not be determined")
        .cause("sources are missing or contradict each other")
        .remedy("run `ls /sys/class/iommu /sys/kernel/iommu_groups`; for a recording, record the machine again with both")
        .explained_by(&[UNREAD]);
    IommuFault = row("IOMMU-FAULT", "the IOMMU blocked memory accesses")
        .of_machine()
        .means("the IOMMU blocked a device's memory access")
        .cause("a device used an address that was not mapped for it, as peer-to-peer through a translating IOMMU does")
        .remedy_for(remedy::blocked_access)
        .explained_by(&[&[IommuTranslating, IommuNotOff]])
        .earlier("the IOMMU blocked memory accesses before the tests");
    NoEcam = row("NO-ECAM", "only 256 bytes of configuration space can be read")
        .of_machine()
        .means("only the first 256 bytes of a function's configuration space can be read, so its ACS state is unknown")
        .cause("the kernel found no memory-mapped configuration space (ACPI table MCFG) for this bus")
        .remedy("update the machine's firmware; for a virtual machine choose a machine type with PCIe (q35)")
        .explained_by(&[&[PciUnreadable]]);
    AcsQuirk = row("ACS-QUIRK", "a chipset port has ACS of its own kind")
        .of_machine()
        .means("a port of an Intel chipset controls peer traffic in a non-standard way, so firstlight does not change it")
        .cause("these ports have ACS registers that do not follow the PCIe specification, or none")
        .remedy_for(remedy::acs_quirk);
    AcsKept = row("ACS-KEPT", "ACS was left on for another device")
        .of_machine()
        .means("a port's ACS was not changed, because a device below the port depends on it")
        .cause("a device is passed to a virtual machine, or is a ConnectX-8 Data Direct function")
        .remedy("take the device from its virtual machine (unbind its vfio driver, or remove its vGPU), or set fabric.acs = \"off\" to accept ACS as it is");
    AcsStuck = row("ACS-STUCK", "a port keeps its ACS bits")
        .of_machine()
        .means("a port kept its ACS control bits after zeros were written to them")
        .cause("the port ignores writes, or the firmware locked the register")
        .remedy("switch ACS off {firmware}; the option is named ACS, Access Control or IOMMU")
        .ruled_out_by(&[&test::ACS]);
    AcsRefused = row("ACS-REFUSED", "the kernel refused access to ACS")
        .of_machine()
        .means("the kernel did not allow access to a port's ACS control register")
        .cause("the kernel refused access to configuration space")
        .remedy("run as root on a kernel that is not locked down")
        .explained_by(&[LOCKED]);
    AcsUnknown = row("ACS-UNKNOWN", "the state of ACS is unknown")
        .means("a port is on a GPU path and its ACS state is unknown")
        .cause("the port's configuration space cannot be read or is malformed")
        .remedy("run `lspci -vvv{-s}` as root; if the port does not answer, {power}")
        .explained_by(&[UNREAD, GONE, &[NoEcam, PciMalformed]]);
    AcsReverted = row("ACS-REVERTED", "ACS redirection is on again")
        .of_machine()
        .means("a port's ACS redirection was off and is on again")
        .cause("something enabled ACS again: a reset, a rescan, a driver that bound, or management firmware")
        .remedy_for(remedy::acs_reverted)
        .ruled_out_by(&[&test::ACS]);
    AcsRedirect = row("ACS-REDIRECT", "ACS redirects peer traffic")
        .of_machine()
        .means("a port on a GPU path redirects peer traffic to the root complex instead of directly to the peer")
        .cause("the firmware or the kernel enabled ACS redirection and nothing disabled it")
        .cause_for(remedy::why_redirecting)
        .remedy_for(remedy::acs_redirect)
        .explained_by(&[BOOT, LOCKED, &[AcsQuirk, AcsKept, AcsStuck, AcsRefused, AcsReverted]])
        .ruled_out_by(&[&test::ACS]);
    AcsCleared = row("ACS-CLEARED", "ACS was switched off")
        .means("the fabric pass cleared ACS on ports of this machine; the message gives the ports and the values before and after")
        .cause("the firmware or the kernel had enabled ACS")
        .remedy("nothing to do; `firstlight fabric restore` restores the previous values");
    // BAR1.
    RebarPreserved = row("REBAR-PRESERVED", "the firmware forbids to move PCI resources")
        .of_machine()
        .means("a GPU's BAR1 was not resized because the firmware forbids the kernel to move PCI resources")
        .cause("the firmware requests this through the ACPI method _DSM, function 5")
        .remedy_for(remedy::rebar_in_firmware);
    RebarAbsent = row("REBAR-ABSENT", "the GPU offers no larger BAR1")
        .of_machine()
        .means("a GPU offers no larger size for its BAR1")
        .cause("the GPU has no Resizable BAR, or its VBIOS does not support it yet")
        .remedy_for(remedy::rebar_absent);
    RebarNoRoom = row("REBAR-NO-ROOM", "there is no bus address space for a full BAR1")
        .of_machine()
        .means("there is not enough bus address space for a GPU's largest BAR1; the message gives the sizes that were tried")
        .cause("the firmware gave the slot too little address space, or another device in use shares it")
        .remedy_for(remedy::no_room)
        .explained_by(&[&[RebarPreserved]]);
    RebarIgnored = row("REBAR-IGNORED", "the GPU ignores a new size of BAR1")
        .of_machine()
        .means("a GPU's BAR1 kept its size although another size was written")
        .cause("the GPU ignores writes to its Resizable BAR control register; a recorded machine ignores every write")
        .remedy_for(remedy::rebar_ignored);
    RebarBusy = row("REBAR-BUSY", "the GPU was in use when BAR1 was to be enlarged")
        .of_machine()
        .means("a GPU's BAR1 was not resized because the GPU is in use")
        .cause("a driver is bound to the GPU; BAR1 can only be resized before the driver is loaded")
        .remedy_for(remedy::busy);
    RebarRefused = row("REBAR-REFUSED", "the kernel refused to enlarge BAR1")
        .of_machine()
        .means("the kernel refused to resize a GPU's BAR1, for another reason than address space")
        .cause("the kernel is too old to have resource files for it, or firstlight lacks permission")
        .remedy_for(remedy::rebar_refused)
        .explained_by(&[LOCKED]);
    RebarResized = row("REBAR-RESIZED", "BAR1 was enlarged")
        .means("the fabric pass enlarged a GPU's BAR1; the message gives the size before and after")
        .cause("the firmware had left BAR1 small")
        .remedy("nothing to do; `firstlight fabric restore` restores the previous size");
    Bar1Small = row("BAR1-SMALL", "BAR1 does not cover the GPU's memory")
        .of_machine()
        .means("BAR1, the window into a GPU's memory, does not cover all of it; without Resizable BAR it has 256 MiB")
        .cause("Resizable BAR or \"Above 4G decoding\" is off in the firmware setup, or there was no address space for a larger BAR1")
        .remedy_for(remedy::small_bar1)
        .explained_by(&[REBAR, LOCKED])
        .ruled_out_by(&[&test::BAR1]);
    Bar1Unknown = row("BAR1-UNKNOWN", "whether BAR1 covers the GPU's memory is unknown")
        .means("the size of a GPU's memory is unknown, so it is unknown whether BAR1 covers it")
        .cause("no driver reports the memory, and the board is not in firstlight's table")
        .remedy("load NVIDIA's driver, then run `firstlight validate --only bar1,bar1-static`")
        .explained_by(&[&[Bar1Small]]);
    Bar1MapShort = row("BAR1-MAP-SHORT", "BAR1 has no room for the driver's map of all memory")
        .of_machine()
        .means("BAR1 is too small for the driver's map of all memory of a GPU, which peer-to-peer through BAR1 needs; the message says how many MiB are missing")
        .cause("BAR1 of this board is hardly larger than its memory, and a console or the driver's mailboxes take the first 512 MiB")
        .remedy("keep consoles off this GPU, and load the driver with `modprobe nvidia NVreg_RegistryDwords=\"ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1\"`")
        .explained_by(&[&[Bar1Small]]);
    Bar1MapMisaligned = row("BAR1-MAP-MISALIGNED", "the driver refuses peers where its map of memory begins")
        .of_machine()
        .means("the driver's map of all memory of a GPU does not begin at a multiple of 512 MiB, and the driver refuses peers there")
        .cause("up to version 575 the driver begins its map directly behind a console or its mailboxes, which take the first MiB of BAR1; a modified module may do so too")
        .remedy("keep consoles off the GPUs, which the test display names, and use a driver that begins its map at a multiple of 512 MiB, such as NVIDIA's 580 to 595")
        .explained_by(&[&[Bar1Small]]);
    Bar1MapUnknown = row("BAR1-MAP-UNKNOWN", "whether BAR1 has room for the driver's map is unknown")
        .means("it cannot be computed whether the driver's map of all memory of a GPU fits into BAR1")
        .cause("the board is not in firstlight's table, or the result depends on how much memory the driver keeps for itself")
        .remedy("load the driver, then run `firstlight validate --only bar1,bar1-static`")
        .explained_by(&[&[Bar1Small, Bar1Unknown]]);
    // The driver.
    DriverNoGpu = row("DRIVER-NO-GPU", "the NVIDIA module found no GPU")
        .means("the NVIDIA module was not loaded, because it found no GPU (ENODEV)")
        .cause("there is no NVIDIA GPU on the bus")
        .remedy("nothing to do if no GPU is expected; otherwise see GPU-NONE and GPU-COUNT")
        .explained_by(&[GONE, &[GpuNone]]);
    DriverMissing = row("DRIVER-MISSING", "a part of the NVIDIA driver is missing")
        .of_machine()
        .means("a part of the NVIDIA driver (image, module or library) is missing or cannot be read")
        .cause("the driver is not installed, or its libraries are in a folder that was not searched")
        .remedy_for(remedy::driver_missing)
        .ruled_out_by(&[&test::DRIVER]);
    DriverVermagic = row("DRIVER-VERMAGIC", "the NVIDIA module is for another kernel")
        .of_machine()
        .means("the NVIDIA module was built for a different kernel than the running one")
        .cause("kernel and driver come from different builds")
        .remedy_for(remedy::vermagic)
        .ruled_out_by(&[&test::DRIVER]);
    DriverRefused = row("DRIVER-REFUSED", "the kernel refused the NVIDIA module")
        .of_machine()
        .means("the kernel refused the NVIDIA module")
        .cause("the kernel is locked down, requires signed modules, or module loading is disabled")
        .remedy_for(remedy::module_refused)
        .explained_by(&[LOCKED]);
    DriverMismatch = row("DRIVER-MISMATCH", "parts of the NVIDIA driver differ in version")
        .of_machine()
        .means("parts of the NVIDIA driver have different versions, or the version is not the expected one")
        .cause("kernel modules, libraries and GPU firmware come from different installations")
        .remedy("install all parts in one version and reboot; if only expect.driver differs, correct it")
        .ruled_out_by(&[&test::DRIVER]);
    GspMissing = row("GSP-MISSING", "the GPU's firmware was not found")
        .of_machine()
        .means("the firmware for the GPU's system processor (GSP) was not found")
        .cause("the folder firmware/nvidia/VERSION for exactly this driver version is not where the kernel looks for firmware")
        .remedy_for(remedy::gsp_missing)
        .explained_by(&[&[DriverMissing]])
        .ruled_out_by(&[&test::DRIVER]);
    GpuNoGsp = row("GPU-NO-GSP", "the open NVIDIA module cannot drive the GPU")
        .of_machine()
        .means("the open NVIDIA module reports that a GPU has no system processor (GSP), so it cannot drive it")
        .cause("the GPU is older than Turing, or its registers cannot be read")
        .remedy("remove the GPU; if it is Turing or newer, {reseat}")
        .explained_by(&[GONE]);
    GpuUnsupported = row("GPU-UNSUPPORTED", "the loaded driver does not support the GPU")
        .of_machine()
        .means("NVIDIA's module says that it does not support a GPU: the GPU needs the module's other flavour (open or closed), or another release")
        .cause("the installed driver is of the other flavour, or is too old or too new for the GPU")
        .remedy_for(remedy::supporting_driver)
        .explained_by(&[GONE])
        .ruled_out_by(&[&test::DRIVER]);
    GpuNoIrq = row("GPU-NO-IRQ", "the driver got no interrupt for the GPU")
        .of_machine()
        .means("the NVIDIA driver got no interrupt for a GPU")
        .cause("the firmware assigned none, and message-signaled interrupts (MSI) are off")
        .remedy("remove pci=nomsi from the kernel command line if it is there; update the machine's firmware");
    GpuVbios = row("GPU-VBIOS", "the driver does not accept the GPU's VBIOS")
        .of_machine()
        .means("the NVIDIA driver does not accept a GPU's own firmware (VBIOS)")
        .cause("the VBIOS is damaged or modified, or the ROM cannot be read")
        .remedy("{power}; if it happens again, flash the card vendor's original VBIOS")
        .explained_by(&[GONE]);
    CcUnsupported = row("CC-UNSUPPORTED", "confidential computing limits the GPUs")
        .of_machine()
        .means("confidential computing keeps a GPU from starting, or firstlight claims nothing about peer-to-peer in the mode that is on")
        .cause("the modes of GPU and machine do not match, the kernel lacks cryptography, or nothing has declared the GPUs ready")
        .remedy("see `nvidia-smi conf-compute -q` and the driver's lines (NVRM) in `dmesg`; use the GPU in a machine of the same mode");
    GpuInit = row("GPU-INIT", "the driver could not start the GPU")
        .of_machine()
        .means("the NVIDIA driver could not start a GPU")
        .cause("the GPU or its firmware does not initialize; the codes in the kernel log line say at which step")
        .remedy("{power}; if it happens again, {slot}")
        .explained_by(&[GONE, &[IommuFault, RebarNoRoom, GspMissing, GpuNoGsp, GpuUnsupported, GpuVbios, GpuNoIrq, CcUnsupported]])
        .ruled_out_by(&[&test::DRIVER]);
    DriverTimeout = row("DRIVER-TIMEOUT", "the driver did not finish starting")
        .of_machine()
        .means("the NVIDIA driver did not finish starting within its time limit")
        .cause("a GPU or its firmware does not answer")
        .remedy("{power}; with many GPUs, raise driver.timeout_s")
        .explained_by(&[GONE, &[GpuInit]])
        .recovery(Recovery::ResetGpu);
    NvmlTimeout = row("NVML-TIMEOUT", "the driver's NVML does not answer")
        .of_machine()
        .means("NVML, the driver's management library, does not answer, so no test calls the driver")
        .cause("its calls wait in the kernel for a GPU or its firmware that does not respond")
        .remedy("look for processes in state D with `ps -eo stat,pid,wchan:32,comm` and for the driver's lines (NVRM) with `dmesg`; then {power}")
        .explained_by(&[GONE, &[GpuInit, DriverTimeout]])
        .recovery(Recovery::ResetGpu);
    DriverFailed = row("DRIVER-FAILED", "the NVIDIA driver could not be started")
        .of_machine()
        .means("the NVIDIA driver could not be started; see the kernel log lines")
        .cause("depends on the kernel log lines in the evidence")
        .remedy("read the evidence and `dmesg`; boot once with firstlight.driver.load=false to get the rest of the report")
        .explained_by(&[GONE, &[DriverForeign, DriverMissing, DriverVermagic, DriverRefused, DriverMismatch, GspMissing, GpuNoGsp, GpuUnsupported], &[GpuNoIrq, GpuVbios, CcUnsupported, GpuInit]])
        .ruled_out_by(&[&test::DRIVER]);
    DriverParameters = row("DRIVER-PARAMETERS", "a parameter of the module has another value")
        .of_machine()
        .means("a parameter of the NVIDIA module does not have the requested value")
        .cause("the module was loaded earlier with other parameters, or two GPU families want different values")
        .remedy("reboot, so that the module is loaded again; if two GPU families need different values, set the value in driver.parameters")
        .explained_by(&[BOOT, &[DriverFailed]])
        .ruled_out_by(&[&test::DRIVER_PARAMS]);
    NodesMissing = row("NODES-MISSING", "a device node of the driver is missing")
        .means("a device node of the NVIDIA driver is missing, or its device numbers are not the driver's")
        .cause("nothing created the nodes: on the appliance firstlight's init creates them, on a distribution nvidia-modprobe")
        .remedy_for(remedy::nodes_missing)
        .explained_by(&[&[DriverMissing, DriverVermagic, DriverRefused, DriverFailed, DriverTimeout]])
        .ruled_out_by(&[&test::NODES]);
    Nvlink5NoNvlsm = row("NVLINK5-NO-NVLSM", "the NVLink subnet manager does not run")
        .of_machine()
        .means("the machine has NVSwitches of NVLink 5 (B200, B300) but no running nvlsm, so the fabric manager and CUDA cannot start")
        .cause("nvlsm is not installed, it ended, or the modules ib_umad and mlx5_ib are not loaded")
        .remedy_for(remedy::nvlsm)
        .explained_by(&[&[DriverMissing, DriverMismatch, DriverFailed]]);
    NvswitchNoManager = row("NVSWITCH-NO-MANAGER", "the fabric manager does not run")
        .of_machine()
        .means("the machine has NVSwitches but no running fabric manager, so CUDA cannot start")
        .cause("the image was built without nv-fabricmanager, or its service does not run")
        .remedy_for(remedy::fabric_manager)
        .explained_by(&[&[DriverMissing, DriverMismatch, DriverFailed, Nvlink5NoNvlsm]]);
    NvlinkFabric = row("NVLINK-FABRIC", "a GPU is not a healthy member of the NVLink fabric")
        .of_machine()
        .means("a GPU has not joined the NVLink fabric of its NVSwitches, or the fabric says that it is not healthy; the message has its words")
        .cause("the fabric manager did not finish, or does not know this GPU; or a link, a route or a switch is broken although all links are up")
        .remedy_for(remedy::nvlink_fabric)
        .explained_by(&[GONE, &[NvswitchNoManager, Nvlink5NoNvlsm]])
        .ruled_out_by(&[&test::CUDA])
        .p2p(P2pEffect::Broken);
    NvlinkMultinode = row("NVLINK-MULTINODE", "NVLink to other machines was not tested")
        .means("the GPUs are members of an NVLink fabric over several machines (MNNVL), or IMEX is there: no test of one machine uses it; the message has the channels and what is known of the domain")
        .cause("a machine such as GB200 NVL72, whose NVLinks lead to other machines too")
        .remedy("run `nvidia-imex-ctl -N` for the state of the domain, and nccl-tests on several of these machines with NCCL_MNNVL_ENABLE=1");
    DisplayOnGpu = row("DISPLAY-ON-GPU", "a display is on the GPU")
        .of_machine()
        .means("a framebuffer is on an NVIDIA GPU and may slow down peer-to-peer in one direction")
        .cause("that GPU is the firmware's boot display")
        .remedy_for(remedy::display)
        .ruled_out_by(&[&test::DISPLAY]);
    PatchMissing = row("PATCH-MISSING", "the module lacks the peer-to-peer patch")
        .of_machine()
        .means("the loaded NVIDIA module does not have the expected peer-to-peer patch level")
        .cause("a different build of the module was loaded than the one in the image")
        .remedy("rebuild the image and boot it; make sure that no other NVIDIA module is loaded first")
        .explained_by(&[&[DriverMismatch, ImageChanged]])
        .ruled_out_by(&[&test::PATCH]);
    PatchNotEffective = row("PATCH-NOT-EFFECTIVE", "the peer-to-peer patch has no effect")
        .means("the kernel log contains the driver's message that peer-to-peer through BAR1 is enabled but does not work")
        .cause("the driver maps the peer's memory in a way that this GPU cannot use")
        .remedy("do not rely on peer-to-peer: set the policy workload-without-p2p, or use a driver with a working patch")
        .explained_by(&[&[PatchMissing, Bar1Small]])
        .ruled_out_by(&[&test::PATCH]);
    Bar1NotStatic = row("BAR1-NOT-STATIC", "the driver has not mapped all memory into BAR1")
        .means("the driver has not mapped all of a GPU's memory into BAR1, which peer-to-peer through BAR1 needs")
        .cause("BAR1 is too small, the GPU drives a display, or RMForceP2PType=2 is not among the registry keys")
        .remedy("see the results of the tests bar1, display and driver-params, which name the obstacle")
        .explained_by(&[&[Bar1Small, Bar1MapShort, DriverParameters, DisplayOnGpu, PatchMissing, PatchNotEffective]])
        .ruled_out_by(&[&test::BAR1_STATIC]);
    Bar1Witnesses = row("BAR1-WITNESSES", "the kernel log and NVML disagree about the driver's map")
        .of_machine()
        .means("the kernel log and NVML disagree on whether the driver has mapped all of a GPU's memory into BAR1")
        .cause("the line in the log is of an earlier start of the GPU, or the mapping was undone later")
        .remedy("unload and load the driver again (`rmmod nvidia_uvm nvidia`, `modprobe nvidia`) or reboot, then run `firstlight validate --only bar1-static,p2p-capability,p2p-integrity`")
        .explained_by(&[&[Bar1NotStatic]]);
    // The log.
    NvswitchSxid = row("NVSWITCH-SXID", "an NVSwitch reported an error")
        .means("the driver of the NVSwitches logged an SXid error")
        .cause("a fault of a link or a switch of the NVLink fabric")
        .remedy("look up the number in NVIDIA's fabric manager guide; if it is fatal, {power}");
    GpuXid = row("GPU-XID", "the driver logged an Xid error")
        .means("the NVIDIA driver logged an Xid error")
        .cause("depends on the number: hardware, driver or program")
        .remedy("look up the number in NVIDIA's list of Xid errors")
        .explained_by(&[GONE, IOMMU, &[PcieAer, NvswitchSxid]])
        .ruled_out_by(&[&test::XID])
        .by_load(ByLoad::Never);
    KernelFault = row("KERNEL-FAULT", "the kernel had a fault of its own")
        .of_machine()
        .means("the kernel reported a fault of its own during a test: a hung task, a lockup, an oops")
        .cause("a driver or a device that does not answer; the lines name the task and the function")
        .remedy("read the kernel log lines in the evidence; update the driver that they name; reboot")
        .explained_by(&[GONE, &[PcieAer, MachineCheck, GpuXid]]);
    DriverFault = row("DRIVER-FAULT", "the NVIDIA driver had an internal error")
        .means("the NVIDIA driver or the GPU's firmware (GSP) reported an internal error during a test")
        .cause("a GPU that does not answer, or an error in the driver; the line names the function")
        .remedy("{power}; if it happens again, update the driver and report its lines to NVIDIA")
        .explained_by(&[GONE, &[Bar1MapMisaligned, PcieAer, GpuXid]]);
    KernelTainted = row("KERNEL-TAINTED", "the kernel is tainted")
        .of_machine()
        .means("the kernel has marked itself as tainted by more than NVIDIA's modules, or its taint flags could not be read")
        .cause("a fault of the kernel or the hardware since the machine started, or a module that was loaded by force")
        .remedy("read the kernel log (`dmesg`) for the fault that set the flag, and reboot: flags stay until then")
        .explained_by(&[&[MachineCheck, KernelFault, DriverFault]]);
    GpuNeedsRecovery = row("GPU-NEEDS-RECOVERY", "the GPU must be recovered")
        .means("the driver says that a GPU must be recovered before it can be used, or does not report whether it must")
        .cause("an error before or during the tests, after which the GPU does not work, or only in part")
        .remedy("find the action with `nvidia-smi -q` (GPU Recovery Action), and {power}")
        .explained_by(&[GONE, &[GpuXid, NvswitchSxid, DriverFault]])
        .by_load(ByLoad::Never);
    // A single GPU.
    GpuMig = row("GPU-MIG", "the GPU is split into MIG instances")
        .means("a GPU is split into MIG instances, which have no peer-to-peer, so it cannot be tested as one GPU")
        .cause("MIG is switched on")
        .remedy("end the programs that use it, then run `nvidia-smi -i {gpu} -mig 0` and `nvidia-smi -i {gpu} --gpu-reset`")
        .ruled_out_by(&[&test::CUDA]);
    GpuComputeMode = row("GPU-COMPUTE-MODE", "its compute mode admits too few processes")
        .means("a GPU accepts only one process or none, so it cannot be tested")
        .cause("its compute mode is EXCLUSIVE_PROCESS or PROHIBITED")
        .remedy("run `nvidia-smi -c DEFAULT`")
        .ruled_out_by(&[&test::CUDA]);
    CudaMissing = row("CUDA-MISSING", "the driver's libraries could not be loaded")
        .means("a library of the NVIDIA driver, or a function of it that the GPU tests need, could not be loaded")
        .cause("the driver's libraries are not in the loader's search path, or are older than these tests need")
        .remedy("install the driver's libcuda and libnvidia-ml, and set validate.library_path to their folder")
        .explained_by(&[&[DriverMissing, DriverMismatch]])
        .ruled_out_by(&[&test::CUDA]);
    GpuCountCuda = row("GPU-COUNT-CUDA", "CUDA does not see the same GPUs as the driver")
        .means("CUDA does not see the same GPUs as the driver")
        .cause("a GPU failed to start, CUDA_VISIBLE_DEVICES or a container hides one, or a GPU is split (MIG)")
        .remedy("compare `nvidia-smi -L` with `lspci -d 10de:`; run outside containers, with MIG off")
        .explained_by(&[GONE, DRIVER, &[GpuMig]])
        .ruled_out_by(&[&test::CUDA])
        .after_loss();
    GpuWitnesses = row("GPU-WITNESSES", "NVML, CUDA and the kernel disagree about the GPUs")
        .means("NVML, CUDA and the kernel module disagree about the driver's version, the list of GPUs or a GPU's UUID; the message names both")
        .cause("a library of another driver, or one that is put in front of the driver's, or a container that shows only some GPUs to one of them")
        .remedy("compare `nvidia-smi -L` with /proc/driver/nvidia/gpus/*/information; check LD_PRELOAD, LD_LIBRARY_PATH and validate.library_path")
        .explained_by(&[DRIVER, &[GpuMig, GpuCountCuda]]);
    KernelImage = row("KERNEL-IMAGE", "no GPU kernel of firstlight fits the GPU")
        .means("none of firstlight's built-in GPU kernels fits a GPU, or the driver rejected the one that fits")
        .cause("the GPU is older than Turing, or the driver cannot compile the PTX for it (libnvidia-ptxjitcompiler missing)")
        .remedy("install the driver's PTX compiler library; GPUs older than Turing are not supported")
        .explained_by(&[&[DriverMissing]]);
    GpuRemap = row("GPU-REMAP", "the GPU has bad memory")
        .of_machine()
        .means("a GPU has bad memory: a row or page remapping is pending, has failed, or happened during a test")
        .cause("GPU memory with uncorrectable errors or many corrected errors")
        .remedy("reset the GPU (`nvidia-smi -i {gpu} --gpu-reset`) or reboot; replace a GPU whose remapping failed");
    GpuEcc = row("GPU-ECC", "the GPU counted memory errors")
        .means("a GPU counted memory errors during a test; uncorrected errors fail, corrected errors warn")
        .cause("failing GPU memory, or heat")
        .remedy("run the tests again; replace a GPU if the errors return")
        .explained_by(&[&[GpuRemap]])
        .ruled_out_by(&[&test::GPU_MEMORY])
        .by_load(ByLoad::Never);
    GpuInUse = row("GPU-IN-USE", "other programs use the GPU")
        .means("other programs use a GPU: its figures may be too low, and a test that fails on it for lack of time or memory cannot be judged")
        .cause("the program named in the message, or one in another container, has memory allocated on the GPU")
        .remedy("end the program (`nvidia-smi` lists them) and run the tests again")
        .after_loss();
    CudaStart = row("CUDA-START", "CUDA did not start")
        .means("CUDA did not start: cuInit failed, or no context could be created on a GPU")
        .cause("the kernel module and the library differ in version, device nodes are missing, or a GPU is in a bad state")
        .remedy("see the tests driver, nodes and xid, and run `nvidia-smi`; {power}")
        .explained_by(&[GONE, DRIVER, LOGGED, &[NvlinkFabric, GpuMig, GpuComputeMode, CudaMissing, GpuCountCuda]])
        .ruled_out_by(&[&test::CUDA])
        .after_loss()
        .p2p(P2pEffect::Broken);
    GpuThrottled = row("GPU-THROTTLED", "the GPU lowered its clocks")
        .of_machine()
        .means("a GPU lowered its clocks during a test")
        .cause("heat, the power limit, or the power supply's brake signal; the message names the reason")
        .remedy("{on host}check fans, air flow, power cables and the power limit (`nvidia-smi -q -d PERFORMANCE`)")
        .explained_by(&[&[GpuInUse]])
        .ruled_out_by(&[&test::GPU_POWER])
        .by_load(ByLoad::Possible);
    GpuMemory = row("GPU-MEMORY", "the GPU's own memory changed")
        .means("words of a GPU's own memory changed, with no other GPU involved")
        .cause("failing GPU memory, overclocked memory, or heat")
        .remedy("{on host}return memory clocks to their defaults and run again; replace the card if it happens again")
        .explained_by(&[&[GpuRemap, GpuEcc]])
        .ruled_out_by(&[&test::GPU_MEMORY]);
    GpuArithmetic = row("GPU-ARITHMETIC", "the GPU calculates wrongly")
        .means("a GPU calculated a wrong number: the sum of exact integer products is not the one that the processor calculates")
        .cause("a failing multiprocessor, overclocking, or a power supply that does not hold under load")
        .remedy("{on host}return clocks and voltages to their defaults, check the power cables and run again; replace the card if it happens again")
        .explained_by(&[&[GpuEcc, GpuMemory]])
        .ruled_out_by(&[&test::GPU_PRODUCTS]);
    GpuClock = row("GPU-CLOCK", "the GPU's clock disagrees with the host's")
        .means("a GPU's clock and the host's clock disagree, so times measured on the GPU are meaningless")
        .cause("a wrong clock on the GPU or the host, or a library that intercepts calls to the driver")
        .remedy("compare with the figures of another program; check LD_PRELOAD and look for wrappers of libcuda");
    // Links.
    LinkNarrow = row("LINK-NARROW", "its PCIe link uses too few lanes")
        .of_machine()
        .means("a PCIe link uses fewer lanes than both its ends support, or, as information, than the device has, because its port has no more")
        .cause("a badly seated card, riser or cable, or a slot that shares its lanes")
        .remedy("{reseat}; check the slot's number of lanes in the board's manual")
        .explained_by(&[&[PcieAer]])
        .ruled_out_by(&[&test::LINKS]);
    LinkSlow = row("LINK-SLOW", "its PCIe link is slow at rest")
        .of_machine()
        .means("a PCIe link runs slower than both its ends support")
        .cause("link training fell back (riser, cable), or the firmware limits the speed; idle GPUs also reduce the speed")
        .remedy("set the slot's speed to the highest value or Auto {firmware}; try without the riser")
        .explained_by(&[&[PcieAer]]);
    LinkDisagrees = row("LINK-DISAGREES", "sysfs and registers disagree about a link")
        .means("sysfs and the registers disagree about a link")
        .cause("the link retrained between two reads, or the recording is inconsistent")
        .remedy("run `firstlight fabric show` again; if the link keeps changing, {on host}replace the riser or use another slot")
        .explained_by(&[&[LinkNarrow, LinkSlow, PcieAer]]);
    GpuLinkLoad = row("GPU-LINK-LOAD", "its PCIe link stays narrow or slow under load")
        .of_machine()
        .means("a GPU's link stays narrower or slower under load than both its ends support")
        .cause("link training fell back (riser, cable, slot), or the firmware limits the speed")
        .remedy("{reseat}; set the slot's speed to the highest value {firmware}")
        .explained_by(&[&[LinkNarrow, LinkSlow, LinkDisagrees, PcieAer]])
        .p2p(P2pEffect::Slow);
    LinkContradicted = row("LINK-CONTRADICTED", "NVML and the kernel disagree about its link")
        .means("NVML, the kernel and the measured speed disagree about a PCIe link under load")
        .cause("NVML, the kernel or the ports of a virtual machine report wrong link data")
        .remedy("compare `nvidia-smi -q -d PERFORMANCE,PCIE` under load with `lspci -vv`; firstlight expects the faster of the two")
        .explained_by(&[&[LinkDisagrees]]);
    NvLinkDown = row("NVLINK-DOWN", "NVLinks are down")
        .means("NVLinks of a GPU are down, or it has fewer of them than other GPUs of its model")
        .cause("a link that failed to train, a fabric manager that is not running, or a defective GPU or switch")
        .remedy("run `nvidia-smi nvlink -s` and read the kernel's Xid lines; start the fabric manager; {power}")
        .explained_by(&[&[NvswitchNoManager, NvswitchSxid]])
        .p2p(P2pEffect::Slow);
    NvLinkUnknown = row("NVLINK-UNKNOWN", "the state of the NVLinks is unknown")
        .means("NVML does not report whether a GPU's NVLinks are up")
        .cause("the GPU or the driver is in a bad state, or NVML and the kernel module are of different versions")
        .remedy("run `nvidia-smi nvlink -s`; {power}")
        .explained_by(&[DRIVER, LOGGED]);
    NvlinkErrors = row("NVLINK-ERRORS", "its NVLinks counted errors")
        .of_machine()
        .means("while a test ran, NVLinks of a GPU sent packets again or were trained again, or one of them had far more CRC errors for each GiB than the other links of the machine; or, as information, that NVML does not count them")
        .cause("a dirty or loose connector of a baseboard, bridge or cable, or a failing GPU or switch; a few CRC errors are normal on each link, and corrected")
        .remedy("compare `nvidia-smi nvlink -e` before and after load; if the same link counts again, {on host}reseat the GPU, bridge or cable, or have it replaced")
        .explained_by(&[&[NvswitchSxid, GpuXid]]);
    // Peer access.
    P2pMixed = row("P2P-MIXED", "boards of two generations give each other no access")
        .means("two GPUs are of different generations, between which the NVIDIA driver gives no peer access on any machine")
        .cause("NVIDIA's libcuda refuses most pairs of different generations, such as RTX 4090 and RTX 3090")
        .remedy("nothing to do if such pairs need no peer access: list the GPUs that do with `--set 'expect.peers=[[0,1],[2]]'`; otherwise use boards of one generation");
    P2pUnpredicted = row("P2P-UNPREDICTED", "the driver reports access that it is not known to give")
        .means("CUDA and NVML report peer access that this driver version, with these registry keys, is not known to give between these GPUs")
        .cause("a module with a patch that is not firstlight's, with which data may arrive, or registry keys for another version, with which none arrives")
        .remedy("run `firstlight validate --only p2p-capability,p2p-integrity,p2p-order`, and trust peer access only if data arrives")
        .explained_by(&[DRIVER]);
    P2pUnsupported = row("P2P-UNSUPPORTED", "the driver refuses it")
        .means("the driver reports that one GPU cannot access another GPU's memory")
        .cause("a driver without peer-to-peer for these GPUs (GeForce needs the patched module), or a topology that the driver rejects")
        .remedy_for(remedy::unsupported)
        .explained_by(&[BAR1, DRIVER, &[NvlinkFabric, P2pMixed]])
        .ruled_out_by(&[&test::P2P_CAPABILITY])
        .p2p(P2pEffect::Broken);
    PeersGrouped = row("PEERS-GROUPED", "the driver allows it within groups only")
        .means("GPUs have peer access within groups but not between them; the message lists the groups")
        .cause("bridges that connect only some GPUs, or a topology across which the driver offers no peer access")
        .remedy("if this is intended, set expect.peers to these groups; otherwise see the status in the evidence")
        .explained_by(&[DRIVER])
        .ruled_out_by(&[&test::P2P_CAPABILITY]);
    P2pRefused = row("P2P-REFUSED", "it cannot be enabled")
        .means("enabling peer access failed although the driver reports that it is possible")
        .cause("BAR1 is too small, one GPU has too many peers, or the patch is not effective")
        .remedy("see the results of the tests bar1, bar1-static and patch")
        .explained_by(&[BAR1, IOMMU, LOGGED, OTHERS, &[P2pUnsupported]])
        .ruled_out_by(&[&test::P2P_CAPABILITY])
        .p2p(P2pEffect::Broken);
    P2pWitnesses = row("P2P-WITNESSES", "CUDA, NVML and an attempt disagree about it")
        .means("CUDA, NVML and an actual attempt disagree on whether a pair of GPUs has peer access")
        .cause("libraries and kernel module of different versions; the message says which of the three is wrong")
        .remedy("install all parts of the driver in one version; NCCL relies on NVML, frameworks rely on CUDA")
        .explained_by(&[DRIVER, BAR1, &[P2pUnsupported, P2pRefused]])
        .p2p(P2pEffect::Broken);
    // Delivery.
    P2pChecker = row("P2P-CHECKER", "the check itself is wrong")
        .means("the check itself is wrong: it accepted wrong data, or rejected correct data")
        .cause("a GPU that computes or stores wrongly by itself, or a fault in firstlight")
        .remedy("run the tests again; if it is always the same GPU, test its memory; otherwise report the fault")
        .explained_by(&[WORN, LOGGED])
        .after_loss();
    CudaSticky = row("CUDA-STICKY", "a CUDA error destroyed the context")
        .means("a CUDA error destroyed the context, so every later call in that process fails")
        .cause("a GPU accessed an address that was not mapped for it, or had a hardware fault")
        .remedy("read the kernel's Xid lines of that moment; if it happens again, {power}")
        .explained_by(&[GONE, IOMMU, LOGGED, WORN])
        .p2p(P2pEffect::Broken);
    CudaError = row("CUDA-ERROR", "a CUDA call failed")
        .means("a CUDA call failed during a test")
        .cause("depends on the call and its error, which the message gives")
        .remedy("read the kernel log lines in the report (test xid); run only this test again by its id, with `firstlight validate --only`")
        .explained_by(&[GONE, DRIVER, LOGGED, WORN, OTHERS, &[CudaSticky, CudaStart, P2pRefused]])
        .after_loss();
    P2pStray = row("P2P-STRAY", "data is written to a wrong place")
        .means("data of one pair of GPUs was written to a wrong place: a third GPU, the source, or next to the target")
        .cause("the addresses that the driver assigned to the GPUs overlap or are shifted")
        .remedy("do not use peer-to-peer on this machine: it can overwrite the memory of any program")
        .explained_by(&[IOMMU, BAR1, WORN])
        .ruled_out_by(&[&test::P2P_INTEGRITY, &test::P2P_REACH])
        .by_load(ByLoad::Never)
        .p2p(P2pEffect::Broken);
    P2pWrongData = row("P2P-WRONG-DATA", "data arrives wrong")
        .means("data sent from one GPU to another arrived corrupted")
        .cause("writes go to other addresses than the driver assumes: an IOMMU, ACS, BAR1, or an unsuitable driver patch")
        .remedy("do not use peer-to-peer on this machine; see the results of the tests iommu, acs, bar1-static and patch")
        .explained_by(&[IOMMU, ACS, BAR1, WORN, LOGGED, &[PcieAer, P2pChecker, P2pStray, DisplayOnGpu]])
        .ruled_out_by(&[&test::P2P_INTEGRITY, &test::P2P_PROCESSES, &test::P2P_REACH, &test::P2P_ALLREDUCE, &test::P2P_SOAK])
        .by_load(ByLoad::Never)
        .p2p(P2pEffect::Broken);
    P2pOrder = row("P2P-ORDER", "flags arrive before their data")
        .means("a flag arrived at the peer before the data that was written before it")
        .cause("the path reorders writes, or a cache is not flushed")
        .remedy("do not use programs whose GPU kernels signal each other through peer memory, such as NCCL, on this machine")
        .explained_by(&[ACS, &[P2pStray, P2pWrongData]])
        .ruled_out_by(&[&test::P2P_ORDER])
        .by_load(ByLoad::Never)
        .p2p(P2pEffect::Broken);
    P2pHang = row("P2P-HANG", "operations do not finish")
        .means("an operation between two GPUs did not finish")
        .cause("requests to the peer get no answer: ACS, an IOMMU, or a GPU that fell off the bus")
        .remedy("read the kernel's Xid and AER lines; before you try again, {power}")
        .explained_by(&[GONE, IOMMU, ACS, BAR1, LOGGED, &[PcieAer, CudaSticky, P2pStray, P2pWrongData, P2pOrder]])
        .recovery(Recovery::ResetGpu)
        .by_load(ByLoad::Possible)
        .p2p(P2pEffect::Broken);
    P2pAtomics = row("P2P-ATOMICS", "atomic operations lose updates")
        .means("atomic operations on a peer's memory lose updates although the driver reports support for them")
        .cause("a switch or root port on the path does not support PCIe atomics, or the driver reports support wrongly")
        .remedy("do not use system-scope atomics between these GPUs; update the driver")
        .explained_by(&[&[P2pStray, P2pWrongData]])
        .by_load(ByLoad::Never)
        .p2p(P2pEffect::Broken);
    HostWrongData = row("HOST-WRONG-DATA", "data to and from host memory arrives wrong")
        .means("data copied from a GPU to host memory and back was corrupted")
        .cause("host memory without working error correction, a link with undetected errors, or an IOMMU that maps addresses wrongly")
        .remedy("test the host memory, and see the results of the tests iommu and xid")
        .explained_by(&[IOMMU, WORN, LOGGED, &[PcieAer]])
        .ruled_out_by(&[&test::HOST_BANDWIDTH])
        .by_load(ByLoad::Never);
    // Speed.
    P2pStaged = row("P2P-STAGED", "copies go through host memory")
        .means("copies between two GPUs go through host memory although peer access is enabled")
        .cause("the driver has no working peer-to-peer and silently copies through host memory")
        .remedy("use a driver with working peer-to-peer; see the results of the tests patch and p2p-capability")
        .explained_by(&[NO_ACCESS])
        .ruled_out_by(&[&test::P2P_BANDWIDTH])
        .by_load(ByLoad::Possible)
        .p2p(P2pEffect::Slow);
    P2pDetour = row("P2P-DETOUR", "data takes another path than the driver names")
        .of_machine()
        .means("the driver says that NVLinks carry the data of two GPUs, and the GPUs did not count it there; or they counted it although the driver names PCIe")
        .cause("NVLinks or routes that the driver does not use, or a driver or library that reports another path than it takes")
        .remedy("compare `nvidia-smi topo -m` and `nvidia-smi nvlink -s` with the kernel's log, and `nvidia-smi nvlink -gt d` before and after a copy; {power}")
        .explained_by(&[&[NvlinkFabric, NvLinkDown, NvLinkUnknown, P2pStaged]]);
    P2pSlow = row("P2P-SLOW", "slower than its links allow")
        .means("a pair of GPUs is slower than the narrowest link between them allows")
        .cause("a link that trained down under load, traffic that takes a detour, or a congested link between sockets")
        .remedy("check the links of both GPUs under load (`lspci -vv`), the test acs, and other traffic on the path")
        .explained_by(&[ACS, IOMMU, LINKS, OTHERS, &[DisplayOnGpu, GpuThrottled, GpuClock, P2pStaged]])
        .ruled_out_by(&[&test::P2P_BANDWIDTH])
        .by_load(ByLoad::Possible)
        .p2p(P2pEffect::Slow);
    SpeedImpossible = row("SPEED-IMPOSSIBLE", "a speed is higher than the links can carry")
        .means("a measured speed is higher than the links between the two ends can carry")
        .cause("a wrong clock, data that was not moved, or links that are not visible (such as NVLinks in some virtual machines)")
        .remedy("see GPU-CLOCK; compare with the figures of another program and with `nvidia-smi topo -m`")
        .explained_by(&[CLOCK, &[NvLinkUnknown]]);
    P2pNoisy = row("P2P-NOISY", "a speed could not be measured reliably")
        .means("a speed could not be measured reliably; its samples still scatter after repetition")
        .cause("other traffic on the machine, changing clocks, or a link that retrains")
        .remedy("run on an idle machine; check clocks and throttle reasons in the report")
        .explained_by(&[LINKS, OTHERS, &[GpuThrottled, GpuClock]])
        .after_loss()
        .by_load(ByLoad::Possible);
    P2pAsymmetric = row("P2P-ASYMMETRIC", "fast in one direction and slow in the other")
        .means("a pair of GPUs is fast in one direction and slow in the other")
        .cause("a display in the GPU's BAR1, a link with errors in one direction, or different read and write paths")
        .remedy("see the results of the tests display, xid and acs; swap the two cards to see whether the fault moves with the card")
        .explained_by(&[ACS, LINKS, OTHERS, &[DisplayOnGpu, GpuThrottled, GpuClock, P2pStaged, P2pSlow]])
        .ruled_out_by(&[&test::P2P_BANDWIDTH])
        .by_load(ByLoad::Possible)
        .p2p(P2pEffect::Slow);
    P2pBursts = row("P2P-BURSTS", "some samples are far slower than others")
        .means("some samples of peer bandwidth are far slower than the typical sample")
        .cause("a link that retrains or replays packets, clocks that drop for a moment, or other traffic")
        .remedy("check the table bandwidth.spread, the replay counters and throttle reasons; run on an idle machine")
        .explained_by(&[LINKS, OTHERS, &[GpuThrottled, P2pSlow]])
        .p2p(P2pEffect::Slow);
    P2pLatency = row("P2P-LATENCY", "small copies take too long")
        .of_machine()
        .means("a small copy between two GPUs takes longer than peer access should take")
        .cause("copies through host memory, a link in a power-saving state (ASPM), or a processor in a deep sleep state")
        .remedy("switch ASPM and deep C-states off {firmware}; see P2P-STAGED")
        .explained_by(&[ACS, IOMMU, LINKS, OTHERS, &[GpuThrottled, GpuClock, P2pStaged, P2pSlow]])
        .ruled_out_by(&[&test::P2P_LATENCY])
        .by_load(ByLoad::Possible)
        .p2p(P2pEffect::Slow);
    P2pCollapse = row("P2P-COLLAPSE", "all pairs together move far less data")
        .means("all pairs together move far less data than the links that they share can carry")
        .cause("a PCIe switch whose buffers or arbitration perform badly under many-to-many traffic")
        .remedy("update the switch's firmware, or distribute the GPUs over more switches or root ports")
        .explained_by(&[ACS, LINKS, OTHERS, &[GpuThrottled, P2pStaged, P2pSlow]])
        .ruled_out_by(&[&test::P2P_TOGETHER])
        .by_load(ByLoad::Possible)
        .p2p(P2pEffect::Slow);
    HostSlow = row("HOST-SLOW", "transfers with host memory are slow")
        .means("transfers between a GPU and host memory are slower than the GPU's link allows")
        .cause("the link is narrower under load, memory of another NUMA node is used, or too few memory channels are populated")
        .remedy("check the GPU's link under load (`lspci -vv -s {gpu}`) and the installed memory modules")
        .explained_by(&[IOMMU, LINKS, OTHERS, &[GpuThrottled, GpuClock]])
        .ruled_out_by(&[&test::HOST_BANDWIDTH])
        .by_load(ByLoad::Possible);
    P2pNotRun = row("P2P-NOT-RUN", "a pattern of transfers was not run")
        .means("a pattern of simultaneous transfers was not run, so it is not proven")
        .cause("it needs more simultaneous peers than a GPU can have, or a pair has no peer access")
        .remedy("nothing to do if the GPUs are limited to eight peers; otherwise see the test p2p-capability")
        .explained_by(&[NO_ACCESS]);
    // NCCL.
    NcclMissing = row("NCCL-MISSING", "NCCL could not be loaded")
        .means("NCCL, or a function of it that these tests need, could not be loaded")
        .cause("libnccl.so.2 is not in the loader's search path, or is older than these tests need")
        .remedy("name the file of an NCCL from 2.19 on by --nccl FILE (validate.nccl), as one in the evidence or of a framework's wheel; or install one")
        .ruled_out_by(&[&test::NCCL]);
    NcclSettings = row("NCCL-SETTINGS", "NCCL has settings of the site")
        .means("NCCL was tested with settings that do not come from firstlight, or its file has lines that do not do what they seem to")
        .cause("/etc/nccl.conf sets them for every program: NCCL reads it even where NCCL_CONF_FILE names another file or the home directory has one")
        .remedy("remove them unless they are intended: the measured figures include their effect; write each as `variable=value` without blanks, quotation marks or a remark behind it, and each variable once");
    NcclUnforbidden = row("NCCL-UNFORBIDDEN", "NCCL ignores its settings")
        .means("NCCL connects GPUs although peer-to-peer, shared memory and network are all disabled")
        .cause("NCCL ignores its settings: a library between firstlight and NCCL, or a settings file, changes them")
        .remedy("look for another library named libnccl.so.2 and for nccl.conf; until then NCCL's transport is unproven")
        .explained_by(&[&[NcclSettings]]);
    NcclNoTransport = row("NCCL-NO-TRANSPORT", "NCCL does not use peer-to-peer")
        .means("NCCL cannot connect the GPUs when shared memory and network are disabled: it does not use peer-to-peer")
        .cause("NCCL or NVML refuses peer-to-peer between some GPUs, though CUDA may allow it")
        .remedy("see the results of the tests p2p-capability and acs; NCCL relies on NVML's peer-to-peer status")
        .explained_by(&[BAR1, NO_ACCESS, &[NcclSettings]])
        .ruled_out_by(&[&test::NCCL]);
    NvlsUntested = row("NVLS-UNTESTED", "NVLink SHARP was not tested")
        .means("NCCL can use NVLink SHARP (NVLS) between these GPUs, but the tests ran without it; the workload's NCCL decides by itself whether to use it")
        .cause("the tests run with NCCL_NVLS_ENABLE=0 unless validate.nvls is set, because multicast that goes wrong can take GPUs out of service")
        .remedy("set validate.nvls = true to test it, while nobody else uses the machine; set NCCL_NVLS_ENABLE=0 to forbid it")
        .ruled_out_by(&[&test::NCCL_NVLS]);
    NcclTransport = row("NCCL-TRANSPORT", "NCCL uses another transport")
        .means("NCCL's log names another transport than the one under test")
        .cause("NCCL fell back to shared memory or the network without an error")
        .remedy("see the evidence and the test p2p-capability; check whether /etc/nccl.conf disables peer-to-peer")
        .explained_by(&[NO_ACCESS, &[NcclSettings, NcclNoTransport]])
        .ruled_out_by(&[&test::NCCL]);
    NcclDiagnostics = row("NCCL-DIAGNOSTICS", "NCCL's own diagnostics found something")
        .means("NCCL (2.31 and newer) tests each pair of GPUs by itself when it connects them, and says that data between some was wrong; or, as information, that it could not test them")
        .cause("a fault that the other tests name too; if they pass, a fault that comes and goes, or one of NCCL's diagnostics")
        .remedy("see NCCL's lines in the evidence; if no other test names the pair, run `firstlight validate --level full`, and the workload once with NCCL_RUN_DIAGNOSTICS=1")
        .explained_by(&[ACS, IOMMU, NO_ACCESS]);
    NcclUnproven = row("NCCL-UNPROVEN", "NCCL's log does not show its transport")
        .means("NCCL's log does not say which transport it used")
        .cause("an NCCL version whose log has another format, or whose log is empty")
        .remedy("report the NCCL version and the evidence")
        .explained_by(&[&[NcclMissing, NcclUnforbidden]])
        .after_loss();
    NcclStray = row("NCCL-STRAY", "NCCL changes memory beside its buffers")
        .means("memory directly before or behind a buffer was changed while a collective used the buffer")
        .cause("NCCL writes more than it was asked to, or data of another GPU or program goes to wrong addresses")
        .remedy("do not train on this machine; see the results of the tests p2p-integrity and p2p-reach; use another version of NCCL")
        .explained_by(&[WORN, DELIVERY])
        .by_load(ByLoad::Never);
    NcclWrongData = row("NCCL-WRONG-DATA", "collectives return wrong values")
        .means("a collective returned wrong values")
        .cause("data between the GPUs is lost, late or corrupted on its way")
        .remedy("do not train on this machine; see the results of the tests p2p-integrity, p2p-order and xid")
        .explained_by(&[WORN, LOGGED, DELIVERY, &[NcclStray]])
        .ruled_out_by(&[&test::NCCL_COLLECTIVE, &test::NCCL_TYPES, &test::NCCL_CALLS, &test::NCCL_PROCESSES])
        .by_load(ByLoad::Never);
    NcclHang = row("NCCL-HANG", "NCCL does not finish")
        .means("NCCL did not finish starting, or did not finish a collective")
        .cause("one GPU waits for data that never arrives: peer-to-peer that does not deliver flags, or a GPU that stopped")
        .remedy("read the kernel's Xid lines and the evidence, which names the ranks that did not answer; {power}")
        .explained_by(&[GONE, LOGGED, DELIVERY, &[CudaSticky, GpuComputeMode]])
        .recovery(Recovery::ResetGpu)
        .by_load(ByLoad::Possible);
    NcclError = row("NCCL-ERROR", "an NCCL call failed")
        .means("an NCCL call failed")
        .cause("depends on the call and its error, which the message gives, and on NCCL's log lines in the evidence")
        .remedy("read NCCL's log lines in the evidence; run only this test again by its id, with `firstlight validate --only`")
        .explained_by(&[GONE, LOGGED, CUDA, OTHERS, DELIVERY, NO_ACCESS, &[CudaSticky, CudaError, NcclMissing]])
        .after_loss();
    NcclSlow = row("NCCL-SLOW", "collectives are slow")
        .means("a collective takes longer than the links, the latency, or the neighboring sizes and placements allow")
        .cause("one slow GPU or link, too few channels, or NCCL uses another path than the best ring, such as host memory")
        .remedy("see p2p-bandwidth for the slowest pair, the links and clocks, and NCCL's rings in the evidence")
        .explained_by(&[ACS, IOMMU, LINKS, OTHERS, SLOW, &[GpuThrottled, NcclUnforbidden, NcclNoTransport, NcclTransport]])
        .ruled_out_by(&[&test::NCCL_ALLREDUCE, &test::NCCL_CHANNELS])
        .by_load(ByLoad::Possible);
    NcclP2pSlower = row("NCCL-P2P-SLOWER", "collectives are faster without peer-to-peer")
        .means("large collectives are slower with peer-to-peer than without it")
        .cause("peer traffic takes a slower path than host memory: ACS redirection, or a congested link")
        .remedy("see the results of the tests acs and p2p-bandwidth; until then run the workload with NCCL_P2P_DISABLE=1")
        .explained_by(&[ACS, LINKS, OTHERS, SLOW, &[NcclSlow]])
        .ruled_out_by(&[&test::NCCL_ALLREDUCE])
        .by_load(ByLoad::Possible);
    NcclUnjudged = row("NCCL-UNJUDGED", "the speed of collectives was not judged")
        .means("the speed of collectives could not be compared with the speed of the links")
        .cause("the speeds between the GPUs were not measured in this run, or not all GPUs have peer access to each other")
        .remedy("run the test p2p-bandwidth as well; firstlight expects nothing between groups of GPUs")
        .explained_by(&[CLOCK, NO_ACCESS, SLOW, &[SpeedImpossible, P2pNoisy]]);
    // Network cards.
    NicPort = row("NIC-PORT", "a port of a network card is not active")
        .means("a port of an RDMA device is not ACTIVE, so it cannot be used; harmless if the port is meant to be unused")
        .cause("no cable, or the interface or the other end is down; with a link but no ACTIVE state, no subnet manager (InfiniBand)")
        .remedy("connect the cable and set the port's network interface up (`ip link`); on InfiniBand with a link, start `opensm` on one node of the network")
        .ruled_out_by(&[&test::NICS]);
    NicNarrow = row("NIC-NARROW", "an InfiniBand port uses too few lanes")
        .means("an InfiniBand port runs on fewer than its four lanes")
        .cause("a damaged cable or transceiver, or a switch port that is split in two")
        .remedy("clean or replace the cable; if the switch port is split on purpose, there is nothing to do");
    NicSlot = row("NIC-SLOT", "a network card is faster than its slot")
        .means("a port of a network card is faster than the PCIe link of the card")
        .cause("the slot has fewer lanes or a lower speed than the card, or the link trained lower")
        .remedy_for(remedy::nic_slot)
        .explained_by(&[&[LinkNarrow, LinkSlow]]);
    NicNoGid = row("NIC-NO-GID", "a port has no RoCE v2 address")
        .means("an ACTIVE Ethernet port has no RoCE v2 address on IPv4, which NCCL looks for")
        .cause("its network interface has no IPv4 address")
        .remedy("give the port's network interface an address on every node (`ip addr add`); do not set NCCL_IB_GID_INDEX, because the index changes")
        .explained_by(&[&[NicPort]]);
    GdrUnsupported = row("GDR-UNSUPPORTED", "the GPU does not support GPUDirect RDMA")
        .means("the driver does not support GPUDirect RDMA (network cards that access GPU memory directly) on this GPU")
        .cause("NVIDIA supports it on workstation and data-center GPUs, not on GeForce or integrated GPUs")
        .remedy("nothing to do: NCCL sends the data of such a GPU through host memory")
        .ruled_out_by(&[&test::GDR]);
    GdrNoWay = row("GDR-NO-WAY", "no module offers GPUDirect RDMA")
        .of_machine()
        .means("a GPU supports GPUDirect RDMA, but neither dma-buf nor the module nvidia_peermem is available for it")
        .cause("NVIDIA's closed module does not support dma-buf, and nvidia_peermem is not loaded")
        .remedy("install NVIDIA's open modules, or run `modprobe nvidia-peermem`, which needs the RDMA stack of DOCA or MLNX OFED")
        .explained_by(&[&[DriverMissing]])
        .ruled_out_by(&[&test::GDR]);
    // Tests without a result.
    GpuUncounted = row("GPU-UNCOUNTED", "memory errors are not counted")
        .of_machine()
        .means("NVML does not report a GPU's memory errors, so the counters cannot rule them out")
        .cause("the GPU has no ECC (such as GeForce cards), ECC is off, or NVML does not answer")
        .remedy("nothing to do on a GPU without ECC; otherwise switch it on with `nvidia-smi -e 1` and reboot")
        .explained_by(&[GONE, DRIVER, CUDA]);
    ExpectUnchecked = row("EXPECT-UNCHECKED", "something that is expected was not checked")
        .means("the configuration expects something that could not be checked")
        .cause("the NVIDIA driver is not loaded, or the test that checks it did not run")
        .remedy("load the driver and run the test, or remove the key from [expect]")
        .explained_by(&[DRIVER, CUDA, NO_ACCESS, &[FabricUnreadable]]);
    TestCrashed = row("TEST-CRASHED", "the process of a test died")
        .means("the process that ran a test died or returned no usable result")
        .cause("a fault in firstlight or in a library that it loaded")
        .remedy("keep the report with its last log lines and report the fault")
        .explained_by(&[GONE, LOGGED, WORN, &[CudaSticky]])
        .after_loss();
    TestTimeout = row("TEST-TIMEOUT", "a test did not finish")
        .means("a test did not finish within its time limit")
        .cause("the kernel or a device does not answer a read")
        .remedy("check the kernel log for the device; on a very slow machine, raise validate.timeout_s")
        .explained_by(&[GONE, LOGGED, DELIVERY, &[GpuInit, NcclHang]])
        .after_loss()
        .by_load(ByLoad::Possible);
    TestNotRun = row("TEST-NOT-RUN", "a mandatory test was not run")
        .means("a mandatory test was not run, so the machine is not proven")
        .cause("it was skipped by --skip or the configuration")
        .remedy("run `firstlight validate` without --skip, and leave validate.only and validate.skip empty");
    ScopeUnproven = row("SCOPE-UNPROVEN", "nothing is proven")
        .means("no test within the scope of the verdict could run, so nothing is proven")
        .cause("the machine is a recording, whose GPUs are not in this computer, or its GPUs have no driver")
        .remedy("run on the machine itself with its driver; `firstlight validate --scope fabric` needs no GPU")
        .explained_by(&[DRIVER, CUDA, &[FabricUnreadable, GpuNone]]);
    // Against a baseline.
    BaselineMissing = row("BASELINE-MISSING", "a figure of the baseline is missing")
        .means("a figure of the baseline was not measured, or the baseline cannot be compared with this machine")
        .cause("a test did not run or gave no result; or the baseline is of another kind of machine or cannot be read")
        .remedy("see the test's own findings; run all tests at the level of the baseline, or save a baseline of this machine")
        .explained_by(&[GONE, DRIVER, CUDA, NO_ACCESS, LOGGED]);
    BaselineChanged = row("BASELINE-CHANGED", "the machine is not as in its baseline")
        .means("the machine or its software differs from the baseline, or its verdict is worse; the message says what")
        .cause("an update, another boot entry, other settings of the firmware, or an exchanged part")
        .remedy("check that the change is intended; if it is, save the baseline again");
    BaselineDrift = row("BASELINE-DRIFT", "a figure is worse than in the baseline")
        .means("a figure is worse than the baseline by more than its tolerance; the message has both figures")
        .cause("a change of the machine, its firmware or its software since the baseline was saved, or another load")
        .remedy("see what changed in the finding BASELINE-CHANGED; if the new figure is the right one, save the baseline again")
        .explained_by(&[ACS, IOMMU, LINKS, OTHERS, SLOW, NO_ACCESS, &[GpuThrottled, BaselineChanged]]);
    // Between nodes; those findings are not in the report of a machine.
    NodesUnreached = row("NODES-UNREACHED", "the leading node cannot be reached")
        .means("this node could not reach the leading node, or should lead and could not listen")
        .cause("that node is off, was not started in time or has already ended; a firewall; or nodes.rendezvous is not its address")
        .remedy("start all nodes within nodes.timeout_s; check the address and the port with `nc -vz` while the other node waits");
    NodesToken = row("NODES-TOKEN", "a node has another token")
        .means("a node has another token than the leading node, so it was rejected")
        .cause("nodes.token differs, the node belongs to another group, or another program tries to join without the token")
        .remedy("give all nodes of the group the same nodes.token");
    NodesTwice = row("NODES-TWICE", "a node joined twice")
        .means("the same node, or the same rank, joined twice; the second one was rejected")
        .cause("the command was started twice on one machine, or two machines have the same rank")
        .remedy("start it once on each machine; to use one machine as several nodes, give each its own GPUs and NCCL_HOSTID");
    NodesMany = row("NODES-MANY", "more nodes than nodes.size")
        .means("more nodes announce themselves or join than nodes.size says; the node that detects this, or that is named, does not take part")
        .cause("nodes.size is too small, the command was started more often than once on a machine, or two groups share a token")
        .remedy("set nodes.size to the number of nodes; give each group its own nodes.token");
    NodesAbsent = row("NODES-ABSENT", "not all nodes joined")
        .means("not all nodes joined in time; the message names those that did")
        .cause("a node is off, was started late, has another token, or cannot reach the address")
        .remedy("see what the missing node itself says; start all nodes within nodes.timeout_s; check nodes.size")
        .explained_by(&[&[NodesUnreached, NodesToken, NodesTwice]]);
    NodesDiffer = row("NODES-DIFFER", "two nodes differ in their software")
        .means("two nodes differ in the version of the image, firstlight, the driver or NCCL")
        .cause("one of them was not updated")
        .remedy("start the same image on all nodes, or install the same versions");
    NodesLost = row("NODES-LOST", "a node vanished")
        .means("a node vanished in the middle of a test, did not answer in time, or sent an invalid message")
        .cause("the node or its program was stopped, its machine, a cable or the network failed, or something changes its messages")
        .remedy("see that node's own output and console; run the test again");
    NodesBad = row("NODES-BAD", "a node, port, switch or rail is at fault")
        .means("a node, port, leaf switch or rail is slow, delivers wrong data or does not answer, while its partners work well with each other")
        .cause("the named part or its cable")
        .remedy("run `firstlight validate` on the node; then change the cable, the card or the port of the switch, and measure again");
    NodesPortErrors = row("NODES-PORT-ERRORS", "an RDMA port counts errors of its link or lost packets")
        .means("an error counter of an RDMA port rose while the tests ran, or could not be read")
        .cause("a bad cable, transceiver or connector; a link that went down; packets that a switch dropped, because the network is not lossless")
        .remedy("clean or exchange the cable and the transceiver; for lost packets check flow control (PFC) and ECN on the switches; then measure again");
    NodesRail = row("NODES-RAIL", "a rail carries nearly none of its share")
        .means("a rail carried nearly none of the data that it should, by the counters of its port, or its port has no byte counters")
        .cause("NCCL or the kernel uses another port: two ports in one network without a route for each, a port that is far from every GPU, or a slower one; or counters that do not advance")
        .remedy("see `firstlight topo` and `ip route get`; give each rail a network of its own or network.mode = link-local; a port that is meant for other traffic is reported too, and is left out of the workload's NCCL_IB_HCA")
        .explained_by(&[&[NodesBad, NodesPortErrors]]);
    RdmaData = row("RDMA-DATA", "RDMA delivers wrong bytes")
        .means("an RDMA write or read between two nodes left wrong bytes in memory")
        .cause("data is lost, late or corrupted on the way: the card, its memory, its slot, the cable or the switch")
        .remedy("do not use this port; see the error counters of the card under /sys/class/infiniband (hw_counters), and run `firstlight rdma` with another card or cable");
    RdmaError = row("RDMA-ERROR", "RDMA does not work between two nodes")
        .means("an RDMA port could not be opened or connected, or a transfer was not completed")
        .cause("the port's address changed, two cables are swapped or the other port is in another network, a firewall or switch drops UDP port 4791 (RoCE), libibverbs lacks the card's provider, or the limit of locked memory is too low")
        .remedy("check the link with `ping`, the port with `ibv_devinfo`, and `ulimit -l`; the message says which step failed on which node")
        .explained_by(&[&[NodesLost]]);
    NodesWrongData = row("NODES-WRONG-DATA", "a collective over nodes returns wrong values")
        .means("a collective over several nodes returned wrong values")
        .cause("data is lost, late or corrupted between the nodes, or between the GPUs of the node in the message")
        .remedy("do not train on these nodes; run `firstlight validate` on the node in the message, and see its network card's error counters")
        .explained_by(&[&[NodesBad, RdmaData]]);
    NodesPath = row("NODES-PATH", "NCCL uses another network than the one under test")
        .means("between nodes NCCL uses another network than the one under test, or its log does not say which")
        .cause("NCCL does not find the RDMA ports or cannot use GPUDirect RDMA, and falls back without an error")
        .remedy("see the evidence for the ranks, and the tests nics and gpudirect of `firstlight validate` on their nodes")
        .explained_by(&[&[NodesDiffer]]);
    RdmaSlow = row("RDMA-SLOW", "RDMA between nodes is slow")
        .means("RDMA between two nodes is slower than the ports and their slots can do, or slower to GPU memory than to host memory")
        .cause("a slot with fewer lanes, a small MTU, congestion, ACS that redirects traffic between card and GPU, or a GPU far from the card")
        .remedy("see `firstlight topo` and the tests nics, gpudirect and acs of `firstlight validate` on both nodes; set the MTU of both ports to 4096 or more");
    NodesGdrStaged = row("NODES-GDR-STAGED", "GPUDirect RDMA goes through host memory")
        .means("NCCL says that it uses GPUDirect RDMA, but it is no faster than through the host's memory")
        .cause("the card and the GPU are far apart in the machine, ACS redirects their traffic, or the data is staged after all")
        .remedy("see `firstlight topo` for the card that is next to each GPU, and the tests acs and gpudirect");
    NodesUnclear = row("NODES-UNCLEAR", "a fault between nodes has several possible places")
        .means("a fault between nodes has several possible places, or did not occur again in a second attempt")
        .cause("too few nodes to compare with, or parts that share a switch")
        .remedy("measure again with more nodes, or exchange one of the candidates and measure again");
}
