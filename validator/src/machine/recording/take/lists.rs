//! Which files of a machine a recording has.

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
    "sys/class/dmi/id/bios_version",
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
/// Folders in which distributions and the image keep the driver's libraries.
pub(super) const LIBRARIES: &[&str] =
    &["run/firstlight/driver/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/local/nvidia/lib64"];
/// Folders in which they keep the GPUs' firmware.
pub(super) const FIRMWARE: &[&str] = &[
    "usr/lib/firmware/nvidia",
    "lib/firmware/nvidia",
    "usr/local/nvidia/firmware/nvidia",
    "run/firstlight/driver/firmware/nvidia",
];
/// Words of the lines that are kept of the kernel's log; the others may hold what their owner may not give away.
pub(super) const WORDS: &[&str] =
    &["NVRM", "AER: ", "PCIe Bus Error", "DMAR", "AMD-Vi", "iommu: ", "IO_PAGE_FAULT", "x2apic", "smpboot"];
