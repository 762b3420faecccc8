//! System calls about device nodes, and the names of the kernel's error numbers.

use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::Path;

/// Makes a character device; its rights are exactly `mode`, whatever the umask.
///
/// # Errors
/// As mknod(2) and chmod(2).
pub fn make_character_device(path: &Path, major: u32, minor: u32, mode: u32) -> io::Result<()> {
    let rights = Mode::from_raw_mode(mode & 0o777);
    let number = rustix::fs::makedev(major, minor);
    rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, rights, number)?;
    Ok(rustix::fs::chmod(path, rights)?)
}

/// Opens a device to be read and written; a driver may take its time, and may hang.
///
/// # Errors
/// As open(2).
pub fn open_device(path: &Path) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Opens the kernel's log, or what stands in its place, so that reading it never waits.
///
/// # Errors
/// As open(2).
pub fn open_log(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// An error number by its name, `ENODEV`.
#[must_use]
pub fn error_name(number: i32) -> String {
    match nix::errno::Errno::from_raw(number) {
        nix::errno::Errno::UnknownErrno => format!("error {number}"),
        known => format!("{known:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names_also_the_unknown_ones() {
        assert_eq!(error_name(19), "ENODEV");
        assert_eq!(error_name(129), "EKEYREJECTED");
        assert_eq!(error_name(524), "error 524");
    }
}
