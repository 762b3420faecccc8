//! Which of the kernel's own faults and of the firmware's records are about other devices: tasks that wait for a disk or
//! for another driver, and PCIe errors that the firmware reports. Both are written in several lines. Pure.

use super::place::{self, Place};
use crate::host::kmsg::Line;
use crate::host::rdma;

/// How many lines of a stack are read, and in each direction how many for a record.
const STACK: usize = 60;
const RECORD: usize = 40;

/// Tasks of disks and file systems, by the beginning of their names.
const DISK_TASKS: &[&str] = &[
    "jbd2/",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "jfs",
    "md0",
    "md1",
    "md2",
    "md3",
    "md4",
    "md5",
    "md6",
    "md7",
    "md8",
    "md9",
    "mdX",
    "mdadm",
    "bcachefs",
    "dmeventd",
    "multipathd",
    "raid",
    "dm-",
    "dmcrypt",
    "kcryptd",
    "kdmflush",
    "kcopyd",
    "bcache",
    "bch_",
    "drbd",
    "loop",
    "nvme",
    "nvmet",
    "scsi_",
    "usb-storage",
    "uas",
    "mmcqd",
    "txg_",
    "z_",
    "spa_",
    "dp_",
    "arc_",
    "dbu_",
    "l2arc",
    "zvol",
    "zfs",
    "nfs",
    "rpciod",
    "lockd",
    "cifs",
    "smb",
    "kswapd",
    "flush-",
    "ocfs2",
    "gfs2",
    "glock_",
    "iscsi",
    "ceph",
    "rbd",
    "sync",
    "mount",
    "umount",
    "fsck",
    "fstrim",
    "systemd-journal",
    "smartd",
    "udisksd",
    "kblockd",
    "writeback",
];
/// Functions and queues in the stack of a task that waits for a disk.
const DISK_STACK: &[&str] = &[
    "io_schedule",
    "blk_mq_",
    "submit_bio",
    "jbd2_",
    "ext4_",
    "xfs_",
    "btrfs_",
    "f2fs_",
    "nfs_",
    "nfs4_",
    "md_write",
    "md_flush",
    "md_submit",
    "md_do_sync",
    "raid5",
    "folio_wait",
    "wait_on_page",
    "wb_workfn",
    "sync_inodes",
    "writeback",
    "scsi_",
    "nvme_",
    "dm_",
    "fuse_",
    "zio_",
];
/// Our own processes, and tasks that belong to a driver that the tests use, by the beginning of their names; those of RDMA
/// drivers are as well.
const OUR_TASKS: &[&str] = &["firstlight", "nvidia", "nv_", "nv-", "UVM ", "uvm", "nccl"];
/// Modules whose functions show that a task waits for such a driver; those of RDMA drivers do as well.
const OUR_MODULES: &[&str] = &["nvidia", "gdrdrv"];

/// Whether the line of a hung task is about a task that waits for another device. A task about which neither name nor
/// stack says anything may wait for a GPU.
pub(super) fn waits_for_others(lines: &[Line], n: usize) -> bool {
    let Some(name) = lines.get(n).and_then(|line| hung_task(&line.text)) else {
        return false;
    };
    let of = |words: &[&str]| words.iter().any(|word| name.starts_with(word));
    let stack = lines
        .iter()
        .skip(n + 1)
        .take(STACK)
        .map(|line| line.text.as_str());
    let stack: Vec<_> = stack
        .take_while(|text| hung_task(text).is_none() && !text.contains("</TASK>"))
        .collect();
    let begins = |word: &str| DISK_STACK.iter().any(|function| word.starts_with(function));
    let is_ours = |module: &str| {
        let mut ours = OUR_MODULES.iter().chain(rdma::MODULES);
        ours.any(|begin| module.starts_with(begin))
    };
    let names_ours = |text: &&str| text.split('[').skip(1).any(is_ours);
    if stack.iter().any(names_ours) || of(OUR_TASKS) || of(rdma::MODULES) {
        return false;
    }
    of(DISK_TASKS)
        || stack
            .iter()
            .any(|text| is_module_frame(text) || text.split_whitespace().any(begins))
}

/// The task's name in `INFO: task jbd2/sda1-8:345 blocked for more than 120 seconds.`
pub(super) fn hung_task(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("INFO: task ")?;
    let (task, _) = rest
        .split_once(" blocked for more than")
        .or_else(|| rest.split_once(" blocked in I/O wait for"))?;
    Some(task.rsplit_once(':').map_or(task, |(name, _)| name))
}

/// ` amdgpu_device_gpu_recover+0x1f0/0xa80 [amdgpu]`
fn is_module_frame(text: &str) -> bool {
    text.split_once("+0x")
        .is_some_and(|(_, rest)| rest.contains("/0x") && rest.trim_end().ends_with(']'))
}

/// A PCIe error in a record of the firmware (ACPI APEI).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PcieRecord {
    /// The device that it is about.
    pub(super) device: Option<Place>,
    /// How bad it was.
    pub(super) kind: RecordKind,
}

/// How bad the firmware calls an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// The hardware corrected it.
    Corrected,
    /// It was not fatal.
    Recoverable,
    /// It was fatal, or the record does not say.
    Fatal,
}

/// The PCIe error to which the line `{1}[Hardware Error]: ..` belongs, if its record is one.
pub(super) fn pcie_record(lines: &[Line], n: usize) -> Option<PcieRecord> {
    let (number, _) = split_record(&lines.get(n)?.text)?;
    let near = lines.iter().skip(n.saturating_sub(RECORD)).take(2 * RECORD);
    let texts = near.filter_map(|line| split_record(&line.text));
    let texts: Vec<_> = texts
        .filter(|(other, _)| *other == number)
        .map(|(_, text)| text)
        .collect();
    let value = |name: &str| {
        texts
            .iter()
            .find_map(|text| text.trim_start().strip_prefix(name))
    };
    value("section_type: PCIe error")?;
    let device = value("device_id: ").and_then(place::first);
    let kind = match value("event severity: ")
        .or_else(|| value("Error 0, type: "))
        .map(str::trim)
    {
        Some("corrected" | "info") => RecordKind::Corrected,
        Some("recoverable") => RecordKind::Recoverable,
        _ => RecordKind::Fatal,
    };
    Some(PcieRecord { device, kind })
}

/// The number of a record, and the line's text.
fn split_record(text: &str) -> Option<(&str, &str)> {
    let (number, text) = text.split_once("[Hardware Error]: ")?;
    let number = number.strip_prefix('{')?.strip_suffix('}')?;
    Some((number, text))
}
