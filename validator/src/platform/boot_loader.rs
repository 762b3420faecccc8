//! How the kernel's command line is changed on an installed system: one table for remedies and for commands that do it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What keeps the kernel's command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BootLoader {
    /// GRUB with /etc/default/grub, as on Debian, Ubuntu and Arch.
    Grub,
    /// Boot Loader Specification entries that `grubby` changes, as on Fedora and RHEL.
    Grubby,
    /// systemd-boot or a unified kernel image, with /etc/kernel/cmdline.
    KernelCmdline,
    /// rpm-ostree, as on Fedora Silverblue, CoreOS and Bazzite.
    RpmOstree,
    /// proxmox-boot-tool, with /etc/kernel/cmdline.
    Proxmox,
    /// Not recognized.
    #[default]
    Unknown,
}
