//! Real block devices for the machines of these tests.

use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A block device with an ext4 file system made of a folder; detached when dropped.
pub(crate) struct Disk {
    /// Its name in /dev.
    pub(crate) name: String,
    _file: TempDir,
}

impl Disk {
    /// Makes it.
    pub(crate) fn of(folder: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-d"]).args([folder, &file]).status().unwrap();
        assert!(made.success());
        let out = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let path = String::from_utf8(out.stdout).unwrap();
        Self { name: path.trim().trim_start_matches("/dev/").to_owned(), _file: dir }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        Command::new("losetup").arg("--detach").arg(format!("/dev/{}", self.name)).status().unwrap();
    }
}
