//! A file system in a file: a loop device of it, if it is one that nobody can write to.

use super::superblock::{HEAD, Kind, Superblock, probe};
use crate::sys::loop_device::attach;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A loop device of an image file, gone with its last user, and what the file holds.
///
/// # Errors
/// A line naming the file and what is wrong with it.
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
        None => Err(format!("{path}: is no file system, allowed: squashfs, erofs")),
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
        assert!(loop_device(path).unwrap_err().ends_with("is no file system, allowed: squashfs, erofs"));
        fs::write(path, "XFSB".to_owned() + &"\0".repeat(HEAD)).unwrap();
        assert!(loop_device(path).unwrap_err().ends_with("is xfs, allowed: squashfs, erofs"));
        fs::write(path, "").unwrap();
        assert!(loop_device(path).is_err());
    }
}
