//! System calls about files and folders.

use rustix::fs::{AtFlags, Dir, FileType, IFlags, Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Opens a folder, so that it stays reachable after its path is gone.
///
/// # Errors
/// As open(2).
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// As [`open_folder`], with `root` as `/` for the path and for every symbolic link in it.
///
/// # Errors
/// As openat2(2).
pub fn open_folder_in(root: &Path, path: &str) -> io::Result<OwnedFd> {
    open_in(root, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a file for reading so that neither this nor reading waits, with `root` as `/` for the path and for every symbolic
/// link in it.
///
/// # Errors
/// As openat2(2).
pub fn open_file_in(root: &Path, path: &str) -> io::Result<File> {
    open_in(
        root,
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
    )
    .map(File::from)
}

fn open_in(root: &Path, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(
        open_folder(root)?,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    )?)
}

/// Whether `path` is an executable file, with `root` as `/` for the path and for every symbolic link in it.
#[must_use]
pub fn is_program_in(root: &Path, path: &str) -> bool {
    let file = open_in(root, path, OFlags::PATH);
    let mode = file
        .and_then(|file| Ok(rustix::fs::fstat(&file)?))
        .map(|stat| stat.st_mode);
    mode.is_ok_and(|mode| {
        FileType::from_raw_mode(mode) == FileType::RegularFile && mode & 0o111 != 0
    })
}

/// Makes a file writable that its file system protects: efivarfs makes variables that it does not know immutable. Does
/// nothing for a file that does not exist.
///
/// # Errors
/// As open(2). A failure to remove the protection is not an error here; it shows when the file is changed.
pub fn allow_changes(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => {
            let _without_flags = rustix::fs::ioctl_setflags(file, IFlags::empty());
            Ok(())
        }
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Protects a file: it cannot be changed, replaced or removed until [`allow_changes`] is called for it. Does nothing where the file
/// does not exist or the file system has no such flag (tmpfs has it since Linux 6.0).
pub fn forbid_changes(path: &Path) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) {
        let _without_flags = rustix::fs::ioctl_setflags(file, IFlags::IMMUTABLE);
    }
}

/// Whether a folder shows the variables of this machine's firmware (efivarfs).
#[must_use]
pub fn is_efivarfs(folder: &Path) -> bool {
    is_of(folder, 0xDE5E_81E4) // EFIVARFS_MAGIC of include/uapi/linux/magic.h
}

/// Whether a folder shows this machine's devices (sysfs).
#[must_use]
pub fn is_sysfs(folder: &Path) -> bool {
    is_of(folder, 0x6265_6572) // SYSFS_MAGIC
}

fn is_of(folder: &Path, magic: u64) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|about| about.f_type.cast_unsigned() == magic)
}

/// Writes the cached data of all file systems to the disks. May take as long as the slowest disk.
pub fn sync() {
    rustix::fs::sync();
}

/// Removes everything in the folder if it is in memory (rootfs or tmpfs), so that it no longer uses memory;
/// other mounts below it are left alone. Best effort: a failure only costs memory.
pub fn empty_memory_root(folder: &OwnedFd) {
    const RAMFS: u64 = 0x8584_58F6;
    const TMPFS: u64 = 0x0102_1994;
    let magic = rustix::fs::fstatfs(folder).map(|fs| fs.f_type.unsigned_abs());
    let device = rustix::fs::fstat(folder).map(|stat| stat.st_dev);
    if let (Ok(RAMFS | TMPFS), Ok(device)) = (magic, device) {
        empty(folder.as_fd(), device);
    }
}

fn empty(folder: BorrowedFd<'_>, device: u64) {
    let Ok(entries) = Dir::read_from(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let below = rustix::fs::openat(folder, name, flags, Mode::empty());
        let flags = match below {
            Ok(below) if rustix::fs::fstat(&below).is_ok_and(|stat| stat.st_dev == device) => {
                empty(below.as_fd(), device);
                AtFlags::REMOVEDIR
            }
            Ok(_) => continue,
            Err(_) => AtFlags::empty(),
        };
        let _best_effort = rustix::fs::unlinkat(folder, name, flags);
    }
}
