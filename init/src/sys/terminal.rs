//! System calls about terminals: opening them, their device numbers, their rate, and their unsent bytes; and what text they
//! may get.

use rustix::fs::{Mode, OFlags};
use rustix::ioctl;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Returns the line without characters that must not be sent to a console.
#[must_use]
pub fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.strip_suffix('\r').unwrap_or(&text);
    text.chars()
        .map(|c| {
            if contract::text::is_invisible(c) && c != '\t' {
                '?'
            } else {
                c
            }
        })
        .collect()
}

/// Opens a terminal for writing: without waiting, without making it the controlling terminal, and at the
/// end of the file if it is a regular file.
///
/// # Errors
/// As open(2); `EIO` for a serial port that is not there.
pub fn open(path: &Path) -> io::Result<File> {
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens a terminal for reading and writing, without waiting for a carrier.
///
/// # Errors
/// As open(2).
pub fn open_both_ways(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Standard output, without std's buffer.
#[must_use]
pub fn standard_output() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

/// The number of the device behind a terminal: `/dev/console` and `/dev/tty0` are aliases of other devices.
/// `None` if it is not a terminal.
#[must_use]
pub fn number(terminal: BorrowedFd<'_>) -> Option<(u32, u32)> {
    const REAL_DEVICE: ioctl::Opcode = 0x8004_5432; // TIOCGDEV
    #[expect(unsafe_code, reason = "rustix has no TIOCGDEV")]
    // SAFETY: TIOCGDEV writes one unsigned int.
    let device =
        unsafe { ioctl::ioctl(terminal, ioctl::Getter::<REAL_DEVICE, u32>::new()) }.ok()?;
    // new_encode_dev() of include/linux/kdev_t.h
    Some((
        (device & 0xf_ff00) >> 8,
        (device & 0xff) | ((device >> 12) & 0xf_ff00),
    ))
}

/// How many bytes a terminal has not sent yet; `None` if it is not a terminal.
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

/// Removes O_NONBLOCK, for a descriptor that is passed to a child.
///
/// # Errors
/// As fcntl(2).
pub fn set_blocking(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_bad_utf8_are_made_harmless() {
        assert_eq!(printable(b"\x1b[2Jhi\x07\t\xff\r"), "?[2Jhi?\t\u{fffd}");
    }
}
