//! The table of all findings: code, what it says, the usual cause, the next thing to do. Findings
//! are made from it, `firstlight list --findings` prints it, and the table in `docs/findings.md` is that print.
//! It stands in six files: here the machine, in `code/driver` NVIDIA's driver, in `code/gpu` what
//! the GPUs do, in `code/nccl` NCCL, in `code/nic` network cards, in `code/itself` the validator. Each adds
//! its lines to those before it and hands them on.

#[macro_use]
mod driver;
#[macro_use]
mod gpu;
#[macro_use]
mod itself;
#[macro_use]
mod nccl;
#[macro_use]
mod nic;

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Short and stable; never reused for another meaning.
    pub code: &'static str,
    /// What the finding says about the machine.
    pub means: &'static str,
    /// The most likely cause.
    pub cause: &'static str,
    /// The next thing to do.
    pub remedy: &'static str,
}

macro_rules! codes {
    ([] $($name:ident $code:literal means $means:literal cause $cause:literal remedy $remedy:literal)*) => {
        /// Every finding that firstlight can make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $(#[doc = $means] $name),* }

        impl Code {
            /// All of them, in the order of the table in `docs/findings.md`.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The one that people and other programs write as `code`.
            #[must_use]
            pub fn named(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|c| c.entry().code == code)
            }

            /// Its line of the table.
            #[must_use]
            pub const fn entry(self) -> &'static Entry {
                match self {
                    $(Self::$name => &Entry { code: $code, means: $means, cause: $cause, remedy: $remedy }),*
                }
            }
        }
    };
}

driver! { [gpu nccl nic itself codes]
    // The fabric.
    AcsRedirect "ACS-REDIRECT"
        means "a port on a GPU path sends peer traffic to the root complex instead of straight to the peer"
        cause "firmware or kernel switched ACS redirection on and nothing cleared it"
        remedy "run `firstlight fabric fix`, or boot with pci=config_acs=0000000@pci:0:0"
    AcsCleared "ACS-CLEARED"
        means "the fabric pass cleared ACS on ports of this machine; tells which, before and after"
        cause "firmware or kernel had switched ACS on"
        remedy "nothing to do; `firstlight fabric restore` puts it back"
    AcsReverted "ACS-REVERTED"
        means "a port's ACS redirection was off and came back on"
        cause "something sets ACS again: a reset, a rescan, a driver that binds, or management firmware"
        remedy "boot with pci=config_acs=0000000@pci:0:0, so that whatever restores ACS restores it as off"
    AcsStuck "ACS-STUCK"
        means "a port kept its ACS control bits although zeros were written"
        cause "the port ignores writes, or the firmware has locked them"
        remedy "switch ACS off in the firmware's setup; look there for ACS, Access Control or IOMMU"
    AcsRefused "ACS-REFUSED"
        means "the kernel did not let a port's ACS control be written or read"
        cause "the kernel refused access to configuration space"
        remedy "run as root on a kernel that is not locked down"
    AcsQuirk "ACS-QUIRK"
        means "an Intel chipset's port controls peer traffic in its own way and is left alone"
        cause "these ports have ACS registers that do not follow the PCIe specification, or none at all"
        remedy "boot with pci=disable_acs_redir=ADDRESS, or move the card to a slot of the processor"
    AcsUnknown "ACS-UNKNOWN"
        means "a port is on a GPU path and its ACS cannot be told"
        cause "the port's configuration space cannot be read or is malformed"
        remedy "read `lspci -vvv -s ADDRESS` as root; power-cycle the machine if the port does not answer"
    AcsKept "ACS-KEPT"
        means "a port's ACS is left as it is, because something below it relies on it"
        cause "a device is given to a virtual machine, or is a ConnectX-8 Data Direct function"
        remedy "unbind its vfio driver, or set fabric.acs = \"off\" to accept ACS as it is"
    Lockdown "LOCKDOWN"
        means "the kernel forbids writes to configuration space"
        cause "the kernel is locked down, as it is under Secure Boot"
        remedy "boot without Secure Boot and without lockdown= among the kernel words"
    NoEcam "NO-ECAM"
        means "only the first 256 bytes of a function's configuration space can be read, so its ACS is unknown"
        cause "the kernel found no memory-mapped configuration space (ACPI table MCFG) for this bus"
        remedy "update the firmware; in a virtual machine choose a machine type with PCIe (q35)"
    PciMalformed "PCI-MALFORMED"
        means "a function's configuration space contradicts itself"
        cause "the device or an emulation of it is defective, or the recording is damaged"
        remedy "compare with `lspci -xxxx` of the function; reseat or replace the device"
    PciUnreadable "PCI-UNREADABLE"
        means "a file of a PCI function could not be read"
        cause "not run as root, or the machine was recorded without this file"
        remedy "run as root; record the machine again as root"
    PciGone "PCI-GONE"
        means "a PCI function no longer answers: its configuration space reads as ones"
        cause "the device has fallen off the bus or lost power"
        remedy "power-cycle the machine and look at the kernel log for AER and link-down lines"
    GpuGone "GPU-GONE"
        means "a GPU no longer answers: its configuration space reads as ones, or the driver says that it fell off the bus"
        cause "the GPU fell off the bus: power, heat, riser or slot"
        remedy "power the machine off and on; then reseat the card, its riser and its power cables"
    LinkNarrow "LINK-NARROW"
        means "a PCIe link uses fewer lanes than both its ends can"
        cause "a badly seated card, riser or cable, or a slot that shares its lanes"
        remedy "reseat the card and its riser; look up the slot's lanes in the board's manual"
    LinkSlow "LINK-SLOW"
        means "a PCIe link runs slower than both its ends can"
        cause "link training fell back (riser, cable), or the firmware limits the speed; idle GPUs slow down by themselves"
        remedy "set the slot's speed to the highest or Auto in the firmware's setup; try without the riser"
    LinkDisagrees "LINK-DISAGREES"
        means "sysfs and the registers tell different links"
        cause "the link retrained between two reads, or the recording is inconsistent"
        remedy "read again; a link that keeps changing is a bad riser or slot"
    // Resizable BAR.
    RebarResized "REBAR-RESIZED"
        means "the fabric pass made a GPU's BAR1 larger; tells the size before and after"
        cause "firmware had left BAR1 small"
        remedy "nothing to do; `firstlight fabric restore` puts it back"
    RebarAbsent "REBAR-ABSENT"
        means "a GPU offers no other size for its BAR1"
        cause "the GPU has no Resizable BAR, or its VBIOS is older than that"
        remedy "update the card's VBIOS; RTX 30 cards got Resizable BAR by an update, older ones never"
    RebarNoRoom "REBAR-NO-ROOM"
        means "there are not enough bus addresses for a GPU's largest BAR1; tells what was tried"
        cause "the firmware gave the slot too few addresses, or another device shares them and is in use"
        remedy "switch on Above 4G Decoding and Resizable BAR in the firmware's setup"
    RebarPreserved "REBAR-PRESERVED"
        means "a GPU's BAR1 was not resized because the firmware forbids the kernel to move its resources"
        cause "the firmware says so to the operating system (ACPI _DSM 5)"
        remedy "switch on Resizable BAR in the firmware's setup, so that the firmware does it"
    RebarIgnored "REBAR-IGNORED"
        means "a GPU's BAR1 kept its size although another was asked for"
        cause "the GPU does not take writes to its Resizable BAR control; on a recorded machine nothing does"
        remedy "update the card's VBIOS, or switch on Resizable BAR in the firmware's setup"
    RebarBusy "REBAR-BUSY"
        means "a GPU's BAR1 was not resized because something uses the GPU"
        cause "a driver is bound to the GPU; the pass runs before the driver is loaded"
        remedy "boot anew with the driver not loaded before `firstlight fabric fix`, as firstlight's image does"
    RebarRefused "REBAR-REFUSED"
        means "the kernel refused to resize a GPU's BAR1, for a reason that is not room"
        cause "an old kernel without resource files for it, or a missing right"
        remedy "run as root on firstlight's own kernel; the message holds the kernel's answer"
    RebarBroken "REBAR-BROKEN"
        means "a GPU's BAR registers and the kernel disagree, or its addresses were lost; it must not be used"
        cause "resizing failed half-way, or the GPU fell off the bus or was reset and lost its addresses"
        remedy "power the machine off and on, and boot with firstlight.fabric.rebar=check"
    FabricUnreadable "FABRIC-UNREADABLE"
        means "the machine's PCI devices, IOMMU or processors could not be read"
        cause "sysfs is not mounted, the recording is incomplete, or the process lacks the right to read it"
        remedy "run as root on the machine itself, or record the machine again"
    // Kernel and firmware.
    CmdlineMissing "CMDLINE-MISSING"
        means "the kernel was not started with a word that the configuration asks for"
        cause "another kernel or boot entry than firstlight's was started"
        remedy "boot firstlight's own image, or add the word to the boot entry"
    LockdownIgnored "LOCKDOWN-IGNORED"
        means "the kernel command line asks for a lockdown that the kernel does not keep"
        cause "the kernel is built without lockdown, as firstlight's own is, or securityfs is not mounted"
        remedy "take lockdown= off the boot entry, or boot a kernel that has lockdown and expect LOCKDOWN"
    ImageChanged "IMAGE-CHANGED"
        means "the files of the running image are not those that its build listed"
        cause "a file was added behind the initrd, or changed since the machine started"
        remedy "boot the image as it was built; settings belong into kernel words, the data partition or a server"
    ImageNone "IMAGE-NONE"
        means "a golden image is expected, and what runs is no image of firstlight"
        cause "expect.golden = true on a machine that was installed otherwise"
        remedy "boot firstlight's image, or take expect.golden out of the configuration"
    CmdlineOverridden "CMDLINE-OVERRIDDEN"
        means "a later word of the kernel command line contradicts a required one"
        cause "the boot medium or the firmware adds its own words after the built-in ones"
        remedy "remove the word from the boot entry; the tests iommu and acs say what really holds"
    IommuTranslating "IOMMU-TRANSLATING"
        means "an IOMMU translates DMA addresses, which breaks peer-to-peer between GPUs"
        cause "the IOMMU is on in the firmware and the kernel was not told to leave it off"
        remedy "boot firstlight's own image, or switch the IOMMU (VT-d, AMD-Vi) off in the firmware's setup"
    IommuNotOff "IOMMU-NOT-OFF"
        means "a witness says that an IOMMU is in use although it should be off"
        cause "the kernel was started without iommu=off, or the firmware forces the IOMMU on"
        remedy "switch the IOMMU (VT-d, AMD-Vi) off in the firmware's setup, or set fabric.iommu = \"pt\""
    IommuUnknown "IOMMU-UNKNOWN"
        means "the witnesses of the IOMMU do not come to an answer"
        cause "witnesses are missing or contradict each other"
        remedy "read /sys/class/iommu and /sys/kernel/iommu_groups; record the machine again with both"
    IommuFault "IOMMU-FAULT"
        means "the IOMMU refused a device's access"
        cause "a device used an address that was not mapped for it; peer-to-peer through a translating IOMMU does"
        remedy "switch the IOMMU off, then run the tests again"
    CpusLost "CPUS-LOST"
        means "not every processor that the machine has is in use"
        cause "processors were taken offline, or the kernel could not start them"
        remedy "read the kernel's lines about the missing processors: `dmesg`, words x2apic and smpboot"
    KmsgUnreadable "KMSG-UNREADABLE"
        means "the kernel's log could not be read, so faults that the kernel saw are not in this report"
        cause "the process is not root, or the recording holds no dev/kmsg"
        remedy "run as root"
    KmsgLost "KMSG-LOST"
        means "records of the kernel's log were lost, so it may have told of a fault that is not in this report"
        cause "something writes to the kernel's log faster than it can be read"
        remedy "find what floods the log (`dmesg --follow`); boot with a larger log_buf_len"
    KernelFault "KERNEL-FAULT"
        means "the kernel told of a fault of its own while a test ran: a task that hangs, a lockup, an oops"
        cause "a driver or a device that does not answer; the lines name the task and the function"
        remedy "read the kernel's lines in the evidence; update the driver that they name; start the machine anew"
    MachineCheck "MACHINE-CHECK"
        means "the processor or the memory controller reported an error while a test ran"
        cause "the host's memory, a processor, or a PCIe device that gave no answer"
        remedy "read the lines with mcelog or rasdaemon; test the memory modules that they name"
    PcieAer "PCIE-AER"
        means "the kernel logged or counted a PCIe error while a test ran"
        cause "a link with bit errors: card, riser, cable or slot"
        remedy "reseat the device that the line names and run again; look at its link's speed and width"
    GpuXid "GPU-XID"
        means "the NVIDIA driver logged an Xid error"
        cause "depends on the number: hardware, driver or program"
        remedy "look the number up in NVIDIA's list of Xid errors"
    DriverFault "DRIVER-FAULT"
        means "the NVIDIA driver or the GPU's firmware (GSP) told of a fault of its own while a test ran"
        cause "a GPU that does not answer, or an error in the driver; the line names the function"
        remedy "power the machine off and on; where it returns, update the driver and report its lines"
    NvswitchSxid "NVSWITCH-SXID"
        means "the driver of the NVSwitches logged an SXid error"
        cause "a link or a switch of the NVLink fabric"
        remedy "look the number up in NVIDIA's fabric manager guide; power the machine off and on when it is fatal"
    // GPUs and what sits on them.
    GpuNone "GPU-NONE"
        means "there is no NVIDIA GPU, and the configuration does not say that none is expected"
        cause "no GPU is fitted, or none answered when the firmware looked for devices"
        remedy "check power and seating; where there is none on purpose, set expect.gpus = 0"
    GpuCount "GPU-COUNT"
        means "there are fewer or more NVIDIA GPUs than expected"
        cause "a GPU is missing on the bus: power, seating, riser, or a slot that is switched off"
        remedy "find the slot that is missing in the list of GPUs and reseat its card; else correct expect.gpus"
    GpuName "GPU-NAME"
        means "a GPU is of another model than expected"
        cause "another card was fitted than the configuration names"
        remedy "replace the card, or correct expect.gpu_name"
    DriverForeign "DRIVER-FOREIGN"
        means "a driver other than NVIDIA's holds a GPU, or is loaded and could take it"
        cause "the kernel loaded its own driver for the card, or it was handed to a virtual machine"
        remedy "blacklist the driver (module_blacklist=NAME on the kernel command line) and boot again"
    DriverMismatch "DRIVER-MISMATCH"
        means "parts of the NVIDIA driver are of different versions, or it is not of the expected one"
        cause "kernel modules, libraries and GPU firmware come from different installations"
        remedy "install all parts of one version and boot again; where only expect.driver differs, correct it"
    DisplayOnGpu "DISPLAY-ON-GPU"
        means "a framebuffer sits on an NVIDIA GPU and may spoil peer-to-peer in one direction"
        cause "the firmware's boot display is that GPU"
        remedy "set console.screen = \"release\", or plug the screen into another display adapter"
    ExpectUnchecked "EXPECT-UNCHECKED"
        means "the configuration expects something that could not be looked at"
        cause "the NVIDIA driver is not loaded, or the test that looks at it did not run"
        remedy "load the driver and run the test, or take the key out of [expect]"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_is_unique_and_shaped_alike() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|c| c.entry().code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for code in codes {
            let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-';
            assert!(code.chars().all(fits), "{code}");
        }
    }

    #[test]
    fn every_code_says_what_why_and_what_next() {
        for entry in Code::ALL.iter().map(|c| c.entry()) {
            for text in [entry.means, entry.cause, entry.remedy] {
                assert!(text.len() > 10 && !text.ends_with('.') && !text.contains('|'), "{entry:?}");
            }
        }
    }
}
