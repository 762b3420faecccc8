//! System calls about mounts and the root folder of this process.

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::path::Path;

pub use rustix::mount::MountFlags as Flags;

/// Mounts a file system.
///
/// # Errors
/// As mount(2).
pub fn mount(what: &str, at: &Path, fs: &str, flags: MountFlags, data: &str) -> io::Result<()> {
    let data = CString::new(data)?;
    Ok(rustix::mount::mount(
        what,
        at,
        fs,
        flags,
        (!data.is_empty()).then_some(data.as_c_str()),
    )?)
}

/// Mounts the file system of this name unless something is mounted there; false when something was.
///
/// # Errors
/// As mount(2), and that the folder is missing.
pub fn mount_once(what: &str, at: &Path, flags: MountFlags, data: &str) -> io::Result<bool> {
    if is_mount_point(at)? {
        return Ok(false);
    }
    match mount(what, at, what, flags, data) {
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        other => other.map(|()| true),
    }
}

/// Moves a mount.
///
/// # Errors
/// As mount(2) with `MS_MOVE`.
pub fn move_mount(from: &Path, to: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_move(from, to)?)
}

/// Unmounts.
///
/// # Errors
/// As umount(2).
pub fn unmount(at: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(at, UnmountFlags::empty())?)
}

/// Makes a mounted file system read-only, wherever it is mounted.
///
/// # Errors
/// As mount(2) with `MS_REMOUNT`.
pub fn make_read_only(at: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_remount(at, MountFlags::RDONLY, "")?)
}

/// Gives this process its own mount namespace, which disappears with it.
///
/// # Errors
/// As unshare(2) and mount(2).
pub fn unshare_mounts() -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix marks every unshare unsafe because of CLONE_FILES"
    )]
    // SAFETY: only CLONE_NEWNS is asked for; descriptors stay shared as they are.
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// Whether exactly this folder is a mount point.
///
/// # Errors
/// As statx(2), also when the folder is missing.
pub fn is_mount_point(at: &Path) -> io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statx(rustix::fs::CWD, at, flags, StatxFlags::BASIC_STATS)?;
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Makes the current folder this process's root.
///
/// # Errors
/// As chroot(2) and chdir(2).
pub fn enter_root_here() -> io::Result<()> {
    rustix::process::chroot(".")?;
    Ok(rustix::process::chdir("/")?)
}
