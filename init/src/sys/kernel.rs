//! System calls about the kernel itself: its command line, release, modules, log, clocks and error names; the host
//! name; power off and restart.

use crate::file_io::read_at_most;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime, clock_settime};
use rustix::fs::{Mode, OFlags};
use rustix::system::RebootCommand;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// No command line is longer (COMMAND_LINE_SIZE is 2048 on x86).
const LONGEST: u64 = 1 << 16;

/// The kernel's command line; bytes that are not UTF-8 are replaced and match no key.
#[must_use]
pub fn command_line() -> String {
    read_at_most(Path::new("/proc/cmdline"), LONGEST).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// The running kernel's release, as in /lib/modules.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// Loads a module from a file, which the kernel decompresses when `compressed`.
///
/// # Errors
/// As finit_module(2).
pub fn load_module(file: &File, parameters: &str, compressed: bool) -> io::Result<()> {
    const COMPRESSED_FILE: i32 = 4; // MODULE_INIT_COMPRESSED_FILE
    let parameters = CString::new(parameters)?;
    let flags = if compressed { COMPRESSED_FILE } else { 0 };
    Ok(rustix::system::finit_module(file, &parameters, flags)?)
}

/// Removes a module that nothing uses.
///
/// # Errors
/// As delete_module(2); `EWOULDBLOCK` when something uses it.
pub fn remove_module(name: &str) -> io::Result<()> {
    const NONBLOCK: i32 = 0o4000; // O_NONBLOCK: never waits for the last user
    Ok(rustix::system::delete_module(
        &CString::new(name)?,
        NONBLOCK,
    )?)
}

/// This machine's name.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Sets the host name.
///
/// # Errors
/// As sethostname(2).
pub fn set_hostname(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Makes Ctrl-Alt-Del send SIGINT to process 1 instead of resetting the machine.
///
/// # Errors
/// As reboot(2); it is refused in a process id namespace.
pub fn catch_ctrl_alt_del() -> io::Result<()> {
    Ok(rustix::system::reboot(RebootCommand::CadOff)?)
}

/// Restarts the machine or powers it off; returns only if that failed, with the reason.
#[must_use]
pub fn reboot_or_power_off(restart: bool) -> String {
    let command = if restart {
        RebootCommand::Restart
    } else {
        RebootCommand::PowerOff
    };
    let refused = rustix::system::reboot(command).err();
    refused.map_or_else(
        || "the kernel gave no reason".to_owned(),
        |e| io::Error::from(e).to_string(),
    )
}

/// Whether this process belongs to the machine itself, and not to a process id namespace: there, anything that outlives
/// process 1, such as a watchdog or a variable of the firmware, would belong to another system.
#[must_use]
pub fn in_initial_namespace() -> bool {
    const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFC; // PROC_PID_INIT_INO of include/linux/proc_ns.h
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|file| file.ino() == INITIAL_NAMESPACE)
}

/// Restarts the machine or powers it off at once, without the shutdown of any device: for a machine whose shutdown hangs.
///
/// # Errors
/// As write(2), and in a process id namespace, where this would bring down a machine that is not ours.
pub fn end_by_sysrq(restart: bool) -> io::Result<()> {
    if !in_initial_namespace() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Documentation/admin-guide/sysrq.rst
    std::fs::write("/proc/sysrq-trigger", if restart { "b" } else { "o" })
}

/// Opens the kernel's log, or a file in its place, so that reading never waits.
///
/// # Errors
/// As open(2).
pub fn open_log(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// The name of an error number, e.g. `ENODEV`.
#[must_use]
pub fn error_name(number: i32) -> String {
    match nix::errno::Errno::from_raw(number) {
        nix::errno::Errno::UnknownErrno => format!("error {number}"),
        known => format!("{known:?}"),
    }
}

/// Time since the kernel started.
#[must_use]
pub fn since_boot() -> Duration {
    // Through libc, which found the kernel's vDSO at its start; rustix would search for it again. Every
    // supported kernel has this clock; without it only the printed times would be wrong.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

/// A correction of the system clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockCorrection {
    /// Whether the clock is moved forward.
    pub forward: bool,
    /// By how much.
    pub by: Duration,
}

/// Corrects the clock of the date.
///
/// # Errors
/// As clock_settime(2), and when the result is not a valid date.
pub fn move_clock(by: ClockCorrection) -> io::Result<()> {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_REALTIME)?);
    let then = if by.forward {
        now.checked_add(by.by)
    } else {
        now.checked_sub(by.by)
    };
    let then = then.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(clock_settime(
        ClockId::CLOCK_REALTIME,
        TimeSpec::from_duration(then),
    )?)
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
