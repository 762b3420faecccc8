//! System calls about devices: their nodes and numbers, and loop devices, to which a file is attached.

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::ioctl;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Attaches a file to a free loop device, read-only, released with its last user; returns the device's
/// path.
///
/// # Errors
/// As the loop driver reports.
pub fn attach(image: &File) -> io::Result<String> {
    /// Another process may take the free device first.
    const TRIES: usize = 32;
    let busy = |e: &io::Error| e.kind() == io::ErrorKind::ResourceBusy;
    let tried = (1..TRIES)
        .map(|_| attach_once(image))
        .find(|tried| !tried.as_ref().is_err_and(busy));
    tried.unwrap_or_else(|| attach_once(image))
}

fn attach_once(image: &File) -> io::Result<String> {
    /// `struct loop_config` of linux/loop.h: descriptor, block size, `struct loop_info64` (232
    /// bytes, whose `lo_flags` is at 52), reserved.
    #[repr(C)]
    struct LoopConfig {
        fd: u32,
        block_size: u32,
        before_flags: [u8; 52],
        flags: u32,
        rest: [u8; 240],
    }
    const GET_FREE: ioctl::Opcode = 0x4C82;
    const CONFIGURE: ioctl::Opcode = 0x4C0A;
    const READ_ONLY_AUTOCLEAR: u32 = 1 | 4;
    let control = File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    let number = loop_number::<GET_FREE>(&control)?;
    let path = format!("/dev/loop{number}");
    // Read-only, because the kernel refuses to mount a block device that is open for writing.
    let device = File::open(&path)?;
    let fd = u32::try_from(image.as_raw_fd()).map_err(io::Error::other)?;
    let config = LoopConfig {
        fd,
        block_size: 0,
        before_flags: [0; 52],
        flags: READ_ONLY_AUTOCLEAR,
        rest: [0; 240],
    };
    #[expect(unsafe_code, reason = "the loop driver is configured by ioctl only")]
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config` of 304 bytes, which this is, and keeps
    // no pointer to it.
    unsafe {
        ioctl::ioctl(&device, ioctl::Setter::<CONFIGURE, LoopConfig>::new(config))?;
    }
    std::mem::forget(device); // autoclear: it must stay open until it is mounted
    Ok(path)
}

/// LOOP_CTL_GET_FREE returns the number as its return value.
fn loop_number<const CODE: ioctl::Opcode>(control: &File) -> io::Result<i32> {
    struct GetFree<const CODE: ioctl::Opcode>;
    #[expect(
        unsafe_code,
        reason = "the trait is unsafe to implement: it says what the kernel touches"
    )]
    // SAFETY: the opcode takes no argument and touches no memory; its answer is the return value.
    unsafe impl<const CODE: ioctl::Opcode> ioctl::Ioctl for GetFree<CODE> {
        type Output = i32;
        const IS_MUTATING: bool = false;
        fn opcode(&self) -> ioctl::Opcode {
            CODE
        }
        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }
        unsafe fn output_from_ptr(
            answer: ioctl::IoctlOutput,
            _: *mut std::ffi::c_void,
        ) -> rustix::io::Result<i32> {
            Ok(answer)
        }
    }
    #[expect(unsafe_code, reason = "the loop driver is configured by ioctl only")]
    // SAFETY: as promised above, for the one opcode this is used with.
    unsafe {
        Ok(ioctl::ioctl(control, GetFree::<CODE>)?)
    }
}

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
