//! The table of all findings: code, meaning, usual cause, remedy. Findings are made from it, and `firstlight
//! list --findings` prints it for `docs/findings.md`. It is split over seven files: this one is about the
//! machine, `code/driver` about NVIDIA's driver, `code/gpu` about GPUs, `code/nccl` about NCCL, `code/nic`
//! about network cards, `code/nodes` about several nodes, `code/itself` about the validator and process 1.
//! Each appends its entries to the previous ones and passes them on.

#[macro_use]
mod driver;
#[macro_use]
mod gpu;
#[macro_use]
mod itself;
#[macro_use]
mod nccl;
#[macro_use]
mod nodes;

/// One entry of the table.
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
            /// All codes, in the order of the table in `docs/findings.md`.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The code with this name.
            #[must_use]
            pub fn named(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|c| c.entry().code == code)
            }

            /// Its entry in the table.
            #[must_use]
            pub const fn entry(self) -> &'static Entry {
                match self {
                    $(Self::$name => &Entry { code: $code, means: $means, cause: $cause, remedy: $remedy }),*
                }
            }
        }
    };
}

driver! { [gpu nccl nic nodes itself codes]
    // The fabric.
    AcsRedirect "ACS-REDIRECT"
        means "a port on a GPU path redirects peer traffic to the root complex instead of directly to the peer"
        cause "the firmware or the kernel enabled ACS redirection and nothing disabled it"
        remedy "run `firstlight fabric fix`, or boot with pci=config_acs=0000000@pci:0:0"
    AcsCleared "ACS-CLEARED"
        means "the fabric pass cleared ACS on ports of this machine; the message gives the ports and the values before and after"
        cause "the firmware or the kernel had enabled ACS"
        remedy "nothing to do; `firstlight fabric restore` restores the previous values"
    AcsReverted "ACS-REVERTED"
        means "a port's ACS redirection was off and is on again"
        cause "something enabled ACS again: a reset, a rescan, a driver that bound, or management firmware"
        remedy "boot with pci=config_acs=0000000@pci:0:0, so that ACS stays off when the kernel restores it"
    AcsStuck "ACS-STUCK"
        means "a port kept its ACS control bits after zeros were written to them"
        cause "the port ignores writes, or the firmware locked the register"
        remedy "switch ACS off in the firmware setup; the option is named ACS, Access Control or IOMMU"
    AcsRefused "ACS-REFUSED"
        means "the kernel did not allow access to a port's ACS control register"
        cause "the kernel refused access to configuration space"
        remedy "run as root on a kernel that is not locked down"
    AcsQuirk "ACS-QUIRK"
        means "a port of an Intel chipset controls peer traffic in a non-standard way, so firstlight does not change it"
        cause "these ports have ACS registers that do not follow the PCIe specification, or none"
        remedy "boot with pci=disable_acs_redir=ADDRESS, or move the card to a slot that is connected to the processor"
    AcsUnknown "ACS-UNKNOWN"
        means "a port is on a GPU path and its ACS state is unknown"
        cause "the port's configuration space cannot be read or is malformed"
        remedy "run `lspci -vvv -s ADDRESS` as root; if the port does not answer, power the machine off and on"
    AcsKept "ACS-KEPT"
        means "a port's ACS was not changed, because a device below the port depends on it"
        cause "a device is passed to a virtual machine, or is a ConnectX-8 Data Direct function"
        remedy "unbind the device's vfio driver, or set fabric.acs = \"off\" to accept ACS as it is"
    Lockdown "LOCKDOWN"
        means "the kernel forbids writes to configuration space"
        cause "the kernel is locked down, as it is under Secure Boot"
        remedy "switch Secure Boot off and remove lockdown= from the kernel command line"
    NoEcam "NO-ECAM"
        means "only the first 256 bytes of a function's configuration space can be read, so its ACS state is unknown"
        cause "the kernel found no memory-mapped configuration space (ACPI table MCFG) for this bus"
        remedy "update the machine's firmware; for a virtual machine choose a machine type with PCIe (q35)"
    PciMalformed "PCI-MALFORMED"
        means "a function's configuration space is inconsistent"
        cause "the device or its emulation is defective, or the recording is damaged"
        remedy "compare with `lspci -xxxx -s ADDRESS`; reseat or replace the device"
    PciUnreadable "PCI-UNREADABLE"
        means "a file of a PCI function could not be read"
        cause "firstlight does not run as root, or the recording of the machine lacks this file"
        remedy "run as root; for a recording, record the machine again as root"
    PciGone "PCI-GONE"
        means "a PCI function no longer answers: its configuration space reads as all ones"
        cause "the device fell off the bus or lost power"
        remedy "power the machine off and on; read the AER and link-down lines in `dmesg`"
    GpuGone "GPU-GONE"
        means "a GPU no longer answers: its configuration space reads as all ones, or the driver reports that it fell off the bus"
        cause "the GPU fell off the bus: power, heat, riser or slot"
        remedy "reboot the machine; if that does not help, power it off and on; if it happens again, reseat the card, its riser and its power cables"
    LinkNarrow "LINK-NARROW"
        means "a PCIe link uses fewer lanes than both its ends support, or, as information, than the device has, because its port has no more"
        cause "a badly seated card, riser or cable, or a slot that shares its lanes"
        remedy "reseat the card and its riser; check the slot's number of lanes in the board's manual"
    LinkSlow "LINK-SLOW"
        means "a PCIe link runs slower than both its ends support"
        cause "link training fell back (riser, cable), or the firmware limits the speed; idle GPUs also reduce the speed"
        remedy "set the slot's speed to the highest value or Auto in the firmware setup; try without the riser"
    LinkDisagrees "LINK-DISAGREES"
        means "sysfs and the registers disagree about a link"
        cause "the link retrained between two reads, or the recording is inconsistent"
        remedy "run `firstlight fabric show` again; if the link keeps changing, replace the riser or use another slot"
    // Resizable BAR.
    RebarResized "REBAR-RESIZED"
        means "the fabric pass enlarged a GPU's BAR1; the message gives the size before and after"
        cause "the firmware had left BAR1 small"
        remedy "nothing to do; `firstlight fabric restore` restores the previous size"
    RebarAbsent "REBAR-ABSENT"
        means "a GPU supports no other size for its BAR1"
        cause "the GPU has no Resizable BAR, or its VBIOS does not support it yet"
        remedy "update the card's VBIOS: RTX 30 cards got Resizable BAR with an update, older cards never did"
    RebarNoRoom "REBAR-NO-ROOM"
        means "there is not enough bus address space for a GPU's largest BAR1; the message gives the sizes that were tried"
        cause "the firmware gave the slot too little address space, or another device in use shares it"
        remedy "switch on Above 4G Decoding and Resizable BAR in the firmware setup"
    RebarPreserved "REBAR-PRESERVED"
        means "a GPU's BAR1 was not resized because the firmware forbids the kernel to move PCI resources"
        cause "the firmware requests this through the ACPI method _DSM, function 5"
        remedy "switch on Resizable BAR in the firmware setup, so that the firmware resizes BAR1"
    RebarIgnored "REBAR-IGNORED"
        means "a GPU's BAR1 kept its size although another size was written"
        cause "the GPU ignores writes to its Resizable BAR control register; a recorded machine ignores every write"
        remedy "update the card's VBIOS, or switch on Resizable BAR in the firmware setup"
    RebarBusy "REBAR-BUSY"
        means "a GPU's BAR1 was not resized because the GPU is in use"
        cause "a driver is bound to the GPU; BAR1 can only be resized before the driver is loaded"
        remedy "reboot and run `firstlight fabric fix` before the driver is loaded, as the appliance does"
    RebarRefused "REBAR-REFUSED"
        means "the kernel refused to resize a GPU's BAR1, for another reason than address space"
        cause "the kernel is too old to have resource files for it, or firstlight lacks permission"
        remedy "run as root; boot firstlight's own kernel; the message contains the kernel's error"
    RebarBroken "REBAR-BROKEN"
        means "a GPU's BAR registers and the kernel disagree, or its addresses were lost; do not use the GPU"
        cause "resizing failed partway, or the GPU fell off the bus or was reset and lost its addresses"
        remedy "power the machine off and on, and boot with firstlight.fabric.rebar=check"
    FabricUnreadable "FABRIC-UNREADABLE"
        means "the machine's PCI devices, IOMMU or processors could not be read"
        cause "sysfs is not mounted, the recording is incomplete, or the process lacks permission to read it"
        remedy "run as root on the machine itself; for a recording, record the machine again as root"
    // Kernel and firmware.
    CmdlineMissing "CMDLINE-MISSING"
        means "a word that the configuration requires is missing from the kernel command line"
        cause "a kernel or boot entry other than firstlight's was started"
        remedy "boot firstlight's own image; on a distribution, add the word to the boot entry and reboot"
    LockdownIgnored "LOCKDOWN-IGNORED"
        means "the kernel command line requests a lockdown that is not in force"
        cause "the kernel was built without lockdown, as firstlight's own is, or securityfs is not mounted"
        remedy "remove lockdown= from the kernel command line; a kernel with lockdown gives the finding LOCKDOWN instead"
    ImageChanged "IMAGE-CHANGED"
        means "the files of the running image differ from the list that its build made"
        cause "a file was appended to the initrd, or changed since the machine started"
        remedy "boot the image as it was built; put settings into the kernel command line, the data partition or a server"
    ImageNone "IMAGE-NONE"
        means "a golden image is expected, but the running system is not a firstlight image"
        cause "expect.golden = true is set on a machine that runs another system"
        remedy "boot firstlight's image, or remove expect.golden from the configuration"
    CmdlineOverridden "CMDLINE-OVERRIDDEN"
        means "a later word of the kernel command line contradicts a required one"
        cause "the boot medium or the firmware adds its own words after the built-in ones"
        remedy "remove the word from the boot entry; the tests iommu and acs report the actual state"
    CmdlineNoEffect "CMDLINE-NO-EFFECT"
        means "the kernel ignores a word of its command line about the IOMMU or PCI, because it does not know it"
        cause "a misspelt word, a word that no kernel has, or one of a newer or a patched kernel"
        remedy "remove the word, and do not rely on it; the remedies of the tests iommu and acs name words that this kernel knows"
    IommuTranslating "IOMMU-TRANSLATING"
        means "an IOMMU translates DMA addresses, which breaks peer-to-peer between GPUs"
        cause "the IOMMU is on in the firmware setup and the kernel command line does not switch it off"
        remedy "boot firstlight's own image; on a distribution, boot with iommu=off, or switch the IOMMU (VT-d, AMD-Vi) off in the firmware setup"
    IommuNotOff "IOMMU-NOT-OFF"
        means "a source reports that an IOMMU is in use although it should be off"
        cause "the kernel was started without iommu=off, or the firmware forces the IOMMU on"
        remedy "switch the IOMMU (VT-d, AMD-Vi) off in the firmware setup, or set fabric.iommu = \"pt\""
    IommuUnknown "IOMMU-UNKNOWN"
        means "the state of the IOMMU could not be determined"
        cause "sources are missing or contradict each other"
        remedy "run `ls /sys/class/iommu /sys/kernel/iommu_groups`; for a recording, record the machine again with both"
    IommuFault "IOMMU-FAULT"
        means "the IOMMU blocked a device's memory access"
        cause "a device used an address that was not mapped for it, as peer-to-peer through a translating IOMMU does"
        remedy "switch the IOMMU off, then run the tests again"
    CpusLost "CPUS-LOST"
        means "not all processors of the machine are in use"
        cause "processors were taken offline, or the kernel could not start them"
        remedy "read the kernel's lines about the missing processors: `dmesg`, search for x2apic and smpboot"
    KmsgUnreadable "KMSG-UNREADABLE"
        means "the kernel log could not be read, so faults that the kernel logged are not in this report"
        cause "firstlight does not run as root, or the recording has no dev/kmsg"
        remedy "run as root"
    KmsgLost "KMSG-LOST"
        means "records of the kernel log were lost; they may have contained a fault that is not in this report"
        cause "something writes to the kernel log faster than it can be read"
        remedy "find the source of the messages (`dmesg --follow`); boot with a larger log_buf_len"
    KernelFault "KERNEL-FAULT"
        means "the kernel reported a fault of its own during a test: a hung task, a lockup, an oops"
        cause "a driver or a device that does not answer; the lines name the task and the function"
        remedy "read the kernel log lines in the evidence; update the driver that they name; reboot"
    KernelTainted "KERNEL-TAINTED"
        means "the kernel has marked itself as tainted by more than NVIDIA's modules, or its taint flags could not be read"
        cause "a fault of the kernel or the hardware since the machine started, or a module that was loaded by force"
        remedy "read the kernel log (`dmesg`) for the fault that set the flag, and reboot: flags stay until then"
    MachineCheck "MACHINE-CHECK"
        means "the processor, the memory controller or the chipset (by an NMI) reported an error during a test"
        cause "the host memory, a processor, or a PCIe device that did not answer"
        remedy "decode the lines with mcelog or rasdaemon; test the memory modules that they name"
    PcieAer "PCIE-AER"
        means "the kernel logged or counted a PCIe error during a test"
        cause "a link with bit errors: card, riser, cable or slot"
        remedy "reseat the device that the line names and run the tests again; check its link's speed and width"
    GpuXid "GPU-XID"
        means "the NVIDIA driver logged an Xid error"
        cause "depends on the number: hardware, driver or program"
        remedy "look up the number in NVIDIA's list of Xid errors"
    DriverFault "DRIVER-FAULT"
        means "the NVIDIA driver or the GPU's firmware (GSP) reported an internal error during a test"
        cause "a GPU that does not answer, or an error in the driver; the line names the function"
        remedy "power the machine off and on; if it happens again, update the driver and report its lines to NVIDIA"
    NvswitchSxid "NVSWITCH-SXID"
        means "the driver of the NVSwitches logged an SXid error"
        cause "a fault of a link or a switch of the NVLink fabric"
        remedy "look up the number in NVIDIA's fabric manager guide; if it is fatal, power the machine off and on"
    // GPUs and displays.
    GpuNone "GPU-NONE"
        means "there is no NVIDIA GPU, but the configuration does not say that none is expected"
        cause "no GPU is installed, or none answered when the firmware searched for devices"
        remedy "check power and seating; if the machine has none on purpose, set expect.gpus = 0"
    GpuCount "GPU-COUNT"
        means "there are fewer or more NVIDIA GPUs than expected"
        cause "a GPU is missing on the bus: power, seating, riser, or a slot that is switched off"
        remedy "find the slot that is missing in the list of GPUs and reseat its card; otherwise correct expect.gpus"
    GpuName "GPU-NAME"
        means "a GPU is not of the expected model"
        cause "a card other than the configured one is installed"
        remedy "replace the card, or correct expect.gpu_name"
    DriverForeign "DRIVER-FOREIGN"
        means "a driver other than NVIDIA's is bound to a GPU, or is loaded and could bind to it"
        cause "the kernel loaded another driver for the card, or the card is passed to a virtual machine"
        remedy "boot with module_blacklist=NAME on the kernel command line"
    DriverMismatch "DRIVER-MISMATCH"
        means "parts of the NVIDIA driver have different versions, or the version is not the expected one"
        cause "kernel modules, libraries and GPU firmware come from different installations"
        remedy "install all parts in one version and reboot; if only expect.driver differs, correct it"
    DisplayOnGpu "DISPLAY-ON-GPU"
        means "a framebuffer is on an NVIDIA GPU and may slow down peer-to-peer in one direction"
        cause "that GPU is the firmware's boot display"
        remedy "set console.screen = \"release\", or connect the screen to another display adapter"
    ExpectUnchecked "EXPECT-UNCHECKED"
        means "the configuration expects something that could not be checked"
        cause "the NVIDIA driver is not loaded, or the test that checks it did not run"
        remedy "load the driver and run the test, or remove the key from [expect]"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_unique_and_of_one_form() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|c| c.entry().code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for code in codes {
            let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-';
            assert!(code.chars().all(fits), "{code}");
        }
    }

    #[test]
    fn every_code_has_meaning_cause_and_remedy() {
        for entry in Code::ALL.iter().map(|c| c.entry()) {
            for text in [entry.means, entry.cause, entry.remedy] {
                assert!(text.len() > 10 && !text.ends_with('.') && !text.contains('|'), "{entry:?}");
            }
        }
    }
}
