//! System calls about the machine: its clock, terminals, modules, name, network and power.

use super::process::readable;
use crate::file_io::read_at_most;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use rustix::fs::OFlags;
use rustix::ioctl;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use rustix::system::RebootCommand;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// Time since the kernel started.
#[must_use]
pub fn since_boot() -> Duration {
    // By libc, which found the kernel's clock page at its start; rustix would look for it again. Every
    // kernel that we run on has this clock; one that has not only spoils the times we print.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// By how much a clock is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Whether it is behind.
    pub forward: bool,
    /// How much.
    pub by: Duration,
}

/// Moves the clock that tells the date.
///
/// # Errors
/// As clock_settime(2), and when there is no such date.
pub fn move_clock(by: Move) -> io::Result<()> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
    let then = if by.forward { now.checked_add(by.by) } else { now.checked_sub(by.by) };
    let then = then.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from_duration(then))?)
}

/// No command line is longer (COMMAND_LINE_SIZE is 2048 on x86).
const LONGEST: u64 = 1 << 16;

/// The words that the kernel was given; what is no UTF-8 in them can match no key.
#[must_use]
pub fn command_line() -> String {
    read_at_most(Path::new("/proc/cmdline"), LONGEST)
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The number of the device that a terminal really is: `/dev/console` and `/dev/tty0` stand for
/// others. `None` for what is no terminal.
#[must_use]
pub fn terminal_number(terminal: BorrowedFd<'_>) -> Option<(u32, u32)> {
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

/// Loads a module from a file, which the kernel unpacks itself when `compressed`.
///
/// # Errors
/// As finit_module(2).
pub fn load_module(file: &File, parameters: &str, compressed: bool) -> io::Result<()> {
    const COMPRESSED_FILE: i32 = 4; // MODULE_INIT_COMPRESSED_FILE
    let parameters = CString::new(parameters)?;
    let flags = if compressed { COMPRESSED_FILE } else { 0 };
    Ok(rustix::system::finit_module(file, &parameters, flags)?)
}

/// The running kernel's release, as in /lib/modules.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Names the machine.
///
/// # Errors
/// This machine's name.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// As sethostname(2).
pub fn set_hostname(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Sends one rtnetlink request and reads its acknowledgement.
///
/// # Errors
/// What the kernel answered.
pub fn route_request(message: &[u8]) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    rustix::net::send(&socket, message, SendFlags::empty())?;
    if !readable(&[socket.as_fd()], Some(Duration::from_secs(2))).contains(&true) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut answer = [0; 4096];
    let (length, _) = rustix::net::recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    super::netlink::acknowledged(answer.get(..length).unwrap_or(&[]))
}

/// Makes Ctrl-Alt-Del a SIGINT to process 1 instead of a reset.
///
/// # Errors
/// As reboot(2); in a process id namespace it is refused.
pub fn catch_ctrl_alt_del() -> io::Result<()> {
    Ok(rustix::system::reboot(RebootCommand::CadOff)?)
}

/// Turns the machine off; returns only when that was refused.
#[must_use]
pub fn power_off() -> Option<io::Error> {
    rustix::system::reboot(RebootCommand::PowerOff).err().map(Into::into)
}

/// Restarts the machine; returns only when that was refused.
#[must_use]
pub fn restart() -> Option<io::Error> {
    rustix::system::reboot(RebootCommand::Restart).err().map(Into::into)
}
