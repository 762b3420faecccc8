//! Mounts a new root where it can be inspected before it becomes `/`. Runs in a child (disks can hang) that
//! shares the mounts of process 1. A read-only file system gets a writable layer in memory; an image file of one is
//! attached to a loop device.

use super::find::{Found, find_waiting};
use super::origin::Disks;
use super::superblock::{HEAD, Kind, Superblock, probe};
use crate::config::types::RootSource;
use crate::sys::devices::attach as attach_loop;
use crate::sys::mount::{self, Flags};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// How long the disk may take to appear.
const WAIT: Duration = Duration::from_secs(10);

/// Mount points for the parts of a root; `/run` is moved into the new root.
const MEDIUM: &str = "/run/firstlight/root/medium";
const LOWER: &str = "/run/firstlight/root/lower";
const MEMORY: &str = "/run/firstlight/root/memory";

/// Mounts `source` at `target`.
///
/// # Errors
/// A line that names the step and the cause. Anything mounted before the failure stays mounted; the root is not
/// used then.
pub fn mount(source: &RootSource, target: &Path) -> Result<(), String> {
    let RootSource::Disk { place, image } = source else { return Err("is not on a disk".to_owned()) };
    // Any disk, because only the configuration names the place.
    let found = find_waiting(place, WAIT, Disks::Any).found;
    let Found { device, kind } = found.map_err(|e| e.to_string())?;
    match image {
        None => lay(&device, kind, target),
        Some(image) => {
            attach(&device, kind, MEDIUM, Flags::RDONLY)?;
            mount_image(&format!("{MEDIUM}{image}"), target)
        }
    }
}

/// Mounts an image file at `target`.
///
/// # Errors
/// As [`mount`].
pub fn mount_image(image: &str, target: &Path) -> Result<(), String> {
    let (device, kind) = loop_device(image)?;
    lay(&device, kind, target)
}

fn lay(device: &str, kind: Kind, target: &Path) -> Result<(), String> {
    if !kind.is_read_only() {
        return attach(device, kind, &target.to_string_lossy(), Flags::empty());
    }
    attach(device, kind, LOWER, Flags::RDONLY)?;
    folder(MEMORY)?;
    mount::mount("tmpfs", Path::new(MEMORY), "tmpfs", Flags::empty(), "mode=0755")
        .map_err(|e| format!("tmpfs: {e}"))?;
    let (upper, work) = (format!("{MEMORY}/upper"), format!("{MEMORY}/work"));
    folder(&upper)?;
    folder(&work)?;
    folder(&target.to_string_lossy())?;
    let data = format!("lowerdir={LOWER},upperdir={upper},workdir={work}");
    mount::mount("overlay", target, "overlay", Flags::empty(), &data).map_err(|e| format!("overlay: {e}"))
}

fn attach(device: &str, kind: Kind, at: &str, flags: Flags) -> Result<(), String> {
    if kind == Kind::Xfs {
        return Err(format!("{device}: is xfs, allowed: vfat, ext4, squashfs, erofs"));
    }
    folder(at)?;
    let name = kind.name();
    mount::mount(device, Path::new(at), name, flags, "")
        .map_err(|e| format!("{device} as {name} on {at}: {e}"))
}

fn folder(path: &str) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|e| format!("{path}: {e}"))
}

/// Attaches an image file to a loop device, which is released with its last user, and returns the device
/// and the file system.
///
/// # Errors
/// A line that names the file and the cause.
pub fn loop_device(path: &str) -> Result<(String, Kind), String> {
    let file = File::open(path).map_err(|e| format!("{path}: {e}"))?;
    let mut head = vec![0; HEAD];
    let length = file.read_at(&mut head, 0).map_err(|e| format!("{path}: {e}"))?;
    head.truncate(length);
    match probe(&head) {
        Some(Superblock { kind, .. }) if kind.is_read_only() => {
            attach_loop(&file).map(|device| (device, kind)).map_err(|e| format!("{path}: loop: {e}"))
        }
        Some(other) => Err(format!("{path}: is {}, allowed: squashfs, erofs", other.kind.name())),
        None => Err(format!("{path}: holds no known file system, allowed: squashfs, erofs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_xfs_is_refused_by_name_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new-root");
        let error = lay("/dev/sdb1", Kind::Xfs, &target).unwrap_err();
        assert_eq!(error, "/dev/sdb1: is xfs, allowed: vfat, ext4, squashfs, erofs");
        assert!(!target.exists());
    }

    #[test]
    fn an_image_that_is_no_squashfs_or_erofs_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root.img");
        fs::write(&path, vec![0; HEAD]).unwrap();
        let path = path.to_str().unwrap();
        assert!(
            loop_device(path).unwrap_err().ends_with("holds no known file system, allowed: squashfs, erofs")
        );
        fs::write(path, "XFSB".to_owned() + &"\0".repeat(HEAD)).unwrap();
        assert!(loop_device(path).unwrap_err().ends_with("is xfs, allowed: squashfs, erofs"));
        fs::write(path, "").unwrap();
        assert!(loop_device(path).is_err());
    }
}
