//! System calls about terminals: opening them, which device they are, their rate, what they have still to send.

use rustix::fs::{Mode, OFlags};
use rustix::ioctl;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Opens a terminal to be written to: never waiting, never becoming ours, always at the end of what
/// is a plain file.
///
/// # Errors
/// As open(2); `EIO` for a serial port that is not there.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a terminal to be read and written, without waiting for a carrier.
///
/// # Errors
/// As open(2).
pub fn open_both_ways(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Standard output, without what std keeps for it.
#[must_use]
pub fn standard_output() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

/// The number of the device that a terminal really is: `/dev/console` and `/dev/tty0` stand for
/// others. `None` for what is no terminal.
#[must_use]
pub fn number(terminal: BorrowedFd<'_>) -> Option<(u32, u32)> {
    const REAL_DEVICE: ioctl::Opcode = 0x8004_5432; // TIOCGDEV
    #[expect(unsafe_code, reason = "rustix has no TIOCGDEV")]
    // SAFETY: TIOCGDEV writes one unsigned int.
    let device = unsafe { ioctl::ioctl(terminal, ioctl::Getter::<REAL_DEVICE, u32>::new()) }.ok()?;
    // new_encode_dev() of include/linux/kdev_t.h
    Some(((device & 0xf_ff00) >> 8, (device & 0xff) | ((device >> 12) & 0xf_ff00)))
}

/// How many bytes a terminal has still to send; `None` for what is no terminal.
#[must_use]
pub fn unsent(terminal: BorrowedFd<'_>) -> Option<usize> {
    const OUTPUT_QUEUE: ioctl::Opcode = 0x5411; // TIOCOUTQ
    #[expect(unsafe_code, reason = "rustix has no TIOCOUTQ")]
    // SAFETY: TIOCOUTQ writes one int.
    let count = unsafe { ioctl::ioctl(terminal, ioctl::Getter::<OUTPUT_QUEUE, i32>::new()) };
    usize::try_from(count.ok()?).ok()
}

/// Sets a serial line's rate.
///
/// # Errors
/// As tcsetattr(3).
pub fn set_rate(line: BorrowedFd<'_>, rate: u32) -> io::Result<()> {
    let mut settings = tcgetattr(line)?;
    settings.set_speed(rate)?;
    Ok(tcsetattr(line, OptionalActions::Now, &settings)?)
}

/// Takes O_NONBLOCK off, for a descriptor that a child gets.
///
/// # Errors
/// As fcntl(2).
pub fn set_blocking(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
}
