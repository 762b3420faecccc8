//! The child that brings disks into a clean state before the machine goes down: it writes the caches out and unmounts the
//! writable file systems. A file system that is still in use becomes read-only.

use super::SUCCESS;
use crate::sys::kernel::in_initial_namespace;
use crate::sys::{files, mount};
use std::fs;
use std::path::{Path, PathBuf};

/// The mounts of this process.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Unmounts them. All mounts are tried.
pub(super) fn all() -> Result<i32, String> {
    files::sync();
    if !in_initial_namespace() {
        // The mounts of a namespace disappear with it; those of the machine are not init's to unmount.
        return Ok(SUCCESS);
    }
    let text = fs::read_to_string(MOUNTS).map_err(|e| format!("{MOUNTS}: {e}"))?;
    let last_first = writable_mounts(&text).into_iter().rev();
    let left: Vec<_> = last_first
        .filter_map(|at| unmount_or_protect(&at).err())
        .collect();
    if left.is_empty() {
        Ok(SUCCESS)
    } else {
        Err(format!("stays mounted: {}", left.join(", ")))
    }
}

fn unmount_or_protect(at: &Path) -> Result<(), String> {
    let failed = |e| format!("{}: {e}", at.display());
    mount::unmount(at)
        .or_else(|_| mount::make_read_only(at))
        .map_err(failed)
}

/// The mount points of writable file systems on disks, in the order in which they were mounted, from the lines of
/// proc_pid_mountinfo(5).
fn writable_mounts(mountinfo: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let (mount, source) = line.split_once(" - ")?;
        let mut source = source.split(' ').skip(1);
        let (device, options) = (source.next()?, source.next()?);
        let is_written = device.starts_with("/dev/") && options.split(',').next() == Some("rw");
        let at = mount
            .split(' ')
            .nth(4)
            .filter(|at| is_written && *at != "/")?;
        Some(PathBuf::from(unescaped(at)))
    };
    mountinfo.lines().filter_map(of_line).collect()
}

/// Blanks, tabs, newlines and backslashes are written as three octal digits.
fn unescaped(text: &str) -> String {
    [
        (r"\040", " "),
        (r"\011", "\t"),
        (r"\012", "\n"),
        (r"\134", r"\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_that_can_be_written_are_found_and_memory_and_images_are_not() {
        let text = "1 1 0:2 / / rw - rootfs rootfs rw\n\
                    22 1 0:20 / /proc rw,nosuid - proc proc rw\n\
                    30 1 7:0 / /run/firstlight/driver ro - squashfs /dev/loop0 ro,errors=continue\n\
                    31 1 8:1 / /data rw,noatime shared:1 master:2 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                    32 31 0:40 /sub /data/my\\040files rw - btrfs /dev/sdb rw,ssd\n\
                    33 1 8:3 / /image ro - ext4 /dev/sda3 ro\n\
                    34 1 8:2 / / rw - ext4 /dev/sda2 rw\n\
                    broken line - \n";
        assert_eq!(
            writable_mounts(text),
            [PathBuf::from("/data"), PathBuf::from("/data/my files")]
        );
    }
}
