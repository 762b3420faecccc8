//! The entries for findings about the run, the machine, its fabric and NVIDIA's driver.

use super::{CauseEntry, entry};
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
pub(super) const ACS: &[Code] = &[AcsQuirk, AcsKept, AcsStuck, AcsRefused, AcsUnknown, AcsReverted, AcsRedirect];
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
pub(super) const BAR1: &[Code] =
    &[Bar1Small, Bar1MapShort, DriverParameters, PatchMissing, PatchNotEffective, Bar1NotStatic, Bar1Witnesses];
/// What the kernel or the driver logged about a broken device.
pub(super) const LOGGED: &[Code] = &[MachineCheck, GpuXid, NvswitchSxid, KernelFault, DriverFault, GpuNeedsRecovery];

/// The first part of the table.
pub(super) const ENTRIES: &[CauseEntry] = &[
    // The run.
    entry(Interrupted, "the run was ended from outside", &[]),
    entry(ReportUnwritable, "the report could not be written", &[]),
    entry(FabricUnreadable, "the machine's PCI devices could not be read", &[]),
    entry(PciUnreadable, "a file of a PCI function could not be read", &[&[FabricUnreadable]]),
    entry(SysUnreadable, "a system file could not be read", &[&[FabricUnreadable]]),
    entry(KmsgUnreadable, "the kernel log could not be read", &[&[SysUnreadable]]),
    entry(KmsgLost, "records of the kernel log were lost", &[]),
    entry(ResetDuring, "an earlier boot was reset during a step", &[]),
    entry(RecoveryFailed, "GPUs could not be recovered", &[]),
    entry(Recovered, "the machine was rebooted to recover its GPUs", &[]),
    entry(WatchdogNone, "no watchdog can be used", &[]),
    // Devices.
    entry(MachineCheck, "a processor, memory or the chipset reported an error", &[]),
    entry(PcieAer, "its PCIe link has errors", &[]),
    entry(GpuGone, "the GPU no longer answers", &[]),
    entry(PciGone, "the PCI function no longer answers", &[&[GpuGone]]),
    entry(PciMalformed, "its configuration space is inconsistent", &[&[GpuGone, PciGone]]),
    entry(RebarBroken, "its BAR addresses were lost", &[&[GpuGone, PciGone]]),
    entry(GpuNone, "there is no NVIDIA GPU", &[UNREAD, GONE]),
    entry(GpuCount, "the number of GPUs is not the expected one", &[UNREAD, GONE, &[GpuNone]]),
    entry(GpuName, "the GPU is not of the expected model", &[&[GpuCount]]),
    // The boot.
    entry(ImageNone, "the running system is no firstlight image", &[]),
    entry(ImageChanged, "the files of the running image were changed", &[]),
    entry(CmdlineOverridden, "a later kernel word contradicts a required one", &[]),
    entry(CmdlineMissing, "a required kernel word is missing", &[&[CmdlineOverridden, ImageNone]]),
    entry(CmdlineNoEffect, "a kernel word has no effect", &[]),
    entry(LockdownIgnored, "the requested lockdown is not in force", &[]),
    entry(Lockdown, "the kernel forbids writes to configuration space", &[]),
    entry(CpusLost, "processors are missing", &[&[CmdlineMissing, MachineCheck]]),
    // IOMMU and ACS.
    entry(IommuTranslating, "the IOMMU translates addresses", &[BOOT]),
    entry(IommuNotOff, "the IOMMU is in use", &[BOOT, &[IommuTranslating]]),
    entry(IommuUnknown, "the state of the IOMMU is unknown", &[UNREAD]),
    entry(IommuFault, "the IOMMU blocked memory accesses", &[&[IommuTranslating, IommuNotOff]]),
    entry(NoEcam, "only 256 bytes of configuration space can be read", &[&[PciUnreadable]]),
    entry(AcsQuirk, "a chipset port has ACS of its own kind", &[]),
    entry(AcsKept, "ACS was left on for another device", &[]),
    entry(AcsStuck, "a port keeps its ACS bits", &[]),
    entry(AcsRefused, "the kernel refused access to ACS", &[LOCKED]),
    entry(AcsUnknown, "the state of ACS is unknown", &[UNREAD, GONE, &[NoEcam, PciMalformed]]),
    entry(AcsReverted, "ACS redirection is on again", &[]),
    entry(
        AcsRedirect,
        "ACS redirects peer traffic",
        &[BOOT, LOCKED, &[AcsQuirk, AcsKept, AcsStuck, AcsRefused, AcsReverted]],
    ),
    entry(AcsCleared, "ACS was switched off", &[]),
    // BAR1.
    entry(RebarPreserved, "the firmware forbids to move PCI resources", &[]),
    entry(RebarAbsent, "the GPU has no Resizable BAR", &[]),
    entry(RebarNoRoom, "there is no bus address space for a full BAR1", &[&[RebarPreserved]]),
    entry(RebarIgnored, "the GPU ignores a new size of BAR1", &[]),
    entry(RebarBusy, "the GPU was in use when BAR1 was to be enlarged", &[]),
    entry(RebarRefused, "the kernel refused to enlarge BAR1", &[LOCKED]),
    entry(RebarResized, "BAR1 was enlarged", &[]),
    entry(Bar1Small, "BAR1 does not cover the GPU's memory", &[REBAR, LOCKED]),
    entry(Bar1MapShort, "BAR1 has no room for the driver's map of all memory", &[&[Bar1Small]]),
    entry(Bar1MapUnknown, "whether BAR1 has room for the driver's map is unknown", &[&[Bar1Small]]),
    // The driver.
    entry(DriverForeign, "another driver is bound to the GPU", &[]),
    entry(DriverNoGpu, "the NVIDIA module found no GPU", &[GONE, &[GpuNone]]),
    entry(DriverMissing, "a part of the NVIDIA driver is missing", &[]),
    entry(DriverVermagic, "the NVIDIA module is for another kernel", &[]),
    entry(DriverRefused, "the kernel refused the NVIDIA module", &[LOCKED]),
    entry(DriverMismatch, "parts of the NVIDIA driver differ in version", &[]),
    entry(GspMissing, "the GPU's firmware was not found", &[&[DriverMissing]]),
    entry(GpuNoGsp, "the open NVIDIA module cannot drive the GPU", &[GONE]),
    entry(GpuNoIrq, "the driver got no interrupt for the GPU", &[]),
    entry(GpuVbios, "the driver does not accept the GPU's VBIOS", &[GONE]),
    entry(GpuInit, "the driver could not start the GPU", &[GONE, IOMMU, &[GspMissing, GpuVbios, GpuNoIrq]]),
    entry(DriverTimeout, "the driver did not finish starting", &[GONE, &[GpuInit]]),
    entry(NvmlTimeout, "the driver's NVML does not answer", &[GONE, &[GpuInit, DriverTimeout]]),
    entry(
        DriverFailed,
        "the NVIDIA driver could not be started",
        &[
            GONE,
            &[DriverForeign, DriverMissing, DriverVermagic, DriverRefused, DriverMismatch, GspMissing, GpuNoGsp],
            &[GpuNoIrq, GpuVbios, GpuInit],
        ],
    ),
    entry(DriverParameters, "a parameter of the module has another value", &[BOOT, &[DriverFailed]]),
    entry(
        NodesMissing,
        "a device node of the driver is missing",
        &[&[DriverMissing, DriverVermagic, DriverRefused, DriverFailed, DriverTimeout]],
    ),
    entry(NvswitchNoManager, "the fabric manager does not run", &[&[DriverMissing, DriverMismatch, DriverFailed]]),
    entry(DisplayOnGpu, "a display is on the GPU", &[]),
    entry(PatchMissing, "the module lacks the peer-to-peer patch", &[&[DriverMismatch, ImageChanged]]),
    entry(PatchNotEffective, "the peer-to-peer patch has no effect", &[&[PatchMissing, Bar1Small]]),
    entry(
        Bar1NotStatic,
        "the driver has not mapped all memory into BAR1",
        &[&[Bar1Small, Bar1MapShort, DriverParameters, DisplayOnGpu, PatchMissing, PatchNotEffective]],
    ),
    entry(Bar1Witnesses, "the kernel log and NVML disagree about the driver's map", &[&[Bar1NotStatic]]),
    // The log.
    entry(NvswitchSxid, "an NVSwitch reported an error", &[]),
    entry(GpuXid, "the driver logged an Xid error", &[GONE, IOMMU, &[PcieAer, NvswitchSxid]]),
    entry(KernelFault, "the kernel had a fault of its own", &[GONE, &[PcieAer, MachineCheck, GpuXid]]),
    entry(DriverFault, "the NVIDIA driver had an internal error", &[GONE, &[PcieAer, GpuXid]]),
    entry(KernelTainted, "the kernel is tainted", &[&[MachineCheck, KernelFault, DriverFault]]),
    entry(GpuNeedsRecovery, "the GPU must be recovered", &[GONE, &[GpuXid, NvswitchSxid, DriverFault]]),
];
