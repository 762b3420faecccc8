//! Attaches an image file to a loop device, if it holds a read-only file system.

use super::superblock::{HEAD, Kind, Superblock, probe};
use crate::sys::loop_device::attach;
use std::fs::File;
use std::os::unix::fs::FileExt;

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
            attach(&file).map(|device| (device, kind)).map_err(|e| format!("{path}: loop: {e}"))
        }
        Some(other) => Err(format!("{path}: is {}, allowed: squashfs, erofs", other.kind.name())),
        None => Err(format!("{path}: holds no known file system, allowed: squashfs, erofs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
