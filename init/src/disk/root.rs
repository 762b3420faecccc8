//! Mounts a new root where it can be inspected before it becomes `/`. Runs in a child (disks can hang) that
//! shares the mounts of process 1. A read-only file system gets a writable layer in memory; an image file of one is
//! attached to a loop device.

use super::eligibility::AllowedDisks;
use super::find::{FoundDevice, find_waiting};
use super::superblock::{FileSystem, HEAD, Superblock, probe};
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
    let RootSource::Disk { place, image } = source else {
        return Err("is not on a disk".to_owned());
    };
    // Any disk, because only the configuration names the place.
    let found = find_waiting(place, WAIT, AllowedDisks::Any).found;
    let FoundDevice { device, kind } = found.map_err(|e| e.to_string())?;
    match image {
        None => mount_layered(&device, kind, target),
        Some(image) => {
            mount_device(&device, kind, MEDIUM, Flags::RDONLY)?;
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
    mount_layered(&device, kind, target)
}

fn mount_layered(device: &str, kind: FileSystem, target: &Path) -> Result<(), String> {
    if !kind.is_read_only() {
        return mount_device(device, kind, &target.to_string_lossy(), Flags::empty());
    }
    mount_device(device, kind, LOWER, Flags::RDONLY)?;
    make_folder(MEMORY)?;
    mount::mount(
        "tmpfs",
        Path::new(MEMORY),
        "tmpfs",
        Flags::empty(),
        "mode=0755",
    )
    .map_err(|e| format!("tmpfs: {e}"))?;
    let (upper, work) = (format!("{MEMORY}/upper"), format!("{MEMORY}/work"));
    make_folder(&upper)?;
    make_folder(&work)?;
    make_folder(&target.to_string_lossy())?;
    let data = format!("lowerdir={LOWER},upperdir={upper},workdir={work}");
    mount::mount("overlay", target, "overlay", Flags::empty(), &data)
        .map_err(|e| format!("overlay: {e}"))
}

fn mount_device(device: &str, kind: FileSystem, at: &str, flags: Flags) -> Result<(), String> {
    if kind == FileSystem::Xfs {
        return Err(format!(
            "{device}: is xfs, allowed: vfat, ext4, squashfs, erofs"
        ));
    }
    make_folder(at)?;
    let name = kind.name();
    mount::mount(device, Path::new(at), name, flags, "")
        .map_err(|e| format!("{device} as {name} on {at}: {e}"))
}

fn make_folder(path: &str) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|e| format!("{path}: {e}"))
}

/// Attaches an image file to a loop device, which is released with its last user, and returns the device
/// and the file system.
///
/// # Errors
/// A line that names the file and the cause.
pub fn loop_device(path: &str) -> Result<(String, FileSystem), String> {
    let file = File::open(path).map_err(|e| format!("{path}: {e}"))?;
    let mut head = vec![0; HEAD];
    let length = file
        .read_at(&mut head, 0)
        .map_err(|e| format!("{path}: {e}"))?;
    head.truncate(length);
    match probe(&head) {
        Some(Superblock { kind, .. }) if kind.is_read_only() => attach_loop(&file)
            .map(|device| (device, kind))
            .map_err(|e| format!("{path}: loop: {e}")),
        Some(other) => Err(format!(
            "{path}: is {}, allowed: squashfs, erofs",
            other.kind.name()
        )),
        None => Err(format!(
            "{path}: holds no known file system, allowed: squashfs, erofs"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_xfs_is_refused_by_name_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new-root");
        let error = mount_layered("/dev/sdb1", FileSystem::Xfs, &target).unwrap_err();
        assert_eq!(
            error,
            "/dev/sdb1: is xfs, allowed: vfat, ext4, squashfs, erofs"
        );
        assert!(!target.exists());
    }

    #[test]
    fn an_image_that_is_no_squashfs_or_erofs_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root.img");
        fs::write(&path, vec![0; HEAD]).unwrap();
        let path = path.to_str().unwrap();
        assert!(
            loop_device(path)
                .unwrap_err()
                .ends_with("holds no known file system, allowed: squashfs, erofs")
        );
        fs::write(path, "XFSB".to_owned() + &"\0".repeat(HEAD)).unwrap();
        assert!(
            loop_device(path)
                .unwrap_err()
                .ends_with("is xfs, allowed: squashfs, erofs")
        );
        fs::write(path, "").unwrap();
        assert!(loop_device(path).is_err());
    }
}
