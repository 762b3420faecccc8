//! The places of findings about the run, the machine, its fabric and NVIDIA's driver.

use super::{Place, place};
use crate::outcome::finding::Code::{self, *};

/// Parts of the machine could not be read.
const UNREAD: &[Code] = &[FabricUnreadable, SysUnreadable, PciUnreadable];
/// A device does not answer.
pub(super) const GONE: &[Code] = &[GpuGone, PciGone, RebarBroken];
/// The kernel or the boot entry is not the intended one.
const BOOT: &[Code] = &[ImageNone, ImageChanged, CmdlineOverridden, CmdlineMissing];
/// The kernel forbids writes.
const LOCKED: &[Code] = &[Lockdown];
/// The IOMMU changes or blocks addresses.
pub(super) const IOMMU: &[Code] = &[IommuTranslating, IommuNotOff, IommuFault];
/// Peer traffic goes through the root complex.
pub(super) const ACS: &[Code] =
    &[AcsQuirk, AcsKept, AcsStuck, AcsRefused, AcsUnknown, AcsReverted, AcsRedirect];
/// BAR1 was not enlarged.
const REBAR: &[Code] = &[RebarPreserved, RebarAbsent, RebarNoRoom, RebarIgnored, RebarBusy, RebarRefused];
/// No driver can run, or only parts of one.
pub(super) const DRIVER: &[Code] = &[
    DriverForeign,
    DriverNoGpu,
    DriverMissing,
    DriverVermagic,
    DriverRefused,
    DriverMismatch,
    GspMissing,
    GpuNoGsp,
    GpuNoIrq,
    GpuVbios,
    GpuInit,
    DriverTimeout,
    NvmlTimeout,
    DriverFailed,
    NodesMissing,
    NvswitchNoManager,
];
/// BAR1 cannot carry peer traffic.
pub(super) const BAR1: &[Code] = &[
    Bar1Small,
    Bar1MapShort,
    DriverParameters,
    PatchMissing,
    PatchNotEffective,
    Bar1NotStatic,
    Bar1Witnesses,
];
/// What the kernel or the driver logged about a broken device.
pub(super) const LOGGED: &[Code] =
    &[MachineCheck, GpuXid, NvswitchSxid, KernelFault, DriverFault, GpuNeedsRecovery];

/// The first part of the table.
pub(super) const PLACES: &[Place] = &[
    // The run.
    place(Interrupted, "the run was ended from outside", &[]),
    place(ReportUnwritable, "the report could not be written", &[]),
    place(FabricUnreadable, "the machine's PCI devices could not be read", &[]),
    place(PciUnreadable, "a file of a PCI function could not be read", &[&[FabricUnreadable]]),
    place(SysUnreadable, "a system file could not be read", &[&[FabricUnreadable]]),
    place(KmsgUnreadable, "the kernel log could not be read", &[&[SysUnreadable]]),
    place(KmsgLost, "records of the kernel log were lost", &[]),
    place(ResetDuring, "an earlier boot was reset during a step", &[]),
    place(RecoveryFailed, "GPUs could not be recovered", &[]),
    place(Recovered, "the machine was rebooted to recover its GPUs", &[]),
    place(WatchdogNone, "no watchdog can be used", &[]),
    // Devices.
    place(MachineCheck, "a processor, memory or the chipset reported an error", &[]),
    place(PcieAer, "its PCIe link has errors", &[]),
    place(GpuGone, "the GPU no longer answers", &[]),
    place(PciGone, "the PCI function no longer answers", &[&[GpuGone]]),
    place(PciMalformed, "its configuration space is inconsistent", &[&[GpuGone, PciGone]]),
    place(RebarBroken, "its BAR addresses were lost", &[&[GpuGone, PciGone]]),
    place(GpuNone, "there is no NVIDIA GPU", &[UNREAD, GONE]),
    place(GpuCount, "the number of GPUs is not the expected one", &[UNREAD, GONE, &[GpuNone]]),
    place(GpuName, "the GPU is not of the expected model", &[&[GpuCount]]),
    // The boot.
    place(ImageNone, "the running system is no firstlight image", &[]),
    place(ImageChanged, "the files of the running image were changed", &[]),
    place(CmdlineOverridden, "a later kernel word contradicts a required one", &[]),
    place(CmdlineMissing, "a required kernel word is missing", &[&[CmdlineOverridden, ImageNone]]),
    place(LockdownIgnored, "the requested lockdown is not in force", &[]),
    place(Lockdown, "the kernel forbids writes to configuration space", &[]),
    place(CpusLost, "processors are missing", &[&[CmdlineMissing, MachineCheck]]),
    // IOMMU and ACS.
    place(IommuTranslating, "the IOMMU translates addresses", &[BOOT]),
    place(IommuNotOff, "the IOMMU is in use", &[BOOT, &[IommuTranslating]]),
    place(IommuUnknown, "the state of the IOMMU is unknown", &[UNREAD]),
    place(IommuFault, "the IOMMU blocked memory accesses", &[&[IommuTranslating, IommuNotOff]]),
    place(NoEcam, "only 256 bytes of configuration space can be read", &[&[PciUnreadable]]),
    place(AcsQuirk, "a chipset port has ACS of its own kind", &[]),
    place(AcsKept, "ACS was left on for another device", &[]),
    place(AcsStuck, "a port keeps its ACS bits", &[]),
    place(AcsRefused, "the kernel refused access to ACS", &[LOCKED]),
    place(AcsUnknown, "the state of ACS is unknown", &[UNREAD, GONE, &[NoEcam, PciMalformed]]),
    place(AcsReverted, "ACS redirection is on again", &[]),
    place(
        AcsRedirect,
        "ACS redirects peer traffic",
        &[BOOT, LOCKED, &[AcsQuirk, AcsKept, AcsStuck, AcsRefused, AcsReverted]],
    ),
    place(AcsCleared, "ACS was switched off", &[]),
    // BAR1.
    place(RebarPreserved, "the firmware forbids to move PCI resources", &[]),
    place(RebarAbsent, "the GPU has no Resizable BAR", &[]),
    place(RebarNoRoom, "there is no bus address space for a full BAR1", &[&[RebarPreserved]]),
    place(RebarIgnored, "the GPU ignores a new size of BAR1", &[]),
    place(RebarBusy, "the GPU was in use when BAR1 was to be enlarged", &[]),
    place(RebarRefused, "the kernel refused to enlarge BAR1", &[LOCKED]),
    place(RebarResized, "BAR1 was enlarged", &[]),
    place(Bar1Small, "BAR1 does not cover the GPU's memory", &[REBAR, LOCKED]),
    place(Bar1MapShort, "BAR1 has no room for the driver's map of all memory", &[&[Bar1Small]]),
    place(Bar1MapUnknown, "whether BAR1 has room for the driver's map is unknown", &[&[Bar1Small]]),
    // The driver.
    place(DriverForeign, "another driver is bound to the GPU", &[]),
    place(DriverNoGpu, "the NVIDIA module found no GPU", &[GONE, &[GpuNone]]),
    place(DriverMissing, "a part of the NVIDIA driver is missing", &[]),
    place(DriverVermagic, "the NVIDIA module is for another kernel", &[]),
    place(DriverRefused, "the kernel refused the NVIDIA module", &[LOCKED]),
    place(DriverMismatch, "parts of the NVIDIA driver differ in version", &[]),
    place(GspMissing, "the GPU's firmware was not found", &[&[DriverMissing]]),
    place(GpuNoGsp, "the open NVIDIA module cannot drive the GPU", &[GONE]),
    place(GpuNoIrq, "the driver got no interrupt for the GPU", &[]),
    place(GpuVbios, "the driver does not accept the GPU's VBIOS", &[GONE]),
    place(GpuInit, "the driver could not start the GPU", &[GONE, IOMMU, &[GspMissing, GpuVbios, GpuNoIrq]]),
    place(DriverTimeout, "the driver did not finish starting", &[GONE, &[GpuInit]]),
    place(NvmlTimeout, "the driver's NVML does not answer", &[GONE, &[GpuInit, DriverTimeout]]),
    place(
        DriverFailed,
        "the NVIDIA driver could not be started",
        &[
            GONE,
            &[
                DriverForeign,
                DriverMissing,
                DriverVermagic,
                DriverRefused,
                DriverMismatch,
                GspMissing,
                GpuNoGsp,
            ],
            &[GpuNoIrq, GpuVbios, GpuInit],
        ],
    ),
    place(DriverParameters, "a parameter of the module has another value", &[BOOT, &[DriverFailed]]),
    place(
        NodesMissing,
        "a device node of the driver is missing",
        &[&[DriverMissing, DriverVermagic, DriverRefused, DriverFailed, DriverTimeout]],
    ),
    place(
        NvswitchNoManager,
        "the fabric manager does not run",
        &[&[DriverMissing, DriverMismatch, DriverFailed]],
    ),
    place(DisplayOnGpu, "a display is on the GPU", &[]),
    place(PatchMissing, "the module lacks the peer-to-peer patch", &[&[DriverMismatch, ImageChanged]]),
    place(PatchNotEffective, "the peer-to-peer patch has no effect", &[&[PatchMissing, Bar1Small]]),
    place(
        Bar1NotStatic,
        "the driver has not mapped all memory into BAR1",
        &[&[Bar1Small, Bar1MapShort, DriverParameters, DisplayOnGpu, PatchMissing, PatchNotEffective]],
    ),
    place(Bar1Witnesses, "the kernel log and NVML disagree about the driver's map", &[&[Bar1NotStatic]]),
    // The log.
    place(NvswitchSxid, "an NVSwitch reported an error", &[]),
    place(GpuXid, "the driver logged an Xid error", &[GONE, IOMMU, &[PcieAer, NvswitchSxid]]),
    place(KernelFault, "the kernel had a fault of its own", &[GONE, &[PcieAer, MachineCheck, GpuXid]]),
    place(DriverFault, "the NVIDIA driver had an internal error", &[GONE, &[PcieAer, GpuXid]]),
    place(KernelTainted, "the kernel is tainted", &[&[MachineCheck, KernelFault, DriverFault]]),
    place(GpuNeedsRecovery, "the GPU must be recovered", &[GONE, &[GpuXid, NvswitchSxid, DriverFault]]),
];
