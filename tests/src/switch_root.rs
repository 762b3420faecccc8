//! A small root file system for the hand-over by switch-root: ext4 or squashfs, with a shell from the
//! image itself and an init that tells what it found.

use crate::error::{Error, Result};
use crate::image::Image;
use crate::program::run;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Writes the root's files to `dir`: a static shell and `init`.
///
/// # Errors
/// When the image holds no shell or a file cannot be written.
pub fn tree(image: &Image, dir: &Path, init: &str) -> Result<()> {
    let shell = image.file("bin/busybox").or_else(|_| image.file("usr/bin/busybox"))?;
    let write = || -> io::Result<()> {
        for folder in ["bin", "sbin", "proc", "sys", "dev", "run", "tmp", "etc"] {
            fs::create_dir_all(dir.join(folder))?;
        }
        let place = |path: &str, data: &[u8]| {
            let path = dir.join(path);
            fs::write(&path, data)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
        };
        place("bin/busybox", &shell.data)?;
        place("sbin/init", init.as_bytes())
    };
    write().map_err(Error::file("write the tree", dir))
}

/// An ext4 file system of `dir`'s files, labelled, `mib` MiB large.
///
/// # Errors
/// When mke2fs does not make it.
pub fn ext4(dir: &Path, label: &str, mib: u32, out: PathBuf) -> Result<PathBuf> {
    let size = format!("{mib}M");
    let options = ["-q", "-t", "ext4", "-L", label, "-d"];
    run(Command::new("mke2fs").args(options).arg(dir).arg(&out).arg(size))?;
    Ok(out)
}

/// A squashfs file of `dir`'s files.
///
/// # Errors
/// When mksquashfs does not make it.
pub fn squashfs(dir: &Path, out: PathBuf) -> Result<PathBuf> {
    let options = ["-quiet", "-no-progress", "-all-root", "-comp", "zstd"];
    run(Command::new("mksquashfs").arg(dir).arg(&out).args(options))?;
    Ok(out)
}
