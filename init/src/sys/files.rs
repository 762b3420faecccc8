//! System calls about mounts, block devices and descriptors.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags};
use rustix::ioctl;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub use rustix::mount::MountFlags as Flags;

/// Makes file descriptors 0, 1 and 2 exist, so that no file opened later gets one of them: a kernel
/// without a console starts process 1 with none. They show the root folder, which cannot be
/// written.
pub fn fill_standard_descriptors() {
    while let Ok(fd) = rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
        if fd.as_raw_fd() > 2 {
            return;
        }
        std::mem::forget(fd);
    }
}

/// Mounts a file system.
///
/// # Errors
/// As mount(2).
pub fn mount(what: &str, at: &Path, fs: &str, flags: MountFlags, data: &str) -> io::Result<()> {
    let data = CString::new(data)?;
    Ok(rustix::mount::mount(what, at, fs, flags, (!data.is_empty()).then_some(data.as_c_str()))?)
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

/// Gives this process mounts of its own, which vanish with it.
///
/// # Errors
/// As unshare(2) and mount(2).
pub fn own_mounts() -> io::Result<()> {
    #[expect(unsafe_code, reason = "rustix marks every unshare unsafe because of CLONE_FILES")]
    // SAFETY: only CLONE_NEWNS is asked for; descriptors stay shared as they are.
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// Whether something is mounted on exactly this folder.
///
/// # Errors
/// As statx(2); the folder is missing.
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

/// Attaches a file to a free loop device, read-only and gone with its last user; its path.
///
/// # Errors
/// As the loop driver says.
pub fn loop_device(image: &File) -> io::Result<String> {
    /// Somebody else may take the free device first.
    const TRIES: usize = 32;
    let busy = |e: &io::Error| e.kind() == io::ErrorKind::ResourceBusy;
    let tried = (1..TRIES).map(|_| attach(image)).find(|tried| !tried.as_ref().is_err_and(busy));
    tried.unwrap_or_else(|| attach(image))
}

fn attach(image: &File) -> io::Result<String> {
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
    let control = File::options().read(true).write(true).open("/dev/loop-control")?;
    let number = loop_number::<GET_FREE>(&control)?;
    let path = format!("/dev/loop{number}");
    // Read-only: the kernel mounts no block device that somebody has open for writing.
    let device = File::open(&path)?;
    let fd = u32::try_from(image.as_raw_fd()).map_err(io::Error::other)?;
    let config =
        LoopConfig { fd, block_size: 0, before_flags: [0; 52], flags: READ_ONLY_AUTOCLEAR, rest: [0; 240] };
    #[expect(unsafe_code, reason = "the loop driver is told by ioctl only")]
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config` of 304 bytes, which this is, and keeps
    // no pointer to it.
    unsafe {
        ioctl::ioctl(&device, ioctl::Setter::<CONFIGURE, LoopConfig>::new(config))?;
    }
    std::mem::forget(device); // autoclear: it must stay open until it is mounted
    Ok(path)
}

/// LOOP_CTL_GET_FREE answers by its return value.
fn loop_number<const CODE: ioctl::Opcode>(control: &File) -> io::Result<i32> {
    struct GetFree<const CODE: ioctl::Opcode>;
    #[expect(unsafe_code, reason = "the trait is unsafe to implement: it says what the kernel touches")]
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
    #[expect(unsafe_code, reason = "the loop driver is told by ioctl only")]
    // SAFETY: as promised above, for the one opcode this is used with.
    unsafe {
        Ok(ioctl::ioctl(control, GetFree::<CODE>)?)
    }
}

/// Writes all cached data of all file systems out. May take as long as the slowest disk.
pub fn sync() {
    rustix::fs::sync();
}

/// Major and minor of a device number as `st_rdev` has it.
#[must_use]
pub fn device_number(device: u64) -> (u32, u32) {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Major and minor of the device that a path names; `None` when there is none.
#[must_use]
pub fn number_of(path: &Path) -> Option<(u32, u32)> {
    let device = std::fs::metadata(path).ok()?.rdev();
    (device != 0).then(|| device_number(device))
}

/// As [`number_of`], of something open; a file that is no device is told apart by its inode.
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

/// Standard output, without what std keeps for it.
#[must_use]
pub fn standard_output() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

/// Opens a terminal to be written to: never waiting, never becoming ours, always at the end of what
/// is a plain file.
///
/// # Errors
/// As open(2); `EIO` for a serial port that is not there.
pub fn open_terminal(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a terminal to be read and written, without waiting for a carrier.
///
/// # Errors
/// As open(2).
pub fn open_terminal_both_ways(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a folder, to reach it when it has no name any more.
///
/// # Errors
/// As open(2).
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Whether `path` is a file that may be executed, with `root` as `/` for it and for every symbolic
/// link on the way.
#[must_use]
pub fn is_program_in(root: &Path, path: &str) -> bool {
    let Ok(root) = open_folder(root) else { return false };
    let file = rustix::fs::openat2(
        &root,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT,
    );
    let mode = file.and_then(|file| rustix::fs::fstat(&file)).map(|stat| stat.st_mode);
    mode.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::RegularFile && mode & 0o111 != 0)
}

/// Removes everything in the folder, if it lies in memory (rootfs or tmpfs) and so would go on
/// using it; never what is mounted on something in it. Best effort: memory is all that is at stake.
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
    let Ok(entries) = Dir::read_from(folder) else { return };
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
