//! After the verdict: policies, both kinds of hand-over to a workload, its end, shutdown on request, and the watchdog.

mod exec;
mod left_behind;
mod policy;
mod switch_root;
mod watchdog;

use harness::Image;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes the files of a small root for the hand-over by switch-root to `dir`: a static shell from the image itself,
/// and the script `init` as its init.
fn write_root(image: &Image, dir: &Path, init: &str) {
    let shell = image
        .file("bin/busybox")
        .or_else(|_| image.file("usr/bin/busybox"))
        .unwrap();
    for folder in ["bin", "sbin", "proc", "sys", "dev", "run", "tmp", "etc"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    for (path, data) in [
        ("bin/busybox", &shell.data[..]),
        ("sbin/init", init.as_bytes()),
    ] {
        let path = dir.join(path);
        fs::write(&path, data).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Makes an ext4 file system of `mib` MiB with this label and the files of `dir`.
fn ext4_of(dir: &Path, label: &str, mib: u32, out: PathBuf) -> PathBuf {
    let size = format!("{mib}M");
    let options = ["-q", "-t", "ext4", "-L", label, "-d"];
    let made = Command::new("mke2fs")
        .args(options)
        .arg(dir)
        .arg(&out)
        .arg(size)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    out
}
