//! System calls about device nodes and device numbers.

use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes a character device with exactly the permissions `mode`, independent of the umask.
///
/// # Errors
/// As mknod(2) and chmod(2).
pub fn make_character_device(path: &Path, major: u32, minor: u32, mode: u32) -> io::Result<()> {
    let rights = Mode::from_raw_mode(mode & 0o777);
    let number = rustix::fs::makedev(major, minor);
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, rights, number)?;
    Ok(rustix::fs::chmod(path, rights)?)
}

/// Opens a device for reading and writing; this can take long and can hang.
///
/// # Errors
/// As open(2).
pub fn open_device(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Major and minor of a device number in the form of `st_rdev`.
#[must_use]
pub fn device_number(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Major and minor of the device at a path; `None` when it is not a device.
#[must_use]
pub fn number_of(path: &Path) -> Option<(u32, u32)> {
    let device = std::fs::metadata(path).ok()?.rdev();
    (device != 0).then(|| device_number(device))
}

/// As [`number_of`], for an open descriptor; a file that is not a device gets a number from its inode.
///
/// # Errors
/// As fstat(2).
pub fn number_of_open(open: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let stat = rustix::fs::fstat(open)?;
    Ok(match stat.st_rdev {
        0 => (u32::MAX, u32::try_from(stat.st_ino).unwrap_or(u32::MAX)),
        device => device_number(device),
    })
}
